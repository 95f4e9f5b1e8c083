package io.omnidraft.learning.online

import io.omnidraft.Defaults
import io.omnidraft.Defaults.LEARNER_MAX_REST as MAX_REST

/* Decide at the end of an interval: keep the adapter, roll it back, pause or learn (spec/13-learner.md). */

/** What comes next at the end of an interval. */
internal enum class IntervalDecision { ROLL_BACK, COOL_DOWN, LEARN }

/**
 * A decision, and whether the adapter in use was found good, so that a rollback goes back to it.
 */
internal class Decided(val decision: IntervalDecision, val isGood: Boolean)

/** Judge the adapter in use and decide what comes next. */
internal fun decide(progress: AdaptationProgress, guard: Guard, memory: Int): Decided {
    val verdict = guard.judge()
    val isNew = progress.version != progress.good
    if (verdict == GuardVerdict.WORSE && isNew) {
        rollBack(progress, guard, memory)
        return Decided(IntervalDecision.ROLL_BACK, false)
    }
    // No new adapter is in use, so the texts have changed.
    if (verdict == GuardVerdict.WORSE) guard.forget()
    val isGood = verdict == GuardVerdict.GOOD && isNew
    if (isGood) {
        progress.good = progress.version
        progress.rollbacks = 0
        progress.rateScale = minOf(1.0, progress.rateScale * Defaults.LEARNER_RECOVERY)
    }
    remember(progress, memory)
    if (progress.cooldown > 0) {
        progress.cooldown -= 1
        return Decided(IntervalDecision.COOL_DOWN, isGood)
    }
    return Decided(IntervalDecision.LEARN, isGood)
}

/** Go back to the last good adapter and pause learning: its answers become the guard's reference. */
internal fun rollBack(progress: AdaptationProgress, guard: Guard, memory: Int) {
    progress.rollbacks += 1
    progress.cooldown = if (progress.rollbacks > DOUBLINGS) MAX_REST else 1 shl (progress.rollbacks - 1)
    progress.rateScale *= Defaults.LEARNER_SLOWER
    progress.version = progress.good
    remember(progress, memory)
    guard.forget()
}

/** Count a version that was learned and is in use from now on. */
internal fun takeUp(progress: AdaptationProgress) {
    progress.learned += 1
    progress.version = progress.learned
}

/** Keep the answers of this interval to learn from again; drop the oldest beyond [memory]. */
private fun remember(progress: AdaptationProgress, memory: Int) {
    progress.memory = (progress.memory + progress.pending).takeLast(memory)
    progress.pending = emptyList()
}

private const val DOUBLINGS = 5 // 2^5 = MAX_REST
