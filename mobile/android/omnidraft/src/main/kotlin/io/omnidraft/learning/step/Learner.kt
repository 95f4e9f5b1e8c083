package io.omnidraft.learning.step

import io.omnidraft.learning.positions.Aligned
import io.omnidraft.models.Adapter

/**
 * Whether a step may make its next call of a graph. It is asked between calls, never inside one (spec/08-phones.md).
 */
internal fun interface StepBudget {
    fun goesOn(): Boolean

    companion object {
        /** A step that runs to its end. */
        val UNBOUNDED: StepBudget = StepBudget { true }
    }
}

internal class Learned(
    val step: Long, // number of this step, from 1
    val loss: Double,
    val norm: Double, // of the gradient before clipping
    val skipped: Boolean, // whether the loss or the gradient was not finite, so that nothing changed
)

/** A drafter's LoRA tensors in training; implemented by [OrtLearner]. */
internal interface Learner {
    /** Learning rate of the next steps; may be set, and is not part of [state]. */
    var rate: Double

    /**
     * Do one step on a batch of at least one response.
     *
     * @return null where [budget] ended the step between two calls of the graph; nothing changed then.
     */
    fun learn(responses: List<Aligned>, budget: StepBudget = StepBudget.UNBOUNDED): Learned?

    fun adapter(): Adapter

    /** The whole state (tensors, moments, counts) as copies, by name. */
    fun state(): Arrays

    /** Take over a [state]; the next steps are those that would have followed it. */
    fun restore(state: Arrays)
}
