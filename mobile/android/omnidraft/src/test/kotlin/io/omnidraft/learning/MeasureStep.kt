package io.omnidraft.learning

import io.omnidraft.bundle.openBundle
import io.omnidraft.bundle.peakBytes
import io.omnidraft.device.Measure
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.TraceAligner
import io.omnidraft.learning.positions.fromTraces
import io.omnidraft.learning.positions.fullTrie
import io.omnidraft.learning.step.OrtLearner
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.learning.step.StepOptions
import io.omnidraft.learning.step.stepBytes
import io.omnidraft.session.Loading
import io.omnidraft.session.loadBundle
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.readTraces
import java.io.File

private const val MEGABYTE = 1e6
private const val STEPS = 3

/*
 * Memory and time of training steps: `MeasureStep BUNDLE TRACES LENGTH` prints, for responses of at most LENGTH draft
 * tokens, how far the peak of the process rises over loading the learner and some steps, and the bound that is stated
 * before.
 */

fun main(arguments: Array<String>) {
    val (bundle, traces) = arguments.map { File(it) }
    val longest = arguments[2].toInt()
    loadBundle(openBundle(bundle), Loading(measure = Measure.NEVER)).use { loaded ->
        val map = loaded.vocabMap
        val aligner = TraceAligner(Aligner(fullTrie(map), longest), loaded.bundle.drafter.start)
        val responses = fromTraces(readTraces(listOf(traces), Vocabularies.of(map)), aligner).take(8).toList()
        val before = checkNotNull(peakBytes())
        val options = StepOptions(learningRate = 1e-3)
        OrtLearner(loaded.bundle, map, options) { "2026-01-02T03:04:05Z" }.use { learner ->
            val begin = System.nanoTime()
            repeat(STEPS) { learner.learn(responses, StepBudget.UNBOUNDED) }
            val seconds = (System.nanoTime() - begin) / 1e9 / STEPS
            val length = responses.maxOf { it.draftIds.size }
            val rise = (checkNotNull(peakBytes()) - before) / MEGABYTE
            val bound = stepBytes(loaded.bundle, length) / MEGABYTE
            println("$length tokens: rise $rise MB, bound $bound MB, $seconds s for ${responses.size} responses")
        }
    }
}
