package io.omnidraft.learning.step

import io.omnidraft.Defaults

/**
 * The learning rate of a step (spec/13-learner.md, The rate).
 *
 * @param schedule "constant", for learning without an end; "decay" rises over the first 5 % of the steps and falls to 0
 *   over the last 30 %.
 * @param step from 0.
 */
internal fun rateAt(schedule: String, rate: Double, step: Long, total: Long): Double {
    if (schedule == "constant") return rate
    val rising = (step + 1) / maxOf(1.0, Defaults.LEARNER_WARM_UP * total)
    val falling = (total - step) / maxOf(1.0, Defaults.LEARNER_DECAY * total)
    return rate * minOf(1.0, rising, falling)
}
