package io.omnidraft.disk

import java.math.BigDecimal
import java.math.BigInteger

/*
 * Checked fields of parsed JSON: each function returns a value of its kind, or throws ValueError.
 *
 * The reader of a file turns the ValueError into a refusal of that file.
 */

/** Items of an array, or names of an object, at most. */
internal const val MOST_ITEMS: Int = 1 shl 20

/** The largest id or count of a file, unless its chapter says another. */
internal const val MOST_INTEGER: Long = (1L shl 31) - 1

/** A string of at most [most] bytes of UTF-8; half of a surrogate pair is refused, as it has no UTF-8. */
internal fun text(value: Any?, most: Int = 1 shl 22): String {
    if (value !is String) throw ValueError("${quoted(value)} is not a string")
    val size = encodeUtf8(value).size
    if (size > most) throw ValueError("a string has $size bytes, more than $most")
    return value
}

internal fun hexadecimal(value: Any?, digits: Int): String {
    val text = text(value)
    if (!isHexadecimal(text, digits)) throw ValueError("${quoted(value)} is not $digits hexadecimal digits")
    return text
}

internal fun boolean(value: Any?): Boolean =
    value as? Boolean ?: throw ValueError("${quoted(value)} is neither true nor false")

/** An integer from [least] to [most]; 1.0 and true are not integers. */
internal fun long(value: Any?, least: Long, most: Long = MOST_INTEGER): Long {
    if (value !is Long && value !is BigInteger) throw ValueError("${quoted(value)} is not an integer")
    if (value !is Long || value !in least..most) throw ValueError("${quoted(value)} is not from $least to $most")
    return value
}

internal fun integer(value: Any?, least: Int, most: Int = Int.MAX_VALUE): Int =
    long(value, least.toLong(), most.toLong()).toInt()

/** A number from [least] to [most]; NaN, infinities and integers that no float holds are refused. */
internal fun number(value: Any?, least: Double = -Double.MAX_VALUE, most: Double = Double.MAX_VALUE): Double {
    val isInside = when (value) {
        is Double -> value in least..most
        is Long -> isInside(BigDecimal(value), least, most) // a Long may round into the range as a Double
        is BigInteger -> isInside(BigDecimal(value), least, most)
        else -> throw ValueError("${quoted(value)} is not a number")
    }
    if (!isInside) throw ValueError("${quoted(value)} is not from $least to $most")
    return (value as Number).toDouble()
}

private fun isInside(value: BigDecimal, least: Double, most: Double): Boolean {
    if (value.toDouble() > least && value.toDouble() < most) return true
    val isAbove = least == Double.NEGATIVE_INFINITY || value >= BigDecimal(least)
    return isAbove && (most == Double.POSITIVE_INFINITY || value <= BigDecimal(most))
}

/** A float from [least] to [most], written as the 16 hexadecimal digits of its bits. */
internal fun real(value: Any?, least: Double, most: Double): Double =
    number(numberOf(hexadecimal(value, 16)), least, most)

/** A list of [least] to [most] items, which are unchecked. */
internal fun array(value: Any?, most: Int = MOST_ITEMS, least: Int = 0): List<Any?> {
    if (value !is List<*>) throw ValueError("${quoted(value)} is not an array")
    if (value.size !in least..most) throw ValueError("an array has ${value.size} items, not $least to $most")
    return value
}

/** A list of token ids, 0 to 2^31 - 1. */
internal fun ids(value: Any?, most: Int = MOST_ITEMS): IntArray {
    val items = array(value, most)
    return IntArray(items.size) { integer(items[it], 0) }
}

/** An object of at most [most] names, its values unchecked. */
internal fun mapping(value: Any?, most: Int = MOST_ITEMS): Map<String, Any?> {
    if (value !is Map<*, *>) throw ValueError("${quoted(value)} is not an object")
    if (value.size > most) throw ValueError("an object has ${value.size} names, more than $most")
    @Suppress("UNCHECKED_CAST") // the reader makes maps with names of type String only
    return value as Map<String, Any?>
}

/** The value of a name that an object must have, unchecked. */
internal fun Map<String, Any?>.at(name: String): Any? {
    if (name !in this) throw ValueError("'$name' is missing")
    return get(name)
}

/** A value for a message: at most 80 characters, and a string between quotes. */
internal fun quoted(value: Any?): String = when (value) {
    is String -> "'${value.take(78)}'"
    is List<*> -> "an array of ${value.size} items"
    is Map<*, *> -> "an object of ${value.size} names"
    else -> value.toString()
}
