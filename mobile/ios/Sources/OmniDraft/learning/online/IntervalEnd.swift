// The end of an interval: judge the adapter in use, learn the next one, and use it (spec/13-learner.md).

enum IntervalEvent: Sendable { case learned, skipped, rolledBack, rested, unfinished }

struct IntervalResult: Sendable {
    let event: IntervalEvent
    /// Of the steps that were finite.
    var losses: [Double] = []
    /// That were made, with those that were not finite.
    var steps = 0
}

/// Judge the adapter in use, then learn the next one.
///
/// - Parameter budget: asked between calls of the step's graph.
/// - Throws: ``OmniDraftError/adapter(_:)``: the learner's adapter does not fit the session.
func endInterval(_ target: AdaptedTarget, _ budget: StepBudget) throws -> IntervalResult {
    if target.progress.unfinished == nil {
        let (new, earlier) = (target.progress.pending, target.progress.memory)
        let (decision, isGood) = decide(&target.progress, &target.judge, memory: target.options.memory)
        if isGood { target.keepGood() }
        switch decision {
        case .rollBack:
            try target.goBack()
            return IntervalResult(event: .rolledBack)
        case .coolDown: return IntervalResult(event: .rested)
        case .learn: target.progress.unfinished = UnfinishedLearning(new: new, earlier: earlier)
        }
    }
    return try learn(target, budget)
}

/// What the steps of one call gave.
private struct StepsMade {
    /// Whether a step changed the drafter; nil where the budget ended the steps.
    var isApplied: Bool?
    var losses: [Double] = []
    var count = 0
}

/// Learn from the new answers, with some earlier answers in each step, and use the new adapter.
private func learn(_ target: AdaptedTarget, _ budget: StepBudget) throws -> IntervalResult {
    var made = StepsMade(isApplied: true)
    do {
        made = try steps(target, budget)
        guard let isApplied = made.isApplied else {
            return IntervalResult(event: .unfinished, losses: made.losses, steps: made.count)
        }
        if isApplied { _ = try target.learner.adapter() }  // throws if a value is not finite
    } catch let error as OmniDraftError {
        guard case .adapter(let refusal) = error, refusal.fault == "non_finite" else { throw error }
        return try fallBack(target, made)
    }
    target.progress.unfinished = nil
    if made.isApplied == false { return IntervalResult(event: .skipped, losses: made.losses, steps: made.count) }
    takeUp(&target.progress)
    try target.swapIn()
    return IntervalResult(event: .learned, losses: made.losses, steps: made.count)
}

/// The learner has a value that is not finite: draft and learn with the last good adapter.
private func fallBack(_ target: AdaptedTarget, _ made: StepsMade) throws -> IntervalResult {
    target.progress.unfinished = nil
    rollBack(&target.progress, &target.judge, memory: target.options.memory)
    try target.goBack()
    return IntervalResult(event: .rolledBack, losses: made.losses, steps: made.count)
}

/// The steps from the first one that was not made; progress counts each of them.
private func steps(_ target: AdaptedTarget, _ budget: StepBudget) throws -> StepsMade {
    var made = StepsMade()
    while var unfinished = target.progress.unfinished {
        let each = batches(unfinished)
        if each == 0 || unfinished.done / each >= target.options.passes {
            made.isApplied = unfinished.applied
            return made
        }
        if !budget.goesOn() { return made }
        let batch = try target.aligned(batchOf(unfinished, target.options, learned: target.progress.learned))
        if !batch.isEmpty {
            guard let step = try target.learner.learn(batch, budget) else { return made }
            if !step.skipped {
                made.losses.append(step.loss)
                unfinished.applied = true
            }
        }
        unfinished.done += 1
        made.count += 1
        target.progress.unfinished = unfinished
        try target.afterStep()
    }
    made.isApplied = false
    return made
}

/// Steps of a pass over the new answers.
private func batches(_ unfinished: UnfinishedLearning) -> Int {
    (unfinished.new.count + Defaults.learnerBatch - 1) / Defaults.learnerBatch
}

/// The answers of a step: some new ones, and as many earlier ones as are repeated, drawn with the seed.
private func batchOf(_ unfinished: UnfinishedLearning, _ options: AdaptOptions, learned: Int) -> [Int] {
    let first = unfinished.done % max(1, batches(unfinished)) * Defaults.learnerBatch
    let new = unfinished.new[first..<min(first + Defaults.learnerBatch, unfinished.new.count)]
    let random = SplitMix64(mixed([options.seed, UInt64(learned), UInt64(unfinished.done)]))
    var earlier = unfinished.earlier
    let again = (0..<min(options.replayed, earlier.count)).map { _ in
        earlier.remove(at: min(Int(random.uniform() * Double(earlier.count)), earlier.count - 1))
    }
    return new + again
}

/// One seed from several numbers. Each step has its own seed, so a step can be repeated after a restart.
private func mixed(_ numbers: [UInt64]) -> UInt64 { numbers.reduce(0) { SplitMix64($0 ^ $1).nextU64() } }
