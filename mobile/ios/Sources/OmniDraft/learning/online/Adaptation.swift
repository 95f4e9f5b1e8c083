// Learning in idle time: take the answers that were recorded, judge the adapter in use by them, learn the next one. A kill
// at any moment loses the work of some seconds, or of one step; the next call repeats it.

/// The options of learning without an end, with an adapter that is a running average.
func onlineOptions() -> StepOptions { StepOptions(learningRate: Defaults.learnerRate, weightDecay: 0) }

// Faults of an adapter that another training made: it can be used, and not be trained further.
private let notPacked: Set = ["rank", "shape", "no_sites"]
private let betweenWrites = 10.0  // a kill loses the work of at most this many seconds, or of one step

/// What a call did.
struct Adapted: Sendable {
    /// At the ends of the intervals, in order.
    let events: [IntervalEvent]
    /// Of the steps that were finite.
    let losses: [Double]
    let steps: Int
    /// Whether nothing is left to learn from.
    let isFinished: Bool
    let usesLearned: Bool
}

/// A drafter that adapts to the texts of its session.
struct Adaptation {
    let engine: any InferenceEngine
    let bundle: ModelBundle
    let map: VocabMap
    let directory: LearnedDirectory
    let traces: String
    var options = AdaptOptions()
    var step = onlineOptions()
    /// Gives the creation time of adapters.
    let now: () -> String

    private var of: AdaptationOf {
        AdaptationOf(
            facts: [
                ("target", bundle.target.fingerprint ?? ""), ("drafter", bundle.drafter.fingerprint ?? ""),
                ("drafter's tokenizer", map.draftFingerprint), ("target's tokenizer", map.targetFingerprint),
                ("rate", "\(step.learningRate)"),
            ] + options.settings)
    }

    /// The state of what was learned so far; nil where nothing was.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the checkpoint is refused.
    func checkpoint() throws -> LearningCheckpoint? { try directory.read(of) }

    /// Learn from what was recorded, within a budget.
    ///
    /// - Parameter budget: asked between calls of the step's graph.
    func step(_ user: any AdapterUser, begun: Adapter?, _ budget: StepBudget) throws -> Adapted {
        try options.check()
        return try directory.claimed {
            let checkpoint = try checkpoint()
            let learner = AveragedLearner(try learnerOf(checkpoint.map(\.base) ?? begun))
            let target = try AdaptedTarget(
                bundle, map, user: user, learner: learner,
                trace: RecordedAnswers(place: traces, vocabularies: Vocabularies(map)), options: options,
                checkpoint: checkpoint, begun: begun)
            try target.collect()
            target.afterStep = writing(target)
            let results = try intervals(target, budget)
            try directory.write(target.checkpoint(), of)
            return Adapted(
                events: results.map(\.event), losses: results.flatMap(\.losses),
                steps: results.reduce(0) { $0 + $1.steps }, isFinished: !isDue(target),
                usesLearned: target.progress.version > 0)
        }
    }

    /// Writes the checkpoint after a step, but not more often than the writing is worth.
    private func writing(_ target: AdaptedTarget) -> () throws -> Void {
        var last = seconds()
        return { [unowned target] in
            if seconds() - last <= betweenWrites { return }
            try directory.write(target.checkpoint(), of)
            last = seconds()
        }
    }

    private func intervals(_ target: AdaptedTarget, _ budget: StepBudget) throws -> [IntervalResult] {
        var results: [IntervalResult] = []
        while isDue(target) && budget.goesOn() {
            let result = try endInterval(target, budget)
            results.append(result)
            if result.event == .unfinished { break }
        }
        return results
    }

    private func isDue(_ target: AdaptedTarget) -> Bool {
        target.progress.unfinished != nil || target.progress.pending.count >= options.interval
    }

    /// A learner that begins with an adapter; with new tensors where the training step cannot take the adapter.
    private func learnerOf(_ adapter: Adapter?) throws -> OrtLearner {
        do {
            return try OrtLearner(engine, bundle: bundle, map: map, options: step, adapter: adapter, now: now)
        } catch OmniDraftError.adapter(let refusal) {
            if !notPacked.contains(refusal.fault) { throw OmniDraftError.adapter(refusal) }
            return try OrtLearner(engine, bundle: bundle, map: map, options: step, adapter: nil, now: now)
        }
    }
}
