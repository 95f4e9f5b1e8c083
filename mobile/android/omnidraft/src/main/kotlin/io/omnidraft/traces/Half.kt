package io.omnidraft.traces

import kotlin.math.abs
import kotlin.math.round

/*
 * float16, the IEEE 754 binary16 numbers of a trace (spec/12-trace.md). The platform's own class is no part of plain
 * Java, so the conversions are here. Both are exact: to the nearest, ties to even, and back without a loss.
 */

private const val SIGN = 0x8000
private const val INFINITY = 0x7c00
private const val LARGEST_EXPONENT = 31
private const val REBIAS = (127 - 15) shl 23 // between the exponents of float32 and float16
private const val SMALLEST_NORMAL = (127 - 14) shl 23 // 2^-14 as float32
private const val OVERFLOW = 0x477ff000 // 65,520 as float32: from here on the nearest float16 is infinite
private const val SUBNORMALS = 16_777_216.0 // 2^24: a subnormal float16 is a multiple of 2^-24

/** The bits of the float16 that is nearest to a number. */
internal fun halfOf(number: Float): Short {
    val bits = number.toRawBits()
    val sign = (bits ushr 16) and SIGN
    val magnitude = bits and Int.MAX_VALUE
    return (sign or halfMagnitude(magnitude, number)).toShort()
}

private fun halfMagnitude(magnitude: Int, number: Float): Int = when {
    magnitude > Float.POSITIVE_INFINITY.toRawBits() -> nan(magnitude)
    magnitude >= OVERFLOW -> INFINITY
    magnitude >= SMALLEST_NORMAL -> (magnitude + 0xfff + ((magnitude ushr 13) and 1) - REBIAS) ushr 13
    else -> round(abs(number.toDouble()) * SUBNORMALS).toInt() // rounds ties to even
}

private fun nan(magnitude: Int): Int {
    val payload = (magnitude ushr 13) and 0x3ff
    return INFINITY or (if (payload == 0) 0x200 else payload)
}

/** The number of some float16 bits, exactly. */
internal fun floatOf(half: Short): Float {
    val bits = half.toInt() and 0xffff
    val exponent = (bits ushr 10) and LARGEST_EXPONENT
    val mantissa = bits and 0x3ff
    val magnitude = when (exponent) {
        0 -> (mantissa / SUBNORMALS.toFloat()).toRawBits()
        LARGEST_EXPONENT -> Float.POSITIVE_INFINITY.toRawBits() or (mantissa shl 13)
        else -> (exponent shl 23) + REBIAS or (mantissa shl 13)
    }
    return Float.fromBits(magnitude or ((bits and SIGN) shl 16))
}
