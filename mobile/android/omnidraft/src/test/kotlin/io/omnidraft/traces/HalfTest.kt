package io.omnidraft.traces

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.math.BigDecimal
import java.util.Random
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
        val random = Random(1)
        val numbers = List(20_000) { Float.fromBits(random.nextInt()) } + List(40_000) { random.nextFloat() } +
            (0 until 0x7c00).map { middle(it) } + List(20_000) { random.nextFloat() * 2f.pow(random.nextInt(40) - 30) }
        for (number in numbers) {
            if (number.isNaN()) assertTrue(floatOf(halfOf(number)).isNaN()) else nearest(number)
        }
    }

    /** The number half way between a float16 and the next one; no float16 above the largest. */
    private fun middle(bits: Int): Float {
        val next = if (bits + 1 == 0x7c00) 65536f else floatOf((bits + 1).toShort())
        return (floatOf(bits.toShort()) + next) / 2
    }

    private fun nearest(number: Float) {
        val bits = halfOf(number).toInt() and 0xffff
        assertEquals(number < 0f || 1f / number < 0f, bits >= 0x8000, "sign of $number")
        val magnitude = bits and 0x7fff
        val distance = distance(number, magnitude)
        if (magnitude > 0) assertCloser(number, distance, magnitude, magnitude - 1)
        if (magnitude < 0x7c00) assertCloser(number, distance, magnitude, magnitude + 1)
    }

    private fun assertCloser(number: Float, distance: BigDecimal, bits: Int, other: Int) {
        val compared = distance.compareTo(distance(number, other))
        assertTrue(compared < 0 || (compared == 0 && bits % 2 == 0), "$number is ${bits.toString(16)}")
    }

    /** How far a number is from a float16; infinity counts as 2^16, which comes after the largest. */
    private fun distance(number: Float, bits: Int): BigDecimal {
        val half = if (bits == 0x7c00) BigDecimal(65536) else BigDecimal(floatOf(bits.toShort()).toDouble())
        val magnitude = if (number.isInfinite()) BigDecimal(65536) else BigDecimal(Math.abs(number).toDouble())
        val bounded = magnitude.min(BigDecimal(65536))
        return (bounded - half).abs()
    }
}
