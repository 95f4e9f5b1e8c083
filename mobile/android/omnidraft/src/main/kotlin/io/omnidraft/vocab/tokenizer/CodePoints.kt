package io.omnidraft.vocab.tokenizer

import io.omnidraft.PromptException

/*
 * Texts as arrays of code points. A Kotlin string is UTF-16: its characters are not those that the rules speak of, and
 * it may hold half of a surrogate pair, which has no UTF-8.
 */

/** A part of an array of code points, which does not change. */
internal class Word(val points: IntArray, val from: Int = 0, val until: Int = points.size) {
    val size: Int get() = until - from
}

internal fun codePoints(text: String): IntArray {
    val points = IntArray(text.length)
    var size = 0
    var at = 0
    while (at < text.length) {
        val point = text.codePointAt(at)
        if (point in 0xD800..0xDFFF) throw PromptException("the text holds half a surrogate pair", "give whole text")
        points[size++] = point
        at += Character.charCount(point)
    }
    return if (size == points.size) points else points.copyOf(size)
}

internal fun utf8(points: IntArray, from: Int, until: Int): ByteArray {
    var size = 0
    for (at in from until until) size += utf8Length(points[at])
    val data = ByteArray(size)
    var end = 0
    for (at in from until until) end = putUtf8(points[at], data, end)
    return data
}

internal fun utf8Length(point: Int): Int =
    if (point < 0x80) 1 else if (point < 0x800) 2 else if (point < 0x10000) 3 else 4

/** Writes the UTF-8 of a code point, and returns the place behind it. */
internal fun putUtf8(point: Int, data: ByteArray, at: Int): Int {
    val length = utf8Length(point)
    if (length == 1) {
        data[at] = point.toByte()
        return at + 1
    }
    data[at] = (LEADS[length] or (point shr (6 * (length - 1)))).toByte()
    for (i in 1 until length) data[at + i] = (0x80 or ((point shr (6 * (length - 1 - i))) and 0x3F)).toByte()
    return at + length
}

private val LEADS = intArrayOf(0, 0, 0xC0, 0xE0, 0xF0)

/** Bytes of the character of well-formed UTF-8 that begins at a place; 0 if none does. */
internal fun characterLength(data: ByteArray, at: Int): Int {
    val lead = data[at].toInt() and 0xff
    val length = when (lead) {
        in 0x00..0x7F -> return 1
        in 0xC2..0xDF -> 2
        in 0xE0..0xEF -> 3
        in 0xF0..0xF4 -> 4
        else -> return 0
    }
    if (at + length > data.size || (data[at + 1].toInt() and 0xff) !in secondBytes(lead)) return 0
    for (i in 2 until length) if ((data[at + i].toInt() and 0xC0) != 0x80) return 0
    return length
}

/** The bytes that may follow a first byte: no surrogates, nothing that a shorter form has, nothing above U+10FFFF. */
private fun secondBytes(lead: Int): IntRange = when (lead) {
    0xE0 -> 0xA0..0xBF
    0xED -> 0x80..0x9F
    0xF0 -> 0x90..0xBF
    0xF4 -> 0x80..0x8F
    else -> 0x80..0xBF
}

/** The code points of well-formed UTF-8 from [from] to before [until]. */
internal fun decodePoints(data: ByteArray, from: Int, until: Int): IntArray {
    val points = IntArray(until - from)
    var size = 0
    var at = from
    while (at < until) {
        val length = characterLength(data, at)
        var point = (data[at].toInt() and 0xff) and FIRST_BITS[length]
        for (i in 1 until length) point = (point shl 6) or (data[at + i].toInt() and 0x3F)
        points[size++] = point
        at += length
    }
    return points.copyOf(size)
}

private val FIRST_BITS = intArrayOf(0, 0x7F, 0x1F, 0x0F, 0x07)
