import Foundation
import XCTest

@testable import OmniDraft

/// Learning as an app sees it: recording on and off, steps within a budget, going back and forgetting.
final class LearningControllerTests: FolderTestCase {
    func testTheInterfaceOfAnApp() async throws {
        let session = try SessionCore(StarterBundles.load("learning"))
        let learning = learningOf(session: session, options: options())
        await refused("learning is off") { _ = try await learning.step(seconds: 1) }
        try await learning.on()
        try answers(session, 0..<4)
        learning.pause()
        try answers(session, 4..<8)
        try await learning.on()
        try answers(session, 8..<11)
        let none = try await learning.step(seconds: 60)
        XCTAssertEqual(none.steps, 0, "seven answers were recorded, and an interval has eight")
        try answers(session, 11..<12)
        let outcome = try await learning.step(seconds: 600)
        XCTAssertTrue(outcome.steps > 0 && outcome.isFinished && outcome.uses && !outcome.wentBack)
        XCTAssertNotNil(outcome.loss)
        let used = try XCTUnwrap(inUse(session))
        XCTAssertEqual(used, try readAdapter("\(place)/learned/adapter.safetensors").digest)
        await learning.off()
        XCTAssertNil(session.trace)
        try await checkTheNextSession(session.loaded, used)
        try await learning.goBack()
        XCTAssertNil(inUse(session))
        try await checkForgetting(session, learning)
    }

    func testAnOutcomeOfACancelledStepIsWhatWasDone() async throws {
        let (_, learning) = try await learnerOfEight()
        let step = Task { try await learning.step(seconds: 600) }
        step.cancel()
        let outcome = try await step.value
        XCTAssertFalse(outcome.isFinished)
        XCTAssertFalse(outcome.uses)
        let rest = try await learning.step(seconds: 600)
        XCTAssertTrue(rest.isFinished && rest.uses)
    }

    func testOffEndsAStep() async throws {
        let (_, learning) = try await learnerOfEight()
        let step = Task { try await learning.step(seconds: 600) }
        for _ in 0..<1000 where !isDirectory("\(place)/learned") { try await Task.sleep(nanoseconds: 1_000_000) }
        await learning.off()  // while the step runs, or before it begins
        do {
            let outcome = try await step.value
            XCTAssertFalse(outcome.isFinished)
        } catch OmniDraftError.session(let refusal) {
            XCTAssert(refusal.message.contains("learning is off"), refusal.message)
        }
    }

