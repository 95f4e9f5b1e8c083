package io.omnidraft.decoding

/*
 * When a trained head ends a draft. A port may leave this file out; it then never asks a head.
 *
 * Everything drawn is in the draft, so stopping early changes no distribution, only speed.
 */

/**
 * The probability that a draft token is accepted: the odds of both arguments multiplied.
 *
 * @param acceptance output of the head; 1 of an untrained head, and then nothing is refused.
 * @param confidence probability of the token in the drafter's distribution that it was drawn from, at temperature 1.
 */
internal fun survivalOf(acceptance: Double, confidence: Double): Double {
    if (acceptance >= 1.0) return 1.0
    val oddsFor = acceptance * confidence
    val oddsAgainst = (1.0 - acceptance) * (1.0 - confidence)
    return if (oddsFor + oddsAgainst > 0.0) oddsFor / (oddsFor + oddsAgainst) else 0.5
}

/**
 * How many more draft tokens pay; 0 where none does.
 *
 * @param gains target tokens that draft token 1, 2, ... more is expected to give.
 * @param seconds that 1, 2, ... more draft tokens take.
 * @param worth target tokens that a second gives otherwise.
 */
internal fun moreTokens(gains: DoubleArray, seconds: DoubleArray, worth: Double): Int {
    require(gains.size == seconds.size) { "${gains.size} gains and ${seconds.size} times" }
    var total = 0.0
    var best = 0.0
    var count = 0
    for (n in gains.indices) {
        total += gains[n]
        val value = total - worth * seconds[n]
        if (value > best) {
            best = value
            count = n + 1
        }
    }
    return count
}
