package io.omnidraft.traces

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.math.nextDown
import kotlin.math.nextUp
import kotlin.math.pow

/** float16, compared with its definition and not with another conversion. */
class HalfTest {
    @Test
    fun `every float16 is its own nearest`() {
        for (bits in 0..0xffff) {
            val half = bits.toShort()
            assertEquals(half, halfOf(floatOf(half)), "bits ${bits.toString(16)}")
        }
    }

    @Test
    fun `every float16 has the value of its fields`() {
        for (bits in 0..0xffff) {
            val exponent = (bits ushr 10) and 31
            val mantissa = bits and 0x3ff
            val magnitude = when (exponent) {
                0 -> mantissa * 2.0.pow(-24)
                31 -> if (mantissa == 0) Double.POSITIVE_INFINITY else Double.NaN
                else -> (1024 + mantissa) * 2.0.pow(exponent - 25)
            }
            val expected = if (bits and 0x8000 == 0) magnitude else -magnitude
            assertEquals(expected, floatOf(bits.toShort()).toDouble(), "bits ${bits.toString(16)}")
        }
    }

    @Test
    fun `a number becomes the nearest float16, and of two equally near ones the even`() {
        for (bits in 0 until 0x7c00) {
            val next = if (bits + 1 == 0x7c00) 65536f else floatOf((bits + 1).toShort()) // infinity begins half way to it
            val middle = (floatOf(bits.toShort()) + next) / 2
            val expected = mapOf(middle.nextDown() to bits, middle to bits + bits % 2, middle.nextUp() to bits + 1)
            for ((number, half) in expected) {
                assertEquals(half.toShort(), halfOf(number), "$number")
                assertEquals((half or 0x8000).toShort(), halfOf(-number), "-$number")
            }
        }
        assertTrue(floatOf(halfOf(Float.NaN)).isNaN())
        assertEquals(0x7c00.toShort(), halfOf(Float.MAX_VALUE))
    }
}
