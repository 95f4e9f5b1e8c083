package io.omnidraft.decoding

import java.security.SecureRandom

/*
 * Randomness as an argument: SplitMix64, the same numbers in every language (spec/04-speculation.md, section 1).
 *
 * Everything random in the runtime asks a RandomSource. A test can replace it by an enumerator, which visits every
 * outcome of the real code with its exact probability.
 */

internal interface RandomSource {
    /** True with the given probability (values >= 1 always, <= 0 never). */
    fun bernoulli(probability: Double): Boolean

    /** An index drawn in proportion to the first [count] of non-negative weights. */
    fun categorical(weights: DoubleArray, count: Int = weights.size): Int

    /** A token drawn from a distribution, or from the distribution restricted to the ids [among]. */
    fun sample(distribution: Distribution, among: IntArray? = null): Int

    /** A token drawn from a distribution and kept with probability `share(token)`, or null. */
    fun rejectionSample(distribution: Distribution, share: (Int) -> Double): Int?
}

/**
 * A [RandomSource] on Steele, Lea and Flood's generator (OOPSLA 2014): 64 bits of state, no tables.
 *
 * Each question takes one uniform number, in the order asked. A question with a single answer takes none, so greedy
 * decoding never changes the state.
 */
internal open class SplitMix64(var state: Long) : RandomSource {
    /** The next 64 random bits. */
    fun nextU64(): Long {
        state += -0x61c8864680b583ebL
        var z = state
        z = (z xor (z ushr 30)) * -0x40a7b892e31b1a47L
        z = (z xor (z ushr 27)) * -0x6b2fb644ecceee15L
        return z xor (z ushr 31)
    }

    /** A number in 0 until 1 from the upper 53 bits; the same number in every language. */
    open fun uniform(): Double = (nextU64() ushr 11) * UNIT

    override fun bernoulli(probability: Double): Boolean =
        probability >= 1.0 || (probability > 0.0 && uniform() < probability)

    override fun categorical(weights: DoubleArray, count: Int): Int = inverse(count, uniform()) { weights[it] }

    override fun sample(distribution: Distribution, among: IntArray?): Int {
        if (among != null && among.size == 1) return among[0]
        return distribution.draw(if (distribution.isCertain) 0.0 else uniform(), among)
    }

    override fun rejectionSample(distribution: Distribution, share: (Int) -> Double): Int? {
        val token = sample(distribution)
        return if (bernoulli(share(token))) token else null
    }
}

/**
 * A seed from the operating system, for a generation without a given seed.
 *
 * It has 53 bits, so that every reader of JSON gets the same number.
 */
internal fun freshSeed(): Long = SecureRandom().nextLong() ushr 11

private const val UNIT = 1.0 / (1L shl 53)
