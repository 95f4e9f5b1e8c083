import Foundation
import OmniDraft
import XCTest

/// The interface of spec/08-phones.md, on a starter bundle: what an app can see of it, and nothing else.
final class ApiTests: XCTestCase {
    private let question = "How many legs do 3 cats have?"
    private let config = GenerationConfig(maxNewTokens: 40, numDraftTokens: 4)

    func testPiecesMakeTheResult() async throws {
        let session = try await PublicModel.shared().session()
        let before = await session.result
        XCTAssertNil(before)
        XCTAssertNil(session.stopReason)
        var pieces: [Piece] = []
        for try await piece in session.generate(question, config) { pieces.append(piece) }
        let found = await session.result
        let result = try XCTUnwrap(found)
        XCTAssertEqual(pieces.map(\.text).joined(), result.text)
        XCTAssertEqual(pieces.flatMap(\.tokenIds), result.tokenIds)
        XCTAssertEqual(pieces.map(\.drafted).reduce(0, +), result.stats.accepted)
        XCTAssertEqual(result.text, result.answer)
        XCTAssertEqual(result.thought, "")
        XCTAssertTrue(pieces.allSatisfy { $0.kind == .text })
        XCTAssertEqual(result.tokenIds.count, result.stats.emitted)
        XCTAssertEqual(result.stats.rounds, session.stats.rounds)
        XCTAssertEqual(result.stopReason, session.stopReason)
        XCTAssertGreaterThan(result.stats.tokensPerTargetPass, 1)
        XCTAssertGreaterThan(result.stats.acceptance, 0)
        XCTAssertGreaterThan(result.stats.firstTokenSeconds, 0)
        XCTAssertGreaterThan(try XCTUnwrap(session.stats.peakMemory), 0)
        XCTAssertEqual(result.logprobs, [])
        XCTAssertEqual(session.stats.answers, 1)
    }

    func testLogProbabilitiesComeWhereTheyAreAskedFor() async throws {
        let session = try await PublicModel.shared().session()
        var config = config
        config.logprobs = true
        let result = try await session.result(of: session.generate(question, config))
        XCTAssertEqual(result.logprobs.count, result.tokenIds.count)
        XCTAssertTrue(result.logprobs.allSatisfy { $0 <= 0 })
    }

    func testASlowReaderGetsTheSamePieces() async throws {
        let session = try await PublicModel.shared().session()
        let whole = try await session.result(of: session.generate(question, config))
        try await forget(session)
        var text = ""
        for try await piece in session.generate(question, config) {
            let rounds = session.stats.rounds
            try await Task.sleep(nanoseconds: 5_000_000)
            XCTAssertEqual(session.stats.rounds, rounds, "nothing runs ahead of the reader")
            text += piece.text
        }
        XCTAssertEqual(text, whole.text)
    }

    func testRefusalsComeBeforeTheFirstPiece() async throws {
        let session = try await PublicModel.shared().session()
        let before = try await session.result(of: session.generate(question, config)).stats
        for prompt in ["", "  ", String(repeating: "a b ", count: 2000)] {
            try await refuses("prompt", session.generate(prompt, config))
        }
        for wrong in wrongSettings() {
            try await refuses("setting", session.chat(question, wrong))
        }
        XCTAssertEqual(session.stats.rounds, before.rounds)
        try await refuses("session", session.regenerate(config))
        try await refuses("session", session.resume())
        await refuses("session") { try await session.undo() }
        let twice = [ChatMessage(role: "user", content: "a"), ChatMessage(role: "user", content: "b")]
        try await refuses("prompt", session.chat(twice, config))
        XCTAssertEqual(session.stats.answers, 1)
    }

    private func wrongSettings() -> [GenerationConfig] {
        let changes: [(inout GenerationConfig) -> Void] = [
            { $0.topP = 1.5 }, { $0.maxNewTokens = 0 }, { $0.temperature = .nan }, { $0.numDraftTokens = 49 },
            { $0.stop = [""] }, { $0.topK = -1 }, { $0.topK = 1 << 31 }, { $0.maxNewTokens = .max }, { $0.minP = -0.1 },
            { $0.repetitionPenalty = 0 }, { $0.stop = Array(repeating: "x", count: 65) },
        ]
        return changes.map { change in
            var config = config
            change(&config)
            return config
        }
    }

    func testAConversation() async throws {
        let session = try await PublicModel.shared().session()
        try await session.setSystem("You count legs.")
        let first = try await session.result(of: session.chat(question, config))
        let second = try await session.result(of: session.chat("And 4 dogs?", config))
        XCTAssertLessThan(second.stats.read, first.stats.read + second.stats.emitted)
        let again = try await session.result(of: session.regenerate(config))
        XCTAssertEqual(again.tokenIds, second.tokenIds)
        let taken = try await session.undo()
        XCTAssertEqual(taken, "And 4 dogs?")
        let listed = [
            ChatMessage(role: "system", content: "You count legs."), ChatMessage(role: "user", content: question),
            ChatMessage(role: "assistant", content: first.answer), ChatMessage(role: "user", content: "And 4 dogs?"),
        ]
        let given = try await session.result(of: session.chat(listed, config))
        XCTAssertEqual(given.tokenIds, second.tokenIds)
        let system = await session.system
        XCTAssertEqual(system, "You count legs.")
        try await session.reset()
        XCTAssertEqual(session.stats.answers, 0)
        try await session.setSystem(nil)
        let none = await session.system
        XCTAssertNil(none)
    }

