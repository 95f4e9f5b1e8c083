package io.omnidraft.disk

import java.math.BigInteger
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.CodingErrorAction

/*
 * JSON from outside, read strictly, and JSON that has one way to be written.
 *
 * Reading bounds the depth and the numbers, and refuses what readers of JSON disagree on: a name that occurs twice, text
 * after the value, NaN, half a surrogate pair. Writing gives the same bytes in every language: names in the order of the
 * caller, no spaces, no number with a fraction. spec/03-bundle.md, "JSON".
 *
 * A value is null, a Boolean, a Long, a BigInteger (an integer that no Long holds), a Double, a String, a List of values,
 * or a Map of names to values in the order of the text.
 */

/** Arrays and objects inside each other at most; the outermost is 1. */
internal const val MAX_DEPTH: Int = 32

/** Arrays and objects together at most. */
internal const val MAX_CONTAINERS: Int = 1 shl 18

internal const val MAX_NUMBER: Int = 32

/** A value from outside that is not what it must be; the reader of a file turns it into a refusal of that file. */
internal open class ValueError(message: String) : Exception(message)

internal fun parse(data: ByteArray): Any? = try {
    JsonReader(decodeUtf8(data)).whole()
} catch (_: OutOfMemoryError) { // 4 MB of short names take more than the heap of a small phone
    throw ValueError("it needs more memory than there is")
}

internal fun decodeUtf8(data: ByteArray): String {
    val decoder = Charsets.UTF_8.newDecoder()
    decoder.onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT)
    return try {
        decoder.decode(ByteBuffer.wrap(data)).toString()
    } catch (_: CharacterCodingException) {
        throw ValueError("it is not UTF-8")
    }
}

internal fun encodeUtf8(text: String): ByteArray {
    if (hasHalfPair(text)) throw ValueError("a string has half a surrogate pair")
    return text.toByteArray(Charsets.UTF_8)
}

internal fun hasHalfPair(text: String): Boolean {
    var at = 0
    while (at < text.length) {
        val char = text[at++]
        if (!char.isSurrogate()) continue
        if (char.isLowSurrogate() || at == text.length || !text[at].isLowSurrogate()) return true
        at++
    }
    return false
}

/**
 * The one JSON text of null, booleans, integers, strings, lists and maps in their own order.
 *
 * @throws IllegalArgumentException any other value, such as a float; a bug of the caller.
 * @throws ValueError half a surrogate pair.
 */
internal fun dump(value: Any?): ByteArray = encodeUtf8(buildString { write(value, this) })

/** A float as text: the 16 hexadecimal digits of its IEEE-754 binary64 bits, the highest first. */
internal fun bitsOf(number: Double): String = hex64(java.lang.Double.doubleToRawLongBits(number))

/** The float of 16 hexadecimal digits. */
internal fun numberOf(bits: String): Double = java.lang.Double.longBitsToDouble(bits.toULong(16).toLong())

private fun write(value: Any?, out: StringBuilder) {
    when (value) {
        null, is Boolean, is Int, is Long, is BigInteger -> out.append(value)
        is String -> writeText(value, out)
        is Map<*, *> -> {
            out.append('{')
            value.entries.forEachIndexed { index, (name, each) ->
                if (index > 0) out.append(',')
                writeText(name.toString(), out)
                out.append(':')
                write(each, out)
            }
            out.append('}')
        }
        is List<*> -> {
            out.append('[')
            value.forEachIndexed { index, each ->
                if (index > 0) out.append(',')
                write(each, out)
            }
            out.append(']')
        }
        else -> throw IllegalArgumentException("${value.javaClass.simpleName} has no form in JSON here")
    }
}

private fun writeText(text: String, out: StringBuilder) {
    out.append('"')
    for (char in text) {
        when {
            char == '"' || char == '\\' -> out.append('\\').append(char)
            char < ' ' -> out.append("\\u").append(char.code.toString(16).padStart(4, '0'))
            else -> out.append(char)
        }
    }
    out.append('"')
}
