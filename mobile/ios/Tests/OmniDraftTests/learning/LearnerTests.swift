import OmniDraftORT
import XCTest

@testable import OmniDraft

/// The checkpoints of a learner alone, as Python writes them.
let learnerCheckpoint = StateFormat(name: "omnidraft.learner_state", version: "1", task: "learning")

private let created = "2026-01-02T03:04:05Z"

/// The training step of a real bundle: it learns what Python learns, also in parts, and within the memory that is said.
final class LearnerTests: XCTestCase {
    func testStepsAreThoseOfPython() throws {
        let learners = [
            ("at_once", StepOptions(learningRate: 4e-3)), ("in_parts", StepOptions(learningRate: 1e-3, atOnce: 3)),
        ]
        let loaded = try StarterBundles.load("learning")
        let place = try StarterBundles.directory("expected/learning")
        let responses = try responsesIn("\(place)/traces", loaded)
        for (name, options) in learners {
            let learner = try learner(loaded, options)
            try learner.restore(learnerCheckpoint.read("\(place)/\(name)/begin.safetensors").arrays)
            let steps = try parseJson(readFile("\(place)/\(name)/losses.json", most: 1 << 20)).array
            XCTAssertFalse(steps.isEmpty)
            for step in steps.map(\.object) {
                let learned = try XCTUnwrap(learner.learn(responses, .unbounded))
                XCTAssertFalse(learned.skipped)
                try close("loss", [learned.loss], [step["loss"]!.num], 1e-4)
                try close("norm", [learned.norm], [step["norm"]!.num], 1e-4)
            }
            try checkEnd(learner, "\(place)/\(name)")
        }
    }

    func testAStateThatWasWrittenGoesOnToTheLastBit() throws {
        let loaded = try StarterBundles.load("learning")
        let responses = try recorded(loaded)
        let options = StepOptions(learningRate: 4e-3)
        try inDirectory { place in
            let file = "\(place)/state.safetensors"
            let straight = try learner(loaded, options)
            _ = try straight.learn(responses, .unbounded)
            try learnerCheckpoint.write(file, straight.state(), ["rate": .double(4e-3)])
            _ = try straight.learn(responses, .unbounded)
            let again = try learner(loaded, options)
            try again.restore(learnerCheckpoint.read(file).arrays)
            _ = try again.learn(responses, .unbounded)
            XCTAssertEqual(try straight.adapter().digest, try again.adapter().digest)
        }
    }

    func testAStepThatTheBudgetEndsChangesNothing() throws {
        let loaded = try StarterBundles.load("learning")
        let responses = try recorded(loaded)
        let learner = try learner(loaded, StepOptions())
        let before = try learner.adapter().digest
        for calls in 0..<4 {
            XCTAssertNil(try learner.learn(responses, CallBudget(calls).budget), "after \(calls) calls")
            XCTAssertEqual(try learner.adapter().digest, before, "after \(calls) calls")
        }
        XCTAssertNotNil(try learner.learn(responses, CallBudget(4).budget))
        XCTAssertNotEqual(try learner.adapter().digest, before)
    }

    func testAResponseOfAnotherPairChangesNothing() throws {
        let loaded = try StarterBundles.load("learning")
        let learner = try learner(loaded, StepOptions())
        let before = try learner.adapter().digest
        let map = randomMap(SplitMix64(1))
        let rows = try TargetRows(ids: [[0]], probabilities: [[1]], rest: [0])
        let foreign = try Aligner(trie: fullTrie(map), maxLength: 20).align([1], tokens: [0], rows: rows)
        for responses in [[], [foreign]] {
            settingRefusal { _ = try learner.learn(responses, .unbounded) }
        }
        XCTAssertEqual(try learner.adapter().digest, before)
    }

    func testAStepTakesNoMoreMemoryThanIsSaid() throws {
        let loaded = try StarterBundles.load("learning")
        for responses in [try [longest(loaded)], try recorded(loaded)] {
            if !forgetPeak() { throw XCTSkip("this system does not forget the peak of a process") }
            let before = residentBytes()
            let learner = try learner(loaded, StepOptions(learningRate: 1e-3))
            for _ in 0..<2 { _ = try learner.learn(responses, .unbounded) }
            let rise = try XCTUnwrap(peakBytes()) - before
            let length = responses.map(\.draftIds.count).max() ?? 0
            let bound = stepBytes(loaded.bundle, length: length)
            print("a step of \(length) draft tokens: memory rose by \(rise) bytes, the bound is \(bound)")
            XCTAssertLessThanOrEqual(rise, bound)
        }
    }

    /// A response that fills the drafter's context.
    private func longest(_ loaded: LoadedBundle) throws -> Aligned {
        let (map, random) = (loaded.vocabMap, SplitMix64(3))
        let most = loaded.bundle.drafter.kv.maxLength
        let ids = (0..<most).map { _ in map.leaves[Int(random.uniform() * Double(map.leaves.count))] }
        let rows = try TargetRows(
            ids: ids.map { [$0] }, probabilities: ids.map { _ in [0.5] }, rest: ids.map { _ in 0.5 })
        return try Aligner(trie: fullTrie(map), maxLength: most).align([1], tokens: ids, rows: rows)
    }

    /// Resets the peak of memory of this process; false where the system cannot.
    private func forgetPeak() -> Bool {
        (try? "5".write(toFile: "/proc/self/clear_refs", atomically: false, encoding: .utf8)) != nil
    }

    /// Some of the responses that Python recorded.
    private func recorded(_ loaded: LoadedBundle) throws -> [Aligned] {
        Array(try responsesIn(StarterBundles.directory("expected/learning") + "/traces", loaded).prefix(4))
    }

    private func learner(_ loaded: LoadedBundle, _ options: StepOptions) throws -> OrtLearner {
        try OrtLearner(loaded.engine, bundle: loaded.bundle, map: loaded.vocabMap, options: options, now: { created })
    }

    private func checkEnd(_ learner: OrtLearner, _ place: String) throws {
        let actual = learner.state()
        let expected = try learnerCheckpoint.read("\(place)/end.safetensors").arrays
        XCTAssertEqual(Set(actual.names), Set(expected.names))
        for (name, array) in expected.members {
            guard let values = array.floats else {
                XCTAssertEqual(actual[name], array, name)
                continue
            }
            try checkNear(name, actual[name]?.floats, values, 1e-4)
        }
        let adapter = try readAdapter("\(place)/adapter.safetensors").named
        let own = try learner.adapter().named
        XCTAssertEqual(Set(own.names), Set(adapter.names))
        for (name, tensor) in adapter.members { try checkNear(name, own[name]?.values, tensor.values, 4e-4) }
    }

    private func checkNear(_ name: String, _ actual: [Float]?, _ expected: [Float], _ tolerance: Float) throws {
        let actual = try XCTUnwrap(actual, name)
        XCTAssertEqual(actual.count, expected.count, name)
        let largest = zip(actual, expected).map { abs($0 - $1) }.max() ?? 0
        XCTAssertLessThanOrEqual(largest, tolerance, name)
    }
}
