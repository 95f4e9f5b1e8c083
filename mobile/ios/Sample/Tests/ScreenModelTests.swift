import Foundation
import OmniDraft
import XCTest

@testable import OmniDraftSample

private let question = "How many legs do 3 cats have?"

@MainActor
// On Linux the list of tests, which SwiftPM writes, passes a test to the main actor. It has no state.
final class ScreenModelTests: XCTestCase, @unchecked Sendable {
    nonisolated override class func tearDown() {
        XCTAssertNoThrow(try FileManager.default.removeItem(at: Desk.root))
    }

    func testABundleIsUnpackedOpenedAndAnswers() async throws {
        let desk = Desk()
        desk.watch()
        desk.model.open(.file(try Starter.place("starter-a.zip")))
        try await desk.until { $0.phase != .opening }
        XCTAssertEqual(desk.model.notice, "")
        XCTAssertEqual(desk.model.title, "starter-a")
        XCTAssertEqual(desk.told.compactMap(\.progress).last, 1)
        let text = try await desk.answer(question)
        XCTAssertFalse(text.isEmpty)
        XCTAssertTrue(desk.model.turns[0].spans.contains { $0.drafted > 0 })
        XCTAssertTrue(desk.model.turns[0].spans.allSatisfy { $0.drafted <= 1 })
        XCTAssertGreaterThan(desk.model.acceptance.count, 1)
        XCTAssertTrue(desk.model.acceptance.allSatisfy { (0...1).contains($0) })
        XCTAssertGreaterThan(desk.model.tokensPerSecond[.speculative] ?? 0, 0)
        try await desk.until { _ in desk.told.last?.phase == .ready }
        XCTAssertEqual(desk.told.last?.turns, [Turn(id: 0, message: question, spans: desk.model.turns[0].spans)])
        XCTAssertEqual(desk.told.first?.phase, .empty)
        XCTAssertTrue(desk.told.contains { $0.phase == .opening })
        XCTAssertEqual(desk.model.message, "")
        // The device remembers that the bundle was checked. It keeps costs only where they could be measured in time.
        let state = Desk.root.appendingPathComponent("state").path
        XCTAssertGreaterThanOrEqual(try FileManager.default.subpathsOfDirectory(atPath: state).count, 2)
    }

    func testTheTextIsTheSameWithoutDraftsAndBothSpeedsAreShown() async throws {
        let drafted = try await Desk().open().answer(question)
        let desk = try await Desk().open("speeds")
        let plain = try await desk.answer(question, .plain)
        XCTAssertEqual(plain, drafted)
        XCTAssertTrue(desk.model.turns[0].spans.allSatisfy { $0.drafted == 0 })
        _ = try await desk.answer("And 4 dogs?")
        XCTAssertEqual(Set(desk.model.tokensPerSecond.keys), [.plain, .speculative])
        let line = "^speeds - with drafts [0-9.]+ tokens/s - without [0-9.]+ tokens/s - [0-9.]+ times$"
        XCTAssertNotNil(desk.model.status.range(of: line, options: .regularExpression), desk.model.status)
    }

