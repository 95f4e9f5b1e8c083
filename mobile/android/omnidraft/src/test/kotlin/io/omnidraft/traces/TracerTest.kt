package io.omnidraft.traces

import io.omnidraft.Defaults
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.SamplingConfig
import io.omnidraft.support.ToyGeneration
import io.omnidraft.support.ToyMode
import io.omnidraft.support.randomMap
import io.omnidraft.support.softmax
import io.omnidraft.support.vectorMap
import java.lang.management.ManagementFactory
import kotlin.math.ln
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The record of a round agrees with the round, for every way to propose and at every temperature. */
class TracerTest {
    private val toy = vectorMap("toy")

    private inner class Recorded(mode: ToyMode, sampling: SamplingConfig, seed: Int) {
        val generation = ToyGeneration(toy, mode, seed, sampling)
        val traced = ArrayList<TracedRound>()
        val rounds: List<Round>

        init {
            val tracer = Tracer(toy, { true })
            rounds = generation.run { outcome, probs ->
                traced.add(checkNotNull(tracer(outcome, probs)))
            }
            assertEquals(rounds.size, traced.size)
        }
    }

    @Test
    fun `each token has the target's own distribution before it`() {
        // At temperature 1 and without the penalty, for any sampling.
        val samplings = listOf(SamplingConfig(), SamplingConfig(temperature = 0.7, topK = 4, repetitionPenalty = 1.3))
        for (mode in ToyMode.entries) for (sampling in samplings) for (seed in 0 until 5) {
            val recorded = Recorded(mode, sampling, seed)
            var text = ToyGeneration.TOY_PROMPT
            recorded.rounds.zip(recorded.traced).forEach { (round, traced) ->
                assertArrayEquals(round.emitted, traced.tokens.map { it.tokenId }.toIntArray())
                traced.tokens.forEachIndexed { i, token ->
                    assertEquals(i < round.accepted, token.accepted)
                    check(token, softmax(recorded.generation.target.row(text.asList())))
                    text += token.tokenId
                }
            }
        }
    }

    private fun check(token: TracedToken, p: DoubleArray) {
        assertEquals(-ln(p[token.tokenId]), token.surprisal, 1e-5)
        check(token.distribution, p, 0.0)
        val roots = DoubleArray(toy.draftSize)
        for (target in toy.leaves) roots[toy.spell(target)[0]] += p[target]
        assertEquals(1.0 - roots.sum(), token.unspelled, 1e-5)
        assertTrue(token.unspelled > 0.0)
        check(token.roots, roots, token.unspelled)
    }

    private fun check(kept: Masses, p: DoubleArray, beside: Double) {
        val expected = p.indices.filter { p[it] >= Defaults.TRACE_FLOOR }
        assertEquals(expected, kept.ids.asList())
        for (i in expected.indices) {
            assertEquals(p[expected[i]], kept.probabilities[i].toDouble(), p[expected[i]] / (1 shl 11) + 1e-7)
        }
        assertEquals(1.0 - beside - expected.sumOf { p[it] }, kept.rest, 1e-5)
    }

    @Test
    fun `what sums are off by is no mass without a spelling`() {
        val spelled = toy.leaves.toSet()
        val random = java.util.Random(0)
        val tracer = Tracer(toy, { true })
        repeat(200) {
            val logits = FloatArray(toy.targetSize) {
                if (it in spelled) random.nextGaussian().toFloat() else Float.NEGATIVE_INFINITY
            }
            assertEquals(0.0, tracer.roots(checkNotNull(tracer.row(Logits.of(logits, logits.size), 0))).second)
        }
    }

    @Test
    fun `a row that is no distribution is not recorded`() {
        val tracer = Tracer(toy, { true })
        val infinite = Float.POSITIVE_INFINITY
        for (wrong in listOf(Float.NaN, infinite)) {
            val logits = FloatArray(toy.targetSize).also { it[5] = wrong }
            assertNull(tracer.row(Logits.of(logits, logits.size), 0))
        }
        assertNull(tracer.row(Logits.of(FloatArray(toy.targetSize) { -infinite }, toy.targetSize), 0))
        assertNotNull(tracer.row(Logits.of(FloatArray(toy.targetSize).also { it[0] = -infinite }, toy.targetSize), 0))
    }

    @Test
    fun `after the first row no memory of the size of a vocabulary is taken`() {
        val map = randomMap(Random(1), 20_000, 150_000)
        val random = java.util.Random(2)
        val logits = Logits.of(FloatArray(map.targetSize) { (3 * random.nextGaussian()).toFloat() }, map.targetSize)
        val tracer = Tracer(map, { true })
        fun keep() {
            val row = checkNotNull(tracer.row(logits, 0))
            tracer.roots(row)
            row.largest(Defaults.TRACE_TOP)
        }
        keep() // takes the memory that is used again
        val threads = ManagementFactory.getThreadMXBean() as com.sun.management.ThreadMXBean
        val before = threads.getThreadAllocatedBytes(Thread.currentThread().id)
        repeat(10) { keep() }
        val each = (threads.getThreadAllocatedBytes(Thread.currentThread().id) - before) / 10
        assertTrue(each < 8 * 4 * Defaults.TRACE_TOP, "a row takes $each bytes") // eight arrays of 64 numbers
    }
}
