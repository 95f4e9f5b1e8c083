package io.omnidraft.learning.online

import io.omnidraft.AdapterException
import io.omnidraft.Defaults
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.learning.step.StepBudget

/* The end of an interval: judge the adapter in use, learn the next one, and use it (spec/13-learner.md). */

internal enum class IntervalEvent { LEARNED, SKIPPED, ROLLED_BACK, RESTED, UNFINISHED }

internal class IntervalResult(val event: IntervalEvent, val losses: List<Double> = emptyList(), val steps: Int = 0)

/** Judge the adapter in use, then learn the next one. */
internal fun endInterval(target: AdaptedTarget, budget: StepBudget): IntervalResult {
    val progress = target.progress
    if (progress.unfinished == null) {
        val new = progress.pending
        val earlier = progress.memory
        val decided = decide(progress, target.guard, target.options.memory)
        if (decided.isGood) target.keepGood()
        if (decided.decision == IntervalDecision.ROLL_BACK) {
            target.goBack()
            return IntervalResult(IntervalEvent.ROLLED_BACK)
        }
        if (decided.decision == IntervalDecision.COOL_DOWN) return IntervalResult(IntervalEvent.RESTED)
        progress.unfinished = Unfinished(new, earlier, 0, false)
    }
    return learn(target, budget)
}

/** What the steps of one call gave: [isApplied] is null where the budget ended them. */
private class StepsMade(val isApplied: Boolean?, val losses: List<Double>, val count: Int)

/** Learn from the new answers, with some earlier answers in each step, and use the new adapter. */
private fun learn(target: AdaptedTarget, budget: StepBudget): IntervalResult {
    val progress = target.progress
    val made = try {
        steps(target, budget)
    } catch (error: AdapterException) {
        return fallBack(target, error, StepsMade(true, emptyList(), 0))
    }
    if (made.isApplied == null) return IntervalResult(IntervalEvent.UNFINISHED, made.losses, made.count)
    progress.unfinished = null
    if (!made.isApplied) return IntervalResult(IntervalEvent.SKIPPED, made.losses, made.count)
    try {
        target.learner.adapter() // throws if a value is not finite
    } catch (error: AdapterException) {
        return fallBack(target, error, made)
    }
    takeUp(progress)
    target.swapIn()
    return IntervalResult(IntervalEvent.LEARNED, made.losses, made.count)
}

/** The learner has a value that is not finite: draft and learn with the last good adapter. */
private fun fallBack(target: AdaptedTarget, error: AdapterException, made: StepsMade): IntervalResult {
    if (error.fault != "non_finite") throw error
    target.progress.unfinished = null
    rollBack(target.progress, target.guard, target.options.memory)
    target.goBack()
    return IntervalResult(IntervalEvent.ROLLED_BACK, made.losses, made.count)
}

/** The steps from the first one that was not made; progress counts each of them. */
private fun steps(target: AdaptedTarget, budget: StepBudget): StepsMade {
    val losses = ArrayList<Double>()
    val first = target.progress.unfinished?.done ?: 0
    while (true) {
        val unfinished = target.progress.unfinished ?: return StepsMade(false, losses, 0)
        val each = (unfinished.new.size + Defaults.LEARNER_BATCH - 1) / Defaults.LEARNER_BATCH
        val count = unfinished.done - first
        if (unfinished.done >= each * target.options.passes) return StepsMade(unfinished.applied, losses, count)
        if (!budget.goesOn()) return StepsMade(null, losses, count)
        val batch = target.aligned(batchOf(unfinished, target.options, target.progress.learned))
        var isApplied = unfinished.applied
        if (batch.isNotEmpty()) {
            val step = target.learner.learn(batch, budget) ?: return StepsMade(null, losses, count)
            if (!step.skipped) losses.add(step.loss)
            isApplied = isApplied || !step.skipped
        }
        target.progress.unfinished = unfinished.copy(done = unfinished.done + 1, applied = isApplied)
        target.afterStep()
    }
}

/** The answers of a step: some new ones, and as many earlier ones as are repeated, drawn with the seed. */
private fun batchOf(unfinished: Unfinished, options: AdaptOptions, learned: Long): List<Long> {
    val each = (unfinished.new.size + Defaults.LEARNER_BATCH - 1) / Defaults.LEARNER_BATCH
    val new = unfinished.new.chunked(Defaults.LEARNER_BATCH)[unfinished.done % each]
    val random = SplitMix64(mixed(options.seed, learned, unfinished.done.toLong()))
    val earlier = unfinished.earlier.toMutableList()
    val again = List(minOf(options.replayed, earlier.size)) {
        earlier.removeAt(minOf((random.uniform() * earlier.size).toInt(), earlier.size - 1))
    }
    return new + again
}

/** One seed from several numbers. Each step has its own seed, so a step can be repeated after a restart. */
private fun mixed(vararg numbers: Long): Long {
    var seed = 0L
    for (number in numbers) seed = SplitMix64(seed xor number).nextU64()
    return seed
}
