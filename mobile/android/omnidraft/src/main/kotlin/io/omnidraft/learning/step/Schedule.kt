package io.omnidraft.learning.step

import io.omnidraft.Defaults
import io.omnidraft.SettingException

/*
 * The learning rate over a pass: constant, or with a warm-up and a decay to 0 (spec/13-learner.md, The rate).
 */

/** Learning without an end keeps a constant rate. */
internal const val CONSTANT = "constant"

/** A pass over recorded text ends with a rate that falls to 0. */
internal const val DECAYING = "decay"

internal const val WARM_UP = Defaults.LEARNER_WARM_UP
internal const val DECAY = Defaults.LEARNER_DECAY

/** @throws SettingException the name is unknown. */
internal fun checkSchedule(schedule: String) {
    if (schedule != CONSTANT && schedule != DECAYING) {
        throw SettingException("schedule \"$schedule\" is unknown", "use constant or decay", setting = "schedule")
    }
}

/**
 * The learning rate of a step.
 *
 * @param schedule "constant", for learning without an end; "decay" rises over the first 5 % of the steps and falls to 0
 *   over the last 30 %.
 * @param rate the highest rate.
 * @param step from 0.
 * @param total steps of the pass.
 */
internal fun rateAt(schedule: String, rate: Double, step: Long, total: Long): Double {
    if (schedule == CONSTANT) return rate
    val rising = (step + 1) / maxOf(1.0, WARM_UP * total)
    val falling = (total - step) / maxOf(1.0, DECAY * total)
    return rate * minOf(1.0, rising, falling)
}
