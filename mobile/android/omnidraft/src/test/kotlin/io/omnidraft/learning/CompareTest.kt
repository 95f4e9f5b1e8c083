package io.omnidraft.learning

import io.omnidraft.bundle.FloatTensor
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.SessionModel
import io.omnidraft.disk.Tensor
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.TargetRows
import io.omnidraft.learning.positions.fullTrie
import io.omnidraft.support.randomMap
import io.omnidraft.vocab.IntList
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.math.ln
import kotlin.random.Random

/** Adapters are compared by the acceptance of the drafter's distributions, over texts of several passes. */
class CompareTest {
    private val random = Random(5)
    private val map = randomMap(random)
    private val responses = List(12) { response(3 + it % 4) }
    private val model = KnowingModel(responses)

    private fun response(promptLength: Int): Aligned {
        val tokens = IntArray(60) { random.nextInt(map.targetSize) }
        val p = tokens.map { DoubleArray(map.targetSize) { -ln(1.0 - random.nextDouble()) } }.map { row ->
            row.sum().let { sum -> DoubleArray(row.size) { row[it] / sum } }
        }
        val ids = Array(tokens.size) { IntArray(map.targetSize) { it } }
        val prompt = IntArray(promptLength) { random.nextInt(map.draftSize) }
        return Aligner(fullTrie(map), 400).align(prompt, tokens, TargetRows(ids, p.toTypedArray(), DoubleArray(tokens.size)))
    }

    private fun adapter(knowledge: Float) = mapOf("knowledge" to FloatTensor(intArrayOf(1), floatArrayOf(knowledge)))

    @Test
    fun `a drafter that knows the target is better than one that does not`() {
        assertTrue(responses.all { it.draftIds.size > 2 * PASS }, "texts take several passes")
        val better = compare(model, responses, adapter(0f), adapter(1f))
        assertTrue(better.isBetter && better.isEnough, "${better.low}")
        assertEquals(responses.size, better.generations)
        assertEquals(responses.sumOf { it.trieDistributions.size }, better.positions)
        assertTrue(better.low <= better.offered - better.current && better.offered - better.current <= better.high)
        val worse = compare(model, responses, adapter(1f), adapter(0f))
        assertFalse(worse.isBetter)
        assertEquals(-better.high, worse.low, 1e-12)
        assertEquals(listOf(better.current, better.offered), listOf(worse.offered, worse.current))
        assertFalse(compare(model, responses, adapter(1f), adapter(1f)).isBetter)
        assertEquals(0, model.length)
    }

    /** Gives the target's distribution of some texts to the power of what its adapter says; 0 makes all ids equal. */
    private class KnowingModel(responses: List<Aligned>) : SessionModel {
        private val width = responses[0].vocabMap.draftSize
        private val known = HashMap<List<Int>, DoubleArray>()
        private val context = IntList()
        private var knowledge = 0f

        init {
            for (response in responses) {
                val distributions = response.trieDistributions
                for (n in distributions.rows.indices) {
                    val text = response.draftIds.take(response.promptLength + distributions.rows[n])
                    val p = DoubleArray(width) { (distributions.other[n] + 1e-6) / width }
                    for (k in distributions.ids[n].indices) p[distributions.ids[n][k]] += distributions.probabilities[n][k]
                    known[text] = p
                }
            }
        }

        override val vocabSize: Int get() = width
        override val maxLength: Int get() = 1000
        override val length: Int get() = context.size
        override var cancelled: () -> Boolean = { false }

        override fun score(tokens: IntArray, numLogits: Int?): Logits {
            val rows = tokens.map { token ->
                context.add(token)
                val p = known[context.toArray().asList()]
                FloatArray(width) { if (p == null) 0f else knowledge * ln(p[it]).toFloat() }
            }
            return Logits.of(rows.takeLast(numLogits ?: rows.size).flatMap { it.asList() }.toFloatArray(), width)
        }

        override fun rewind(length: Int) = context.truncate(length)

        override fun interrupt() = Unit

        override fun useAdapter(tensors: Map<String, Tensor>) {
            check(context.size == 0) { "the context is of the weights before" }
            knowledge = tensors["knowledge"]?.data?.getFloat(0) ?: 0f
        }
    }

    private companion object {
        const val PASS = 64
    }
}
