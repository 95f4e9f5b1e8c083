package io.omnidraft.learning.positions

import io.omnidraft.SettingException
import io.omnidraft.support.randomMap
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** What cannot be aligned; `learner/align` of the vectors has what can. */
class AlignmentTest {
    private val map = randomMap(Random(1))
    private val aligner = Aligner(fullTrie(map), 200)

    private fun refusal(prompt: IntArray, tokens: IntArray, rows: TargetRows): String =
        assertThrows(SettingException::class.java) { aligner.align(prompt, tokens, rows) }.message.orEmpty()

    private fun listed(id: Int, probability: Double) =
        TargetRows(arrayOf(intArrayOf(id)), arrayOf(doubleArrayOf(probability)), doubleArrayOf(0.5))

    @Test
    fun `what cannot be aligned is refused`() {
        val one = listed(0, 0.5)
        assertTrue("prompt is empty" in refusal(IntArray(0), intArrayOf(0), one))
        assertTrue("2 tokens has 1 target rows" in refusal(intArrayOf(1), intArrayOf(0, 1), one))
        for (outside in listOf(-1, map.targetSize)) {
            assertTrue("outside 0.." in refusal(intArrayOf(1), intArrayOf(outside), one))
            assertTrue("outside 0.." in refusal(intArrayOf(1), intArrayOf(0), listed(outside, 0.5)))
        }
        assertTrue("outside 0.." in refusal(intArrayOf(map.draftSize), intArrayOf(0), one))
        for (wrong in listOf(Double.NaN, -0.5, 1.0)) {
            assertTrue("not a distribution" in refusal(intArrayOf(1), intArrayOf(0), listed(0, wrong)))
        }
        assertThrows(SettingException::class.java) { TargetRows(one.ids, one.probabilities, DoubleArray(2)) }
    }
}
