package io.omnidraft.learning

import io.omnidraft.Defaults
import io.omnidraft.SettingException
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.bundle.aName
import io.omnidraft.bundle.bName
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.step.Arrays
import io.omnidraft.learning.step.FloatValues
import io.omnidraft.learning.step.Learned
import io.omnidraft.learning.step.Learner
import io.omnidraft.learning.step.LongValues
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.learning.step.TypedArray
import io.omnidraft.models.Adapter
import io.omnidraft.models.SitePair
import kotlin.math.min

/* A learner whose adapter is a running average over its steps (spec/13-learner.md, Online). */

private const val PREFIX = "average."
private const val STEPS = "average_steps"

internal class RunningMean(tensors: Map<String, FloatTensor> = emptyMap(), steps: Long = 0) {
    private val means = LinkedHashMap(tensors)

    var steps: Long = steps
        private set

    val tensors: Map<String, FloatTensor> get() = means

    fun add(latest: Map<String, FloatTensor>) {
        val share = min(Defaults.LEARNER_MEAN_KEPT, steps / (steps + 9.0)).toFloat()
        for ((name, tensor) in latest) {
            val before = means[name]
            means[name] = if (before == null) tensor else mixed(before, tensor, share)
        }
        steps += 1
    }

    private fun mixed(before: FloatTensor, latest: FloatTensor, share: Float): FloatTensor {
        val values = FloatArray(latest.values.size) { before.values[it] * share + latest.values[it] * (1 - share) }
        return FloatTensor(latest.shape, values)
    }
}

/** Wraps a learner and averages its tensors after each step. */
internal class AveragedLearner(val inner: Learner) : Learner {
    private var mean = RunningMean()

    override var rate: Double by inner::rate

    /** Do one step and add its tensors to the average. */
    override fun learn(responses: List<Aligned>, budget: StepBudget): Learned? {
        val step = inner.learn(responses, budget)
        if (step != null && !step.skipped) mean.add(tensorsOf(inner.adapter()))
        return step
    }

    /** The average; before the first step, the learner's initial adapter. */
    override fun adapter(): Adapter {
        val latest = inner.adapter()
        if (mean.tensors.isEmpty()) return latest
        val sites = latest.tensors.mapValues { (site, _) ->
            SitePair(mean.tensors.getValue(aName(site)), mean.tensors.getValue(bName(site)))
        }
        return Adapter(latest.base, latest.draftTokenizer, latest.targetTokenizer, sites, latest.created)
    }

    override fun state(): Arrays {
        val state = LinkedHashMap<String, TypedArray>(inner.state())
        for ((name, tensor) in mean.tensors) {
            state[PREFIX + name] = FloatValues(tensor.values.copyOf(), tensor.shape)
        }
        state[STEPS] = LongValues(longArrayOf(mean.steps))
        return state
    }

    override fun restore(state: Arrays) {
        val expected = tensorsOf(inner.adapter())
        val averaged = state.filterKeys { it.startsWith(PREFIX) }
        val steps = state[STEPS] as? LongValues
        val fits = averaged.isEmpty() || averaged.size == expected.size && expected.all { (name, tensor) ->
            val array = averaged[PREFIX + name]
            array is FloatValues && array.shape.contentEquals(tensor.shape)
        }
        if (steps == null || steps.values.size != 1 || !fits) {
            throw SettingException(
                "the state of a learner averages ${averaged.size} tensors and this learner has ${expected.size} others",
                "go on with the LoRA rank that it was begun with",
            )
        }
        inner.restore(state.filterKeys { !it.startsWith(PREFIX) && it != STEPS })
        mean = RunningMean(averages(averaged), steps.values[0])
    }

    private fun averages(averaged: Arrays): Map<String, FloatTensor> {
        val means = LinkedHashMap<String, FloatTensor>()
        for ((name, array) in averaged) {
            if (array is FloatValues) means[name.removePrefix(PREFIX)] = FloatTensor(array.shape, array.values.copyOf())
        }
        return means
    }
}

private fun tensorsOf(adapter: Adapter): Map<String, FloatTensor> {
    val tensors = LinkedHashMap<String, FloatTensor>()
    for ((site, pair) in adapter.tensors) {
        tensors[aName(site)] = pair.a
        tensors[bName(site)] = pair.b
    }
    return tensors
}
