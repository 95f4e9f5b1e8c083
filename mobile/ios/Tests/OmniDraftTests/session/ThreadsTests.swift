import Foundation
import OmniDraftORT
import XCTest

@testable import OmniDraft

/// Sessions on a starter bundle keep the rules of spec/08-phones.md about threads, costs, cancelling and adapters.
final class ThreadsTests: XCTestCase {
    private static let loaded = Result { try StarterBundles.load("a") }  // once: all files are hashed
    private let question = "How many legs do 3 cats have?"

    private func greedy(_ count: Int = 48, ignoreEos: Bool = false) -> GenerationConfig {
        GenerationConfig(maxNewTokens: count, numDraftTokens: 4, ignoreEos: ignoreEos)
    }

    /// Starts `work` in another thread, and gives a function that waits for its end.
    private func start(_ work: @escaping @Sendable () -> Void) -> () -> Void {
        let ended = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            work()
            ended.signal()
        }
        return { ended.wait() }
    }

    func testCancelFromAnotherThreadKeepsTheOutputSoFar() throws {
        let session = try SessionCore(Self.loaded.get())
        let whole = try session.generate(question, greedy()).finish().tokenIds
        let answer = try session.generate(question, greedy(400, ignoreEos: true))
        let begun = DispatchSemaphore(value: 0)
        let join = start {
            begun.wait()
            answer.cancel()
            answer.cancel()
        }
        var isJoined = false
        while try answer.next() != nil {
            begun.signal()
            if !isJoined && answer.tokenIds.count > 8 {  // else a fast machine ends the answer first
                join()
                isJoined = true
            }
        }
        XCTAssertEqual(answer.stopReason, .cancelled)
        let common = min(whole.count - 1, answer.tokenIds.count)  // an end token ends the first answer
        XCTAssertEqual(Array(answer.tokenIds.prefix(common)), Array(whole.prefix(common)))
        XCTAssertEqual(try session.generate(question, greedy()).finish().tokenIds, whole)
    }

    func testCancelDuringThePromptEndsTheAnswer() throws {
        let session = try SessionCore(Self.loaded.get())
        let whole = try session.generate(question, greedy()).finish().tokenIds
        let prompt = String(repeating: "A cat has four legs. ", count: 90)
        for milliseconds in [0, 1, 3, 10] {
            let long = try session.generate(prompt, greedy())
            let join = start {
                Thread.sleep(forTimeInterval: Double(milliseconds) / 1000)  // in the middle of some pass, or before it
                long.cancel()
            }
            try long.finish()
            join()
            XCTAssertNotNil(long.stopReason)
            XCTAssertEqual(try session.generate(question, greedy()).finish().tokenIds, whole)
        }
    }

    func testASecondUserIsRefusedAtOnce() throws {
        let session = try SessionCore(Self.loaded.get())
        let (question, config) = (question, greedy())
        let refused = Guarded("nothing")
        try session.models.turn { _ in
            start {
                do {
                    _ = try session.generate(question, config)
                } catch OmniDraftError.session(let refusal) {
                    refused.with { $0 = refusal.message }
                } catch {
                    refused.with { $0 = "another error" }
                }
            }()
        }
        XCTAssert(refused.with { $0 }.contains("in use"), refused.with { $0 })
        let old = try session.generate(question, config)
        _ = try session.generate(question, config)
        XCTAssertThrowsError(try old.next()) {
            XCTAssert(($0 as? OmniDraftError)?.refusal.message.contains("newer") == true)
        }
    }

    func testAnAdapterTakenInTheMiddleOfAnAnswerChangesNoGreedyText() throws {
        let adapter = try readAdapter(StarterBundles.directory("expected/a") + "/adapter.safetensors")
        let session = try SessionCore(Self.loaded.get())
        let whole = try session.generate(question, greedy()).finish().tokenIds
        let answer = try session.generate(question, greedy())
        _ = try answer.next()
        try session.useAdapter(adapter)
        XCTAssertEqual(try answer.finish().tokenIds, whole)
        XCTAssertEqual(session.models.digest(.drafter), adapter.digest)
        try session.useAdapter(nil)
        XCTAssertEqual(try session.generate(question, greedy()).finish().tokenIds, whole)
        XCTAssertNil(session.models.digest(.drafter))
    }

    func testNobodyWaitsForADrafterThatIsBeingLoadedAndItCanBeDropped() throws {
        let loaded = try Self.loaded.get()
        let (begun, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isSlow = Guarded(false)
        let slow = SharedGraph {
            if isSlow.with({ $0 }) {
                begun.signal()
                gate.wait()
            }
            let (bundle, entry) = (loaded.bundle, loaded.bundle.drafter)
            return try Graph(loaded.engine, path: bundle.file(entry.graph), kv: entry.kv, vocabSize: entry.vocabSize)
        }
        let own = LoadedBundle(
            loaded.bundle, target: loaded.target, targetTokenizer: loaded.targetTokenizer, vocabMap: loaded.vocabMap,
            drafter: slow, drafterTokenizer: loaded.drafterTokenizer, engine: loaded.engine)
        let models = try SessionModels(own)
        models.dropDrafter()
        isSlow.with { $0 = true }
        let failure = Guarded<(any Error)?>(nil)
        let join = start {
            do { try models.loadDrafter() } catch { failure.with { $0 = error } }
        }
        XCTAssertEqual(begun.wait(timeout: .now() + 60), .success)
        let dropped = DispatchSemaphore(value: 0)
        let joinDrop = start {
            models.interrupt()
            models.dropDrafter()
            dropped.signal()
        }
        XCTAssertEqual(dropped.wait(timeout: .now() + 60), .success)
        gate.signal()
        join()
        joinDrop()
        XCTAssertNil(failure.with { $0 })
        XCTAssertFalse(models.hasDrafter)
        isSlow.with { $0 = false }
        try models.loadDrafter()
        XCTAssertTrue(models.hasDrafter)
    }

    func testFewerThreadsAreTriedUntilTheyAreSlower() {
        /// The threads, and how many numbers were tried; speeds are tokens a second from the most threads on.
        func tried(_ speeds: Double?...) -> [Int] {
            var asked = 0
            let threads = fastestThreads(speeds.count) { threads in
                asked += 1
                return speeds[speeds.count - threads]
            }
            return [threads, asked]
        }
        XCTAssertEqual(tried(10, 9, 12, 1), [4, 2])
        XCTAssertEqual(tried(10, 9.6, 9.4, 1), [3, 3], "each is compared with the fastest")
        XCTAssertEqual(tried(10, 12, 11, 1), [3, 3])
        XCTAssertEqual(tried(1, 1), [1, 2])
        XCTAssertEqual(tried(1), [1, 0])
        XCTAssertEqual(tried(nil, 1), [2, 1], "nothing was measured")
        XCTAssertEqual(tried(1, nil), [2, 2])
    }

    func testCostsOfEachNumberOfThreadsAreKeptAndForgottenTogether() throws {
        try inDirectory { place in
            let engine = try OrtEngine.shared()
            let bundle = try openBundle(StarterBundles.directory("a"))
            let loading = Loading(engine: engine, state: StateDirectory(root: place), measureSeconds: 60)
            func kept(_ threads: Int) -> Costs? {
                let machine = thisMachine(onnxruntime: engine.version, threads: threads)
                return keptCosts(loading.state, seal: bundle.seal, machine)
            }
            let first = try loadBundle(bundle, loading, most: 2)
            XCTAssert([1, 2].allSatisfy { kept($0) != nil || bundle.measuredOn?.threads == $0 })
            let second = try loadBundle(bundle, loading, most: 2)
            XCTAssertEqual(first.costs, second.costs)
            XCTAssertNotEqual(second.device.source, .measured)
            second.device.forget()
            XCTAssertNil(kept(1) ?? kept(2))
        }
    }

    func testKeptCostsOfAnotherSpeedAreMeasuredAgain() throws {
        try inDirectory { place in
            let options = LoadOptions(threads: 2, state: URL(fileURLWithPath: place))
            let (engine, directory) = (try OrtEngine.shared(), try StarterBundles.directory("a"))
            func opened() throws -> LoadedBundle {
                try openLoaded(directory, options: options, engine: engine, measureSeconds: 60)
            }
            var plain = greedy(40, ignoreEos: true)
            plain.mode = .plain
            for (seconds, isKept) in [("3e112e0be826d695", false), ("408f400000000000", true)] {  // 1e-9 and 1000 s
                _ = try opened()
                let costs = joined(place, "costs")
                let record = joined(costs, try XCTUnwrap(namesIn(costs).first))
                let text = try String(contentsOfFile: record, encoding: .utf8)
                let falsified = text.replacingOccurrences(
                    of: #""target":\[[^\]]*\]"#, with: "\"target\":[\"\(seconds)\"]", options: .regularExpression)
                try falsified.write(toFile: record, atomically: false, encoding: .utf8)
                try SessionCore(opened()).generate(question, plain).finish()
                XCTAssertEqual(exists(record), isKept)
            }
        }
    }

    func testASessionThatNobodyUsesIsFreedAndItsGenerationGoesOn() throws {
        weak var models: SessionModels?
        var answer: Generation?
        let loaded = try Self.loaded.get()
        let whole = try SessionCore(loaded).generate(question, greedy()).finish().tokenIds
        try autoreleased {
            let session = try SessionCore(loaded)
            models = session.models
            answer = try session.generate(question, greedy())
            XCTAssertNotNil(try answer?.next())
        }
        XCTAssertEqual(try answer?.finish().tokenIds, whole)
        answer = nil
        XCTAssertNil(models, "keys and values of a session that is gone")
    }

    /// Runs something, and drops what it made.
    private func autoreleased(_ work: () throws -> Void) rethrows {
        #if canImport(ObjectiveC)
            try autoreleasepool { try work() }
        #else
            try work()
        #endif
    }
}
