package io.omnidraft.learning.positions

import io.omnidraft.SettingException
import kotlin.math.abs

/*
 * The target's distributions along a response, whole or cut to the most likely tokens.
 *
 * A cut row has the mass of the ids that it does not list, so that no objective takes a missing token as impossible.
 */

private const val ROUNDING = 1e-3 // a row of float16 or float32 probabilities sums to 1 within this

/** Row i is the target's distribution before its token i, at temperature 1. */
internal class TargetRows(
    val ids: Array<IntArray>, // distinct target ids of each row
    val probabilities: Array<DoubleArray>, // of these ids
    val rest: DoubleArray, // probability of all ids that a row does not list; 0 where it lists every id
) {
    init {
        val fits = ids.size == probabilities.size && ids.size == rest.size &&
            ids.indices.all { ids[it].size == probabilities[it].size }
        if (!fits) {
            throw SettingException(
                "target rows have ids of ${ids.size} rows, probabilities of ${probabilities.size} and rest of ${rest.size}",
                "give as many of each",
            )
        }
    }

    val size: Int get() = ids.size

    /** Whether every row is a distribution: finite, not negative, of sum 1. */
    val finite: Boolean get() = ids.indices.all { row ->
        val listed = probabilities[row]
        // As comparisons that NaN fails too.
        listed.all { it >= 0.0 } && abs(listed.sum() + rest[row] - 1.0) < ROUNDING
    }
}
