package io.omnidraft.learning.online

import io.omnidraft.Defaults
import io.omnidraft.bundle.Bundle
import io.omnidraft.learning.AveragedLearner
import io.omnidraft.learning.step.OrtLearner
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.learning.step.StepOptions
import io.omnidraft.AdapterException
import io.omnidraft.models.Adapter
import io.omnidraft.sync.utc
import io.omnidraft.traces.Vocabularies
import io.omnidraft.vocab.VocabMap
import java.io.File

/*
 * Learning in idle time: take the answers that were recorded, judge the adapter in use by them, learn the next one.
 *
 * The Python runtime answers and learns in one loop. On a phone the app answers, the session records, and learning
 * comes later, in calls with a budget. So the answers are read from the trace, and the state is kept between two calls.
 * A kill at any moment loses the work of some seconds, or of one step; the next call repeats it. The text follows the
 * target's own distribution, independent of the drafter's adapter.
 */

/** The options of learning without an end, with an adapter that is a running average. */
internal fun onlineOptions() = StepOptions(learningRate = Defaults.LEARNER_RATE, weightDecay = 0.0)

internal class Adapted(
    val events: List<IntervalEvent>, // at the ends of the intervals, in order
    val losses: List<Double>, // of the steps that were finite
    val steps: Int,
    val isFinished: Boolean, // whether nothing is left to learn from
    val usesLearned: Boolean, // whether a learned adapter is in use
)

/** A drafter that adapts to the texts of its session. */
internal class Adaptation(
    private val bundle: Bundle,
    private val vocabMap: VocabMap,
    val directory: LearnedDirectory,
    private val traces: File, // the directory of the trace
    private val options: AdaptOptions = AdaptOptions(),
    private val step: StepOptions = onlineOptions(),
) {
    private val of = AdaptationOf(
        mapOf(
            "target" to bundle.target.fingerprint.orEmpty(),
            "drafter" to bundle.drafter.fingerprint.orEmpty(),
            "drafter's tokenizer" to vocabMap.draftFingerprint,
            "target's tokenizer" to vocabMap.targetFingerprint,
            "rate" to "${step.learningRate}",
        ) + options.settings,
    )

    /** The adapter that the session drafts with; null where nothing was learned so far. */
    fun checkpoint(): LearningCheckpoint? = directory.read(of)

    /** Learn from what was recorded, within a budget. */
    fun step(user: AdapterUser, begun: Adapter?, budget: StepBudget): Adapted = directory.claimed {
        val checkpoint = checkpoint()
        learnerOf(if (checkpoint == null) begun else checkpoint.base).use { inner ->
            val trace = RecordedAnswers(traces, Vocabularies.of(vocabMap))
            val target = AdaptedTarget(
                bundle, vocabMap, user, AveragedLearner(inner), trace, options, checkpoint, begun,
            )
            target.collect()
            target.afterStep = writing(target)
            val results = intervals(target, budget)
            directory.write(target.checkpoint(), of)
            Adapted(
                events = results.map { it.event },
                losses = results.flatMap { it.losses },
                steps = results.sumOf { it.steps },
                isFinished = !isDue(target),
                usesLearned = target.progress.version > 0,
            )
        }
    }

    /** Writes the checkpoint after a step, but not more often than the writing is worth. */
    private fun writing(target: AdaptedTarget): () -> Unit {
        var last = System.nanoTime()
        return {
            if (System.nanoTime() - last > BETWEEN_WRITES) {
                directory.write(target.checkpoint(), of)
                last = System.nanoTime()
            }
        }
    }

    private fun intervals(target: AdaptedTarget, budget: StepBudget): List<IntervalResult> {
        val results = ArrayList<IntervalResult>()
        while (isDue(target) && budget.goesOn()) {
            results.add(endInterval(target, budget))
            if (results.last().event == IntervalEvent.UNFINISHED) break
        }
        return results
    }

    private fun isDue(target: AdaptedTarget): Boolean =
        target.progress.unfinished != null || target.progress.pending.size >= options.interval

    /** A learner that begins with an adapter; with new tensors where the training step cannot take the adapter. */
    private fun learnerOf(adapter: Adapter?): OrtLearner = try {
        OrtLearner(bundle, vocabMap, step, adapter, ::utc)
    } catch (error: AdapterException) {
        if (error.fault !in NOT_PACKED) throw error
        OrtLearner(bundle, vocabMap, step, null, ::utc)
    }

    private companion object {
        /** Faults of an adapter that another training made: it can be used, and not be trained further. */
        val NOT_PACKED = setOf("rank", "shape", "no_sites")

        /** A kill loses the work of at most this many nanoseconds, or of one step. */
        const val BETWEEN_WRITES = 10_000_000_000L
    }
}
