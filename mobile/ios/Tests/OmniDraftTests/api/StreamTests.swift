import Foundation
import XCTest

@testable import OmniDraft

/// Streams, and tasks that end or leave them.
final class StreamTests: XCTestCase {
    private let question = "How many legs do 3 cats have?"
    private let short = GenerationConfig(maxNewTokens: 24, numDraftTokens: 4)
    private let long = GenerationConfig(maxNewTokens: 400, numDraftTokens: 4, ignoreEos: true)

    func testCancellingTheTaskEndsTheText() async throws {
        let session = try await PublicModel.shared().session()
        let whole = try await session.result(of: session.generate(question, short)).tokenIds
        let stream = session.generate(question, long)
        let pieces = Guarded(0)
        let reader = Task {
            try await stream.ids {
                pieces.with { $0 += 1 }
                if pieces.with({ $0 }) == 3 { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        let ids = try await reader.value
        XCTAssertEqual(session.stopReason, .cancelled)
        let found = await session.result
        let result = try XCTUnwrap(found)
        XCTAssertEqual(result.stopReason, .cancelled)
        XCTAssertLessThan(result.tokenIds.count, 400)
        XCTAssertEqual(Array(result.tokenIds.prefix(ids.count)), ids)
        let after = try await session.result(of: session.generate(question, short)).tokenIds
        XCTAssertEqual(after, whole, "the session goes on")
    }

    func testATaskThatWasCancelledBeforeBeginsNothing() async throws {
        let session = try await PublicModel.shared().session()
        let stream = session.generate(question, long)
        let reader = Task { () -> Int in
            withUnsafeCurrentTask { $0?.cancel() }
            var pieces = 0
            for try await _ in stream { pieces += 1 }
            return pieces
        }
        let pieces = try await reader.value
        XCTAssertEqual(pieces, 0)
        XCTAssertEqual(session.stats.answers, 0)
        let after = try await session.result(of: session.generate(question, short))
        XCTAssertEqual(after.stats.emitted, after.tokenIds.count)
    }

    func testTheResultOfATaskThatWasCancelledBeforeIsNoEarlierAnswer() async throws {
        let session = try await PublicModel.shared().session()
        let (short, question) = (short, question)
        let read = session.generate(question, short)
        let earlier = try await session.result(of: read).tokenIds
        let reader = Task { () -> [Int32] in
            withUnsafeCurrentTask { $0?.cancel() }
            return try await session.result(of: session.generate(question, short)).tokenIds
        }
        do {
            let ids = try await reader.value
            XCTFail("the answer of another stream: \(ids)")
        } catch is CancellationError {}
        let again = try await session.result(of: read).tokenIds
        XCTAssertEqual(again, earlier, "the stream was read to its end before")
    }

    func testAnAbandonedStreamIsCancelled() async throws {
        let session = try await PublicModel.shared().session()
        let whole = try await session.result(of: session.generate(question, short)).tokenIds
        try await session.reset()
        try await readOne(session.generate(question, long))
        XCTAssertEqual(session.stopReason, .cancelled)
        let rounds = session.stats.rounds
        let found = await session.result
        XCTAssertEqual(found?.stopReason, .cancelled)
        XCTAssertEqual(session.stats.rounds, rounds)
        let after = try await session.result(of: session.generate(question, short)).tokenIds
        XCTAssertEqual(after, whole)
    }

    private func readOne(_ stream: AsyncThrowingStream<Piece, any Error>) async throws {
        for try await piece in stream {
            XCTAssertFalse(piece.tokenIds.isEmpty)
            break
        }
    }

    func testATextMayBeginAsSoonAsAStreamWasLeft() async throws {
        let session = try await PublicModel.shared().session()
        for _ in 0..<20 {
            try await readOne(session.generate(question, long))
            XCTAssertEqual(session.stopReason, .cancelled)
        }
        XCTAssertEqual(session.stats.answers, 20)
    }

    func testAnAbandonedAnswerIsTheAnswerSoFar() async throws {
        let session = try await PublicModel.shared().session()
        try await readOne(session.chat(question, long))
        let next = try await session.result(of: session.chat("And 4 dogs?", short))
        XCTAssertFalse(next.tokenIds.isEmpty)
        let taken = try await session.undo()
        XCTAssertEqual(taken, "And 4 dogs?")
        let first = try await session.undo()
        XCTAssertEqual(first, question)
        await refuses("session") { try await session.undo() }
    }

    func testCancelGivesTheLastTextAndEnds() async throws {
        let session = try await PublicModel.shared().session()
        session.cancel()
        var (text, ids): (String, [Int32]) = ("", [])
        for try await piece in session.generate(question, long) {
            text += piece.text
            ids += piece.tokenIds
            session.cancel()
            session.cancel()
        }
        let found = await session.result
        let result = try XCTUnwrap(found)
        XCTAssertEqual(result.stopReason, .cancelled)
        XCTAssertEqual(text, result.text)
        XCTAssertEqual(ids, result.tokenIds)
        XCTAssertEqual(result.stats.rounds, 1)
        session.cancel()
        try await refuses("session", session.resume())
    }

    func testASecondTextIsRefusedWhileOneIsWritten() async throws {
        let session = try await PublicModel.shared().session()
        var isTried = false
        for try await _ in session.generate(question, short) where !isTried {
            isTried = true
            try await refuses("session", session.chat(question, short))
            await refuses("session") { try await session.reset() }
            await refuses("session") { try await session.undo() }
        }
        XCTAssertTrue(isTried)
        let reason = try XCTUnwrap(session.stopReason)
        XCTAssertNotEqual(reason, .cancelled)
    }

    func testACancelledTextLeavesItsPlaceAtOnce() async throws {
        let session = try await PublicModel.shared().session()
        let stream = session.generate(question, long)
        var reader = stream.makeAsyncIterator()
        let first = try await reader.next()
        XCTAssertNotNil(first)
        session.cancel()
        XCTAssertEqual(session.stopReason, .cancelled)
        let second = try await session.result(of: session.generate(question, short))
        XCTAssertNotEqual(second.stopReason, .cancelled)
        var ids: [Int32] = []
        while let piece = try await reader.next() { ids += piece.tokenIds }
        XCTAssertEqual(ids, [], "no round ran after the text was cancelled")
        XCTAssertEqual(session.stopReason, second.stopReason)
    }

    func testTwoSessionsInTwoTasks() async throws {
        let model = try await PublicModel.shared()
        let prompts = [question, "Sam has 4 apples and eats 1. How many are left?"]
        var alone: [[Int32]] = []
        for prompt in prompts {
            let session = try await model.session()
            alone.append(try await session.result(of: session.generate(prompt, short)).tokenIds)
        }
        let config = short
        let together = try await withThrowingTaskGroup(of: (Int, [Int32]).self) { group in
            for (index, prompt) in (prompts + prompts).enumerated() {
                group.addTask {
                    let session = try await model.session()
                    return (index, try await session.result(of: session.generate(prompt, config)).tokenIds)
                }
            }
            return try await group.reduce(into: [Int: [Int32]]()) { $0[$1.0] = $1.1 }
        }
        for index in 0..<4 { XCTAssertEqual(together[index], alone[index % 2]) }
    }

    func testAStreamKeepsItsSessionAlive() async throws {
        var session: TextSession? = try await PublicModel.shared().session()
        let stream = session!.generate(question, short)
        session = nil
        let ids = try await stream.ids()
        XCTAssertFalse(ids.isEmpty)
    }

    func testLearningIsOffAndTakesADirectory() async throws {
        let session = try await PublicModel.shared().session()
        await refuses("session") { _ = try await session.learning.step(seconds: 1) }
        await refuses("setting") { try await session.learning.on() }
        session.learning.pause()
        await session.learning.off()
    }

    func testLearningRecordsTheAnswersOfASession() async throws {
        let traces = scratch("traces")
        defer { removeTree(traces.path) }
        let model = try await PublicModel.shared()
        var session: TextSession? = try await model.session(SessionOptions(traces: traces))
        try await session?.learning.on()
        if let session { _ = try await session.result(of: session.chat(question, short)) }
        session = nil
        let segments = try FileManager.default.contentsOfDirectory(atPath: traces.path)
        XCTAssertEqual(segments.filter { $0.hasSuffix(".odt") }.count, 1)
        // The directory is free as soon as the session is gone.
        let next = try await model.session(SessionOptions(traces: traces))
        try await next.learning.on()
        await next.learning.off()
    }
}
