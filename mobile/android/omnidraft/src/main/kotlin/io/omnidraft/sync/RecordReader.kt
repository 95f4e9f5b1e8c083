package io.omnidraft.sync

import io.omnidraft.disk.hexOf
import io.omnidraft.disk.isHexadecimal
import io.omnidraft.disk.sha256

/*
 * The values of the lines of a record, and of the pointer of a device (spec/15-sync.md).
 */

internal const val LARGEST = 999_999_999_999_999L

private const val NONE = "none"
private const val NUMBER_DIGITS = 15
private const val HASH_DIGITS = 64

/** A record that is not written as its table says; the reader of a record turns it into a refusal. */
internal class MalformedRecord : Exception()

/** The form of a file in a record, `HASH BYTES` or `none`. */
internal fun shownFile(file: StoredFile?): String = file?.toString() ?: NONE

/**
 * Reads the lines of a record, each exactly as it must be.
 *
 * Every byte is one character here, so a byte that is not ASCII fits no form. Each function throws [MalformedRecord]
 * where the text is another.
 */
internal class RecordReader(private val data: ByteArray) {
    private var at = 0

    /** The value of the next line, which must have this name. */
    fun value(name: String): String = after("$name ") ?: throw MalformedRecord()

    /** The value of the next line if the line begins with `name `; else null, and nothing was read. */
    fun valueOrNull(name: String): String? = after("$name ")

    fun line(text: String) {
        if (after(text) != "") throw MalformedRecord()
    }

    /** Nothing may follow. */
    fun end() {
        if (at != data.size) throw MalformedRecord()
    }

    fun channel(): Channel = Channel(
        hash(value("base")),
        hash(value("target")),
        hash(value("draft_tokenizer")),
        hash(value("target_tokenizer")),
    )

    /** The rest of a line that begins with [start]; null where it does not. */
    private fun after(start: String): String? {
        if (data.size - at < start.length) return null
        for (i in start.indices) if (data[at + i].toInt() and 0xff != start[i].code) return null
        var end = at + start.length
        while (end < data.size && data[end] != NEWLINE) end++
        if (end == data.size) return null
        val text = String(data, at + start.length, end - at - start.length, Charsets.ISO_8859_1)
        at = end + 1
        return text
    }

    private companion object {
        const val NEWLINE: Byte = 0x0a
    }
}

/** A value that is 64 hexadecimal digits. */
internal fun hash(value: String): String {
    if (!isHexadecimal(value, HASH_DIGITS)) throw MalformedRecord()
    return value
}

/** A number from 1 to [LARGEST] without leading zeros. */
internal fun number(value: String): Long = if (value == "0") throw MalformedRecord() else count(value)

/** A number, or 0. */
internal fun count(value: String): Long {
    val right = value.length in 1..NUMBER_DIGITS && value.all { it in '0'..'9' } && (value == "0" || value[0] != '0')
    return if (right) value.toLong() else throw MalformedRecord()
}

/** A time `YYYY-MM-DDThh:mm:ssZ`; times compare as text. */
internal fun time(value: String): String {
    if (value.length != TIME_FORM.length) throw MalformedRecord()
    for (i in value.indices) {
        val right = if (TIME_FORM[i] == '0') value[i] in '0'..'9' else value[i] == TIME_FORM[i]
        if (!right) throw MalformedRecord()
    }
    val right = two(value, 5) in 1..12 && two(value, 8) in 1..31 && two(value, 11) <= 23 &&
        two(value, 14) <= 59 && two(value, 17) <= 59
    if (!right) throw MalformedRecord()
    return value
}

/** The file of `HASH BYTES`, null for `none`. */
internal fun fileOrNone(value: String): StoredFile? = if (value == NONE) null else file(value)

/** The file of `HASH BYTES`. */
internal fun file(value: String): StoredFile {
    val space = value.indexOf(' ')
    if (space < 0) throw MalformedRecord()
    return StoredFile(hash(value.substring(0, space)), number(value.substring(space + 1)))
}

internal fun digestOf(data: ByteArray): String = hexOf(sha256(data))

internal fun ascii(text: String): ByteArray = text.toByteArray(Charsets.US_ASCII)

private fun two(value: String, at: Int): Int = (value[at] - '0') * 10 + (value[at + 1] - '0')

private const val TIME_FORM = "0000-00-00T00:00:00Z"