    func testOffAndPauseCountBesideACallOfOnThatIsNotDone() async throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let learning = LearningController(session, options())
        func beside(_ call: () -> Task<Void, any Error>?) async throws {
            let gate = DispatchSemaphore(value: 0)
            learning.worker.begin { gate.wait() }
            try await until(learning.worker, 0)
            let on = Task { try await learning.on() }
            try await until(learning.worker, 1)
            let other = call()
            try await until(learning.worker, other == nil ? 1 : 2)
            gate.signal()
            try await on.value
            try await other?.value
        }
        try await beside {
            learning.pause()
            return nil
        }
        XCTAssertEqual(session.trace?.isRecording, false)
        try await learning.on()
        XCTAssertEqual(session.trace?.isRecording, true)
        await learning.off()
        try await beside { Task { await learning.off() } }
        XCTAssertNil(session.trace)
        await refused("learning is off") { _ = try await learning.step(seconds: 1) }
    }

    func testAHotDeviceDoesNotLearn() async throws {
        let (session, learning) = try await learnerOfEight()
        session.models.throttle.level = 1
        let outcome = try await learning.step(seconds: 600)
        XCTAssertEqual(outcome.steps, 0)
        XCTAssertFalse(outcome.isFinished)
    }

    func testAStepFitsTheMemoryThatIsFree() async throws {
        let (session, learning) = try await learnerOfEight()
        let bundle = session.bundle
        for free in [stepBytes(bundle, length: 8), 0, -1] {
            await refused("memory") { _ = try await learning.step(seconds: 60, freeMemory: free) }
        }
        XCTAssertEqual(try lengthWithin(bundle, freeMemory: stepBytes(bundle, length: 32)), 32)
        XCTAssertEqual(try lengthWithin(bundle, freeMemory: 1 << 40), bundle.drafter.kv.maxLength)
        let outcome = try await learning.step(seconds: 600, freeMemory: stepBytes(bundle, length: 32))
        XCTAssertGreaterThan(outcome.steps, 0)
        await refused("seconds") { _ = try await learning.step(seconds: .nan) }
    }

    func testABundleWithoutAStepIsRefusedByName() async throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let learning = learningOf(session: session, options: options())
        try await learning.on()
        await refused("training step") { _ = try await learning.step(seconds: 1) }
    }

    func testWithoutAPlaceNothingIsLearned() async throws {
        let session = try SessionCore(StarterBundles.load("a"))
        let learning = learningOf(session: session, options: SessionOptions())
        await refused("no directory for traces") { try await learning.on() }
        learning.pause()
        await learning.off()
    }

    func testASecondRecorderInTheSamePlaceIsRefused() async throws {
        let loaded = try StarterBundles.load("a")
        let (one, two) = (try SessionCore(loaded), try SessionCore(loaded))
        let first = learningOf(session: one, options: options())
        let second = learningOf(session: two, options: options())
        try await first.on()
        await refused("in_use") { try await second.on() }
        await first.off()
        try await second.on()
        await second.off()
    }

    /// A session that learns, and has eight answers to learn from.
    private func learnerOfEight() async throws -> (SessionCore, any Learning) {
        let session = try SessionCore(StarterBundles.load("learning"))
        let learning = learningOf(session: session, options: options())
        try await learning.on()
        try answers(session, 0..<8)
        return (session, learning)
    }

    /// Waits until the number of calls that have not begun is `waiting`.
    private func until(_ worker: Worker, _ waiting: Int) async throws {
        for _ in 0..<60_000 where worker.waiting != waiting { try await Task.sleep(nanoseconds: 1_000_000) }
        XCTAssertEqual(worker.waiting, waiting)
    }

    private func options() -> SessionOptions {
        SessionOptions(cache: url("cache.odc"), traces: url("traces"), learned: url("learned"))
    }

    private func url(_ name: String) -> URL { URL(fileURLWithPath: "\(place)/\(name)") }

    private func inUse(_ session: SessionCore) -> String? { session.models.adapters[.drafter]?.digest }

    /// What was learned is used again by the next session.
    private func checkTheNextSession(_ loaded: LoadedBundle, _ used: String) async throws {
        let next = try SessionCore(loaded)
        let learning = learningOf(session: next, options: options())
        try await learning.on()
        XCTAssertEqual(inUse(next), used)
        await learning.off()
    }

    private func checkForgetting(_ session: SessionCore, _ learning: any Learning) async throws {
        try session.saveCache("\(place)/cache.odc")
        try await learning.on()
        try answers(session, 0..<1)
        XCTAssertFalse(namesIn("\(place)/traces").isEmpty)
        try await learning.wipe()
        XCTAssertEqual(session.cache.count, 0)
        XCTAssertFalse(exists("\(place)/cache.odc"))
        XCTAssertEqual(namesIn("\(place)/traces"), [])
        XCTAssertEqual(namesIn("\(place)/learned").filter { $0.contains("safetensors") }, [])
        try answers(session, 0..<1)  // it goes on recording
        XCTAssertFalse(namesIn("\(place)/traces").isEmpty)
        await learning.off()
        try await learning.wipe()  // also while it is off
        XCTAssertEqual(namesIn("\(place)/traces"), [])
    }

    /// Fails unless a refusal has this fault, or says this.
    private func refused(_ what: String, _ body: () async throws -> Void) async {
        do {
            try await body()
            XCTFail("not refused: \(what)")
        } catch let error as OmniDraftError {
            XCTAssert(error.fault == what || error.refusal.message.contains(what), "\(error)")
        } catch {
            XCTFail("\(error)")
        }
    }
}
