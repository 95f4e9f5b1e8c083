import XCTest

@testable import OmniDraft

private let site = "layers.0.o"

/// The averaged learner: its adapter is the average of the steps, and a restart changes nothing.
final class AveragedTests: XCTestCase {
    func testGoingOnIsAsIfThereHadBeenNoBreak() throws {
        let learners = (0..<3).map { _ in AveragedLearner(Walk()) }
        func steps(_ learner: any Learner, _ count: Int) throws {
            for _ in 0..<count { _ = try learner.learn([], .unbounded) }
        }
        try steps(learners[0], 7)
        try steps(learners[1], 4)
        try learners[2].restore(learners[1].state())
        try steps(learners[2], 3)
        XCTAssertEqual(try learners[0].adapter().digest, try learners[2].adapter().digest)
    }

    func testAStateOfAnotherRankChangesNothing() throws {
        let (one, other) = (AveragedLearner(Walk(rank: 2)), AveragedLearner(Walk(rank: 1)))
        _ = try one.learn([], .unbounded)
        let before = try other.adapter().digest
        for state in [one.state(), Walk().state()] {
            settingRefusal { try other.restore(state) }
        }
        XCTAssertEqual(try other.adapter().digest, before)
        one.rate = 5
        XCTAssertEqual([one.rate, one.inner.rate], [5, 5])
    }
}

/// A learner that needs no answers: after step n its adapter is the one of seed n; step 3 is skipped.
private final class Walk: Learner {
    var rate = 1e-3
    private let rank: Int
    private var step = 0

    init(rank: Int = 2) { self.rank = rank }

    func learn(_ responses: [Aligned], _ budget: StepBudget) throws -> Learned? {
        if !budget.goesOn() { return nil }
        step += 1
        return Learned(step: step, loss: 1, norm: 1, skipped: step == 3)
    }

    func adapter() throws -> Adapter { try walked(rank, step) }

    func state() -> Arrays { Arrays([("step", TypedArray([Int64(step)]))]) }

    func restore(_ state: Arrays) throws {
        guard let steps = state["step"]?.longs?.first else { throw settingError("the state of a walk has no step") }
        step = Int(steps)
    }
}

private func walked(_ rank: Int, _ seed: Int) throws -> Adapter {
    let random = SplitMix64(UInt64(seed))
    func tensor(_ rows: Int, _ columns: Int) -> FloatTensor {
        FloatTensor(
            shape: [rows, columns], values: (0..<rows * columns).map { _ in Float(2 * random.uniform() - 1) })
    }
    let sites = ByName([(site, SitePair(a: tensor(6, rank), b: tensor(rank, 5)))])
    return try Adapter(
        base: String(repeating: "a", count: 64), draftTokenizer: String(repeating: "d", count: 64),
        targetTokenizer: String(repeating: "e", count: 64), tensors: sites, created: "2026-01-01T00:00:00Z")
}
