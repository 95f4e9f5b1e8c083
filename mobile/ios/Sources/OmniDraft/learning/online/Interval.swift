// Decide at the end of an interval: keep the adapter, roll it back, pause or learn (spec/13-learner.md).

/// What comes next at the end of an interval.
enum IntervalDecision: Sendable { case rollBack, coolDown, learn }

private let doublings = 5  // 2^5 = Defaults.learnerMaxRest

/// Judge the adapter in use and decide what comes next.
///
/// - Returns: the decision, and whether the adapter in use was found good, so that a rollback goes back to it.
func decide(
    _ progress: inout AdaptationProgress, _ judge: inout Guard, memory: Int
) -> (decision: IntervalDecision, isGood: Bool) {
    let verdict = judge.judge()
    let isNew = progress.version != progress.good
    if verdict == .worse && isNew {
        rollBack(&progress, &judge, memory: memory)
        return (.rollBack, false)
    }
    // No new adapter is in use, so the texts have changed.
    if verdict == .worse { judge.forget() }
    let isGood = verdict == .good && isNew
    if isGood {
        progress.good = progress.version
        progress.rollbacks = 0
        progress.rateScale = min(1, progress.rateScale * Defaults.learnerRecovery)
    }
    remember(&progress, memory)
    if progress.cooldown > 0 {
        progress.cooldown -= 1
        return (.coolDown, isGood)
    }
    return (.learn, isGood)
}

/// Go back to the last good adapter and pause learning: its answers become the guard's reference.
func rollBack(_ progress: inout AdaptationProgress, _ judge: inout Guard, memory: Int) {
    progress.rollbacks += 1
    progress.cooldown = progress.rollbacks > doublings ? Defaults.learnerMaxRest : 1 << (progress.rollbacks - 1)
    progress.rateScale *= Defaults.learnerSlower
    progress.version = progress.good
    remember(&progress, memory)
    judge.forget()
}

/// Count a version that was learned and is in use from now on.
func takeUp(_ progress: inout AdaptationProgress) {
    progress.learned += 1
    progress.version = progress.learned
}

/// Keep the answers of this interval to learn from again; drop the oldest beyond `memory`.
private func remember(_ progress: inout AdaptationProgress, _ memory: Int) {
    progress.memory = (progress.memory + progress.pending).suffix(memory)
    progress.pending = []
}