    func testABenchmarkIsOneLineOfFiguresAndLeavesTheConversation() async throws {
        let desk = try await Desk().open("measured")
        let text = try await desk.answer(question)
        desk.model.measure()
        try await desk.until { $0.phase == .ready }
        let line = try XCTUnwrap(desk.model.benchmark, desk.model.notice)
        XCTAssertFalse(line.contains("\n"))
        let figures = try XCTUnwrap(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        XCTAssertEqual(figures["bundle"] as? String, "measured")
        XCTAssertEqual(figures["form"] as? String, "fp32")
        for key in ["plain_tokens_per_second", "drafted_tokens_per_second", "tokens_per_target_pass", "cores"] {
            XCTAssertGreaterThan(figures[key] as? Double ?? 0, 0, key)
        }
        XCTAssertEqual(figures["heat"] as? Int, 0)
        XCTAssertEqual(desk.model.turns.map(\.answer), [text])
    }

    func testARotationInTheMiddleOfAnAnswerLosesNoText() async throws {
        let whole = try await Desk().open().answer(question)
        let desk = try await Desk().open()
        desk.watch()
        desk.send(question)
        try await desk.until { $0.turns[0].spans.count > 1 }
        desk.unwatch()
        let seen = desk.told.count
        try await desk.until { $0.turns[0].spans.count > 3 }
        XCTAssertEqual(desk.told.count, seen)
        desk.watch()
        XCTAssertEqual(desk.told.last, Desk.Told(desk.model))
        try await desk.until { _ in desk.told.last?.phase == .ready }
        XCTAssertEqual(desk.told.last?.turns.map(\.answer), [whole])
    }

    func testACancelledAnswerKeepsItsTextAndTheConversationGoesOn() async throws {
        let whole = try await Desk(tokens: 200).open().answer(question)
        let desk = try await Desk(tokens: 200).open()
        desk.send(question)
        try await desk.until { $0.turns[0].spans.count > 1 }
        desk.model.cancel()
        try await desk.until { $0.phase == .ready }
        let text = desk.model.turns[0].answer
        XCTAssertTrue(whole.hasPrefix(text) && !text.isEmpty, "\(text) is no beginning of \(whole)")
        XCTAssertTrue(desk.model.notice.contains("cancelled") || text == whole)
        let next = try await desk.answer("And 4 dogs?")
        XCTAssertFalse(next.isEmpty)
        XCTAssertEqual(desk.model.turns[0].answer, text)
    }

    func testAnAnswerThatIsCancelledBeforeItBeginsEndsAtOnce() async throws {
        let desk = try await Desk(tokens: 200).open()
        desk.send(question)
        desk.model.cancel()
        try await desk.until { $0.phase == .ready }
        XCTAssertTrue(desk.model.notice.contains("cancelled"), desk.model.notice)
        XCTAssertLessThanOrEqual(desk.model.turns[0].spans.count, 2)
    }

    func testAnAppThatLeavesTheForegroundSavesTheTextThatIsThere() async throws {
        let first = try await Desk(tokens: 200).open("leaving")
        first.send(question)
        try await first.until { $0.turns[0].spans.count > 1 }
        await first.model.leave()
        XCTAssertEqual(first.model.phase, .ready)
        XCTAssertFalse(first.model.turns[0].answer.isEmpty)
        let second = try await Desk().open("leaving")
        XCTAssertTrue(second.model.notice.contains("goes on"), second.model.notice)
    }

    func testARefusedBundleIsOneSentenceAndTheNextOneOpens() async throws {
        let desk = Desk()
        let bad = FileManager.default.temporaryDirectory.appendingPathComponent("bad-\(UUID().uuidString).zip")
        try Data("no archive".utf8).write(to: bad)
        defer { XCTAssertNoThrow(try FileManager.default.removeItem(at: bad)) }
        let (closed, closing) = AsyncStream<Void>.makeStream()
        desk.model.open(.file(bad) { closing.finish() })
        try await desk.until { !$0.notice.isEmpty }
        for await _ in closed {}  // the file may be closed
        XCTAssertEqual(desk.model.phase, .empty)
        desk.model.download("nothing", bytes: "12", sha256: "ab")
        XCTAssertEqual(desk.model.notice, "nothing is not an address")
        desk.model.download("http://example.org/a.zip", bytes: "12", sha256: String(repeating: "ab", count: 32))
        try await desk.until { $0.title == "a" && $0.phase == .empty }
        XCTAssertTrue(desk.model.notice.contains("https"), desk.model.notice)
        desk.send(question)
        await desk.model.settled()
        XCTAssertEqual(desk.model.turns, [])
        _ = try await desk.open()
    }

    func testWithoutTheDrafterTheTextIsTheSameAndItCanBeLoadedAgain() async throws {
        let whole = try await Desk().open().answer(question)
        let desk = try await Desk().open()
        desk.send(question)
        try await desk.until { $0.turns[0].spans.count > 1 }
        desk.model.lowMemory()
        XCTAssertFalse(desk.model.hasDrafter)
        try await desk.until { $0.phase == .ready }
        XCTAssertEqual(desk.model.turns[0].answer, whole)
        desk.model.loadDrafter()
        await desk.model.settled()
        XCTAssertTrue(desk.model.hasDrafter)
        let next = try await desk.answer("And 4 dogs?")
        XCTAssertFalse(next.isEmpty)
    }

    func testHeatPausesAnAnswerUntilItFalls() async throws {
        let desk = try await Desk().open()
        desk.model.thermal(3)
        XCTAssertEqual(desk.model.heat, 3)
        XCTAssertTrue(desk.model.status.hasSuffix("too hot: waiting"))
        desk.send(question)
        desk.model.thermal(0)
        try await desk.until { $0.phase == .ready }
        XCTAssertFalse(desk.model.turns[0].answer.isEmpty)
        let levels = (-1...4).map { state -> Int in
            desk.model.thermal(state)
            return desk.model.heat
        }
        XCTAssertEqual(levels, [0, 0, 1, 2, 3, 3])
    }

    func testAnotherBundleTakesThePlaceOfOneThatAnswers() async throws {
        let desk = try await Desk(tokens: 200).open("first")
        desk.send(question)
        try await desk.until { $0.turns[0].spans.count > 1 }
        desk.model.learn(true)  // of the first bundle
        _ = try await desk.open("second")
        XCTAssertEqual(desk.model.title, "second")
        await desk.model.settled()
        XCTAssertEqual(desk.model.turns, [])
        XCTAssertFalse(desk.model.isLearning)
        let text = try await desk.answer(question)
        XCTAssertFalse(text.isEmpty)
    }

    func testLearningIsASwitchAndWipingDeletesWhatWasRecorded() async throws {
        let desk = try await Desk().open("learner")
        let traces = Desk.root.appendingPathComponent("traces/learner").path
        XCTAssertFalse(desk.model.wantsLearning)
        _ = try await desk.answer(question)
        XCTAssertFalse(FileManager.default.fileExists(atPath: traces))
        desk.model.wantsLearning = true
        await desk.model.settled()
        XCTAssertTrue(desk.model.isLearning, desk.model.notice)
        _ = try await desk.answer("And 4 dogs?")
        XCTAssertFalse(try FileManager.default.contentsOfDirectory(atPath: traces).isEmpty)
        // The same bundle again: the switch stays, and the directory of the session before is free.
        _ = try await desk.open("learner")
        XCTAssertTrue(desk.model.isLearning, desk.model.notice)
        desk.model.wipe()
        await desk.model.settled()
        XCTAssertFalse(desk.model.isLearning)
        XCTAssertEqual((try? FileManager.default.contentsOfDirectory(atPath: traces)) ?? [], [])
        _ = try await desk.open("learner")
        XCTAssertFalse(desk.model.isLearning)
    }

    func testTheBundleThatLearnsDoesSoInIdleTime() async throws {
        let choice = Choice(name: "idle", place: .directory(try Starter.place("unpacked")))
        let nothing = await Desk(inApp: [choice]).model.learnInIdleTime(seconds: 1)
        XCTAssertFalse(nothing)
        do {
            let desk = try await Desk().open("idle")
            desk.model.learn(true)
            _ = try await desk.answer(question)
        }
        let desk = Desk(inApp: [choice])
        let learning = Task { await desk.model.learnInIdleTime(seconds: 5) }
        _ = await learning.value
        XCTAssertEqual(desk.model.title, "idle")
        XCTAssertTrue(desk.model.notice.contains("of learning"), desk.model.notice)
        let cancelled = Task { await desk.model.learnInIdleTime(seconds: 600) }
        cancelled.cancel()
        let isFinished = await cancelled.value
        XCTAssertFalse(isFinished)
        desk.model.learn(false)
        await desk.model.settled()
    }

    func testWithXnnpackOrWithoutItThereIsAnAnswer() async throws {
        let desk = try await Desk(provider: .xnnpack).open()
        #if os(Linux)
            XCTAssertTrue(desk.model.notice.contains("running on the CPU"), desk.model.notice)
        #endif
        let text = try await desk.answer(question)
        XCTAssertFalse(text.isEmpty)
    }

    func testAConversationGoesOnAfterTheAppWasEnded() async throws {
        _ = try await Desk().open("talk").answer(question)
        let desk = try await Desk().open("talk")
        XCTAssertTrue(desk.model.notice.contains("goes on"), desk.model.notice)
        let next = try await desk.answer("And 4 dogs?")
        XCTAssertFalse(next.isEmpty)
    }
}