    func testACopyGoesOnAlikeAndTheOriginalIsUntouched() async throws {
        var sampled = config
        (sampled.temperature, sampled.seed) = (1, 7)
        let (unbroken, session) = (try await PublicModel.shared().session(), try await PublicModel.shared().session())
        for each in [unbroken, session] { _ = try await each.result(of: each.chat(question, config)) }
        let expected = try await unbroken.result(of: unbroken.chat("And 4 dogs?", sampled)).tokenIds
        let later = try await unbroken.result(of: unbroken.chat("And in all?", sampled)).tokenIds
        var pieces = 0
        for try await _ in session.chat("And 4 dogs?", sampled) {
            pieces += 1
            if pieces != 3 { continue }
            let copy = try await session.copy()
            XCTAssertEqual(copy.stats.answers, 0)
            let (used, copied) = (await session.contextUsed, await copy.contextUsed)
            XCTAssertEqual(copied, used)
            let resumed = try await copy.result(of: copy.resume()).tokenIds
            XCTAssertEqual(resumed, expected)
            let next = try await copy.result(of: copy.chat("And in all?", sampled)).tokenIds
            XCTAssertEqual(next, later)
            await refuses("setting") { try await copy.learning.on() }
        }
        XCTAssertGreaterThan(pieces, 3)
        let result = await session.result
        XCTAssertEqual(result?.tokenIds, expected)
        let next = try await session.result(of: session.chat("And in all?", sampled)).tokenIds
        XCTAssertEqual(next, later)
    }

    func testASavedAnswerGoesOn() async throws {
        let (saved, cache) = (scratch("session"), scratch("odc"))
        defer { for url in [saved, cache] { unlink(url.path) } }
        var sampled = config
        sampled.temperature = 1
        sampled.seed = .max - 6
        let session = try await PublicModel.shared().session()
        var pieces = 0
        for try await _ in session.chat(question, sampled) {
            pieces += 1
            if pieces == 3 { try await session.save(to: saved) }
        }
        try await session.saveCache(to: cache)
        let found = await session.result
        let whole = try XCTUnwrap(found)
        let other = try await PublicModel.shared().session(SessionOptions(cache: cache))
        try await other.load(from: saved)
        XCTAssertEqual(other.notices, [])
        let resumed = try await other.result(of: other.resume())
        XCTAssertEqual(resumed.tokenIds, whole.tokenIds)
        XCTAssertEqual(resumed.text, whole.text)
    }

    func testFilesOfOtherKindsAreRefused() async throws {
        let session = try await PublicModel.shared().session()
        let file = scratch("session")
        defer { unlink(file.path) }
        try Data("not a session".utf8).write(to: file)
        await refuses("sessionFile") { try await session.load(from: file) }
        await refuses("sessionFile") { try await session.save(to: file) }
        await refuses("cacheFile") { try await session.saveCache(to: file) }
        let web = URL(string: "https://example.com/x")!
        await refuses("setting") { try await session.save(to: web) }
        let refused = try await PublicModel.shared().session(SessionOptions(cache: file))
        XCTAssertEqual(refused.notices.map(\.kind), [.emptyCache])
        let message = refused.notices[0].message
        XCTAssertTrue(message.contains(file.path), message)
        let saved = scratch("session")
        defer { unlink(saved.path) }
        try await refused.save(to: saved)
        try await refused.load(from: saved)
        XCTAssertEqual(refused.notices.map(\.kind), [.emptyCache])
    }

    func testTheDrafterComesAndGoes() async throws {
        let session = try await PublicModel.shared().session()
        var long = config
        long.ignoreEos = true
        let whole = try await session.result(of: session.generate(question, long)).tokenIds
        try await forget(session)
        let ids = try await session.generate(question, long).ids { session.dropDrafter() }
        XCTAssertEqual(ids, whole)
        let found = await session.result
        let without = try XCTUnwrap(found)
        XCTAssertGreaterThan(without.stats.drafted, 0)
        try await session.loadDrafter()
        let with = try await session.result(of: session.generate(question, long))
        XCTAssertEqual(with.tokenIds, whole)
        XCTAssertGreaterThan(with.stats.drafted, without.stats.drafted)
    }

    func testLevelsOfHeatChangeNoText() async throws {
        let session = try await PublicModel.shared().session()
        let whole = try await session.result(of: session.generate(question, config)).tokenIds
        session.throttle(2)
        let slow = try await session.result(of: session.generate(question, config)).tokenIds
        XCTAssertEqual(slow, whole)
        session.throttle(3)
        let stream = session.generate(question, config)
        let reader = Task { try await stream.ids() }
        session.throttle(0)
        let ids = try await reader.value
        XCTAssertEqual(ids, whole)
    }

    func testAPausedAnswerCanBeReadAndSaved() async throws {
        let session = try await PublicModel.shared().session()
        let whole = try await session.result(of: session.generate(question, config)).tokenIds
        let saved = scratch("session")
        defer { unlink(saved.path) }
        let (signal, began) = AsyncStream<Void>.makeStream()
        let stream = session.generate(question, config)
        let reader = Task { () -> [Int32] in
            var ids: [Int32] = []
            for try await piece in stream {
                if ids.isEmpty { session.throttle(3) }
                ids += piece.tokenIds
                began.yield()
            }
            return ids
        }
        let cooled = Task {
            try await Task.sleep(nanoseconds: 60_000_000_000)
            XCTFail("the session waits for a cool device")
            session.throttle(0)
        }
        for await _ in signal.prefix(1) {}
        try await Task.sleep(nanoseconds: 200_000_000)  // the reader asks for the next piece, and waits
        let used = await session.contextUsed
        XCTAssertGreaterThan(used, 0)
        try await session.save(to: saved)
        XCTAssertNil(session.stopReason)
        cooled.cancel()
        session.throttle(0)
        let ids = try await reader.value
        XCTAssertEqual(ids, whole)
    }

    /// A session without its text. The n-grams that it learned stay; they change drafts, never text.
    private func forget(_ session: TextSession) async throws { try await session.reset() }
}
