package io.omnidraft.decoding

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.math.abs
import kotlin.math.exp

/** The loops over rows, beside the same in float64 and one number after another. */
class RowMathTest {
    private val math = RowMath()
    private val widths = listOf(1, 13, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 32_000, 151_936)

    private fun row(width: Int, spread: Double, seed: Long = 1): FloatArray {
        val random = SplitMix64(seed)
        return FloatArray(width) { ((random.uniform() - 0.5) * spread).toFloat() }
    }

    @Test
    fun theLargestNumberIsFoundWhereverItIs() {
        for (width in widths) {
            for (at in setOf(0, width / 2, width - 1)) {
                val row = row(width, 10.0)
                row[at] = 20f
                assertEquals(at, math.argmax(row, width), "place in $width")
                assertEquals(at, math.argmax(Logits.of(row, width), 0), "place in $width of a buffer")
            }
        }
    }

    @Test
    fun ofEqualNumbersTheLowestIdCounts() {
        for (width in widths) {
            assertEquals(0, math.argmax(FloatArray(width), width))
            assertEquals(0, math.argmax(FloatArray(width) { Float.NEGATIVE_INFINITY }, width))
            val row = row(width, 1.0)
            for (at in listOf(width - 1, 3 * width / 4, width / 3)) row[at] = 2f
            assertEquals(width / 3, math.argmax(row, width))
        }
    }

    @Test
    fun aNanCountsAsTheLargest() {
        for (nan in listOf(Float.NaN, Float.fromBits(0xffc00000.toInt()))) {
            for (width in widths) {
                val row = row(width, 10.0)
                row[width / 2] = Float.POSITIVE_INFINITY
                row[width - 1] = nan
                assertEquals(width - 1, math.argmax(row, width), "NaN in $width")
            }
        }
    }

    @Test
    fun theSecondRowIsReadFromItsPlace() {
        val rows = row(2 * 5000, 10.0)
        rows[5000 + 4321] = 30f
        assertEquals(4321, math.argmax(Logits.of(rows, 5000), 1))
    }

    @Test
    fun exponentialsAreRightToFloat32() {
        for (width in widths) {
            for (temperature in listOf(1f, 0.3f, 7f)) {
                val logits = row(width, 60.0)
                val largest = logits.max()
                val sums = emptyBlocks(width)
                val weights = FloatArray(width)
                math.exponentials(Logits.of(logits, width), 0, largest, temperature, weights, sums)
                for (id in 0 until width) {
                    val x = ((logits[id] - largest) / temperature).toDouble()
                    val due = exp(x)
                    val isRight = weights[id] >= 0f && abs(weights[id] - due) <= due * 3e-7 + 2e-38
                    if (!isRight) throw AssertionError("exp($x) is ${weights[id]} and not $due")
                }
                val whole = weights.sumOf { it.toDouble() }
                assertTrue(abs(sums.sum() - whole) < 1e-6 * whole, "sum of $width")
                assertTrue(logits.copyOf().also { math.exponentials(it, width, largest, temperature, sums) }
                    .contentEquals(weights), "in place")
            }
        }
    }

    @Test
    fun theLargestHasWeightOneAndMinusInfinityHasNone() {
        val row = floatArrayOf(3f, Float.NEGATIVE_INFINITY, -3.4e38f, 3f, 2f)
        math.exponentials(row, row.size, 3f, 1f, emptyBlocks(row.size))
        assertEquals(listOf(1f, 0f, 0f, 1f), row.take(4))
    }

    @Test
    fun sumsUnderAMaskAreThoseOfItsOnes() {
        for (width in widths) {
            val weights = row(width, 1.0).also { for (i in it.indices) it[i] = abs(it[i]) }
            val mask = FloatArray(width) { if (it % 3 == 0) 1f else 0f }
            val due = weights.indices.filter { mask[it] > 0f }.sumOf { weights[it].toDouble() }
            assertEquals(due, math.maskedSum(weights, mask, width), 1e-6 * due)
        }
    }
}
