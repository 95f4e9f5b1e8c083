package io.omnidraft.learning.positions

import io.omnidraft.SettingException
import io.omnidraft.support.randomMap
import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.VocabMap
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** What holds for every alignment, in random languages. */
class AlignmentTest {
    private class Case(seed: Int) {
        val random = Random(seed)
        val map: VocabMap = randomMap(random)
        val trie: ActiveTrie = fullTrie(map)
        val tokens = IntArray(12) { random.nextInt(map.targetSize) }
        val rows = rows(random, map.targetSize, tokens.size)
    }

    @Test
    fun `each distribution is one, and belongs to a row`() {
        for (seed in 0 until 60) {
            val case = Case(seed)
            val aligned = Aligner(case.trie, 200).align(intArrayOf(1, 2), case.tokens, case.rows)
            val distributions = aligned.trieDistributions
            for (n in 0 until distributions.size) {
                assertEquals(1.0, distributions.probabilities[n].sum() + distributions.other[n], 1e-9, "seed $seed")
                assertTrue(distributions.rows[n] in 0 until aligned.numRows)
                assertTrue(distributions.weights[n] in 0.0..1.0 + 1e-9)
                assertEquals(distributions.ids[n].toSet().size, distributions.ids[n].size)
            }
        }
    }

    @Test
    fun `what the model wrote along a spelling multiplies to the token's probability`() {
        var compared = 0
        for (seed in 0 until 100) {
            val case = Case(seed)
            val leaf = case.map.leaves.filter { case.map.spell(it).size > 1 }.randomOrNull(case.random) ?: continue
            val node = checkNotNull(nodeOf(case.trie, case.map.spell(leaf)))
            if (hasChildren(case.trie, node)) continue // its end is decided by the next draft token
            val rows = rows(case.random, case.map.targetSize, 1)
            val aligned = Aligner(case.trie, 200).align(intArrayOf(1), intArrayOf(leaf), rows)
            val distributions = aligned.trieDistributions
            val product = case.map.spell(leaf).withIndex().fold(1.0) { product, (row, draft) ->
                product * distributions.probabilities[row][distributions.ids[row].indexOf(draft)]
            }
            assertEquals(rows.probabilities[0][leaf], product * distributions.weights[0], 1e-9, "seed $seed")
            compared += 1
        }
        assertTrue(compared > 20, "$compared")
    }

    @Test
    fun `what does not fit is dropped by whole tokens`() {
        for (seed in 0 until 30) {
            val case = Case(seed)
            val whole = Aligner(case.trie, 200).align(intArrayOf(1), case.tokens, case.rows)
            for (most in 1..whole.draftIds.size) {
                val cut = Aligner(case.trie, most).align(intArrayOf(1), case.tokens, case.rows)
                assertTrue(cut.draftIds.size <= most)
                assertArrayEquals(whole.draftIds.copyOf(cut.draftIds.size), cut.draftIds)
                val count = cut.tokens.size
                if (count < case.tokens.size) {
                    assertTrue(cut.draftIds.size + case.map.spell(case.tokens[count]).size > most)
                }
            }
        }
    }

    @Test
    fun `what cannot be aligned is refused`() {
        val case = Case(1)
        val aligner = Aligner(case.trie, 200)
        val one = rows(case.random, case.map.targetSize, 1)
        fun refusal(prompt: IntArray, tokens: IntArray, rows: TargetRows): String =
            assertThrows(SettingException::class.java) { aligner.align(prompt, tokens, rows) }.message.orEmpty()
        assertTrue("prompt is empty" in refusal(IntArray(0), intArrayOf(0), one))
        assertTrue("2 tokens has 1 target rows" in refusal(intArrayOf(1), intArrayOf(0, 1), one))
        for (outside in listOf(-1, case.map.targetSize)) {
            assertTrue("outside 0.." in refusal(intArrayOf(1), intArrayOf(outside), one))
            val listed = TargetRows(arrayOf(intArrayOf(outside)), arrayOf(doubleArrayOf(0.5)), doubleArrayOf(0.5))
            assertTrue("outside 0.." in refusal(intArrayOf(1), intArrayOf(0), listed))
        }
        assertTrue("outside 0.." in refusal(intArrayOf(case.map.draftSize), intArrayOf(0), one))
        for (wrong in listOf(Double.NaN, -0.5, 1.0)) {
            val rows = TargetRows(arrayOf(intArrayOf(0, 1)), arrayOf(doubleArrayOf(wrong, 0.5)), doubleArrayOf(0.5))
            assertTrue("not a distribution" in refusal(intArrayOf(1), intArrayOf(0), rows))
        }
        assertThrows(SettingException::class.java) { TargetRows(one.ids, one.probabilities, DoubleArray(2)) }
    }

    private companion object {
        fun rows(random: Random, size: Int, count: Int): TargetRows {
            val weights = List(count) { DoubleArray(size) { -Math.log(1.0 - random.nextDouble()) } }
            val p = weights.map { row -> row.sum().let { sum -> DoubleArray(size) { row[it] / sum } } }
            return TargetRows(Array(count) { IntArray(size) { it } }, p.toTypedArray(), DoubleArray(count))
        }
    }
}
