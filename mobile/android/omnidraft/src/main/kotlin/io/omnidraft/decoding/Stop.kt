package io.omnidraft.decoding

import io.omnidraft.SettingException
import io.omnidraft.disk.hasHalfPair

/* Where an output ends: at an end token or at a stop string, whichever byte comes first (spec/05-stopping.md). */

/** The tokens of a round that are output. */
internal class Emitted(val tokens: IntArray, val ended: Boolean)

/** Says which of a round's tokens are output, and whether the output ends there. */
internal fun interface Cut {
    fun cut(tokens: IntArray): Emitted
}

/**
 * Decodes UTF-8 that arrives in pieces: incomplete characters wait; invalid bytes become U+FFFD, one for each maximal
 * subpart. The platform's decoders disagree with this rule, so the table of the chapter is here.
 */
internal class Utf8Stream {
    private var point = 0 // of the character that was begun
    private var missing = 0 // bytes that it still lacks; 0 where none was begun
    private var least = 0x80 // range of its next byte
    private var most = 0xBF

    /** The text that is certain so far; an incomplete character is held back. */
    fun push(data: ByteArray): String {
        val text = StringBuilder(data.size)
        for (byte in data) take(byte.toInt() and 0xff, text)
        return text.toString()
    }

    /** The text that was held back, at the end of the output. */
    fun flush(): String {
        val text = if (missing > 0) "\uFFFD" else ""
        missing = 0
        return text
    }

    private fun take(byte: Int, text: StringBuilder) {
        if (missing > 0) {
            if (byte in least..most) return goOn(byte, text)
            text.append('\uFFFD')
            missing = 0
        }
        begin(byte, text)
    }

    private fun goOn(byte: Int, text: StringBuilder) {
        point = (point shl 6) or (byte and 0x3F)
        expect(missing - 1)
        if (missing == 0) text.appendCodePoint(point)
    }

    private fun begin(byte: Int, text: StringBuilder) {
        point = byte
        when (byte) {
            in 0x00..0x7F -> text.append(byte.toChar())
            in 0xC2..0xDF -> expect(1)
            in 0xE0..0xEF -> expect(2, if (byte == 0xE0) 0xA0 else 0x80, if (byte == 0xED) 0x9F else 0xBF)
            in 0xF0..0xF4 -> expect(3, if (byte == 0xF0) 0x90 else 0x80, if (byte == 0xF4) 0x8F else 0xBF)
            else -> text.append('\uFFFD')
        }
        if (missing > 0) point = byte and (0x3F shr missing)
    }

    private fun expect(bytes: Int, from: Int = 0x80, to: Int = 0xBF) {
        missing = bytes
        least = from
        most = to
    }
}

/**
 * The text of an output as it grows, up to the first stop string.
 *
 * The first stop string is the one whose last byte comes first; of several that end with the same byte, the longest.
 */
internal class StopText(stops: List<String> = emptyList()) {
    private val stops: List<ByteArray> = stops.map { stopBytes(it) }
    private val pending = Bytes() // bytes that may be the beginning of a stop string
    private val stream = Utf8Stream()
    private var ready = StringBuilder()
    private var pushed = 0

    var matched: String? = null
        private set

    /** Byte of the output at which it begins; null before. */
    var start: Int? = null
        private set

    /** Take in the bytes of one token; true when they complete a stop string, which ends the output. */
    fun push(data: ByteArray): Boolean {
        check(start == null) { "the output ended before" }
        if (stops.isEmpty()) {
            ready.append(stream.push(data))
            return false
        }
        for (byte in data) if (complete(byte)) return true
        release(pending.size - (stops.maxOfOrNull { pending.overlap(it) } ?: 0))
        return false
    }

    /** Take in one byte; true when it completes a stop string. */
    private fun complete(byte: Byte): Boolean {
        pending.add(byte)
        pushed++
        val match = stops.filter { pending.endsWith(it, it.size) }.maxByOrNull { it.size } ?: return false
        pending.size -= match.size
        matched = String(match, Charsets.UTF_8)
        start = pushed - match.size
        return true
    }

    /** The text that became certain since the last call. */
    fun take(): String {
        val text = ready.toString()
        ready = StringBuilder()
        return text
    }

    /** The text that was held back; a half character at the end becomes U+FFFD, as in any decoding. */
    fun end(): String {
        release(pending.size)
        return take() + stream.flush()
    }

    private fun release(count: Int) {
        ready.append(stream.push(pending.takeFirst(count)))
    }
}

/**
 * The tokens of a round up to the first that ends the output, which is included, and whether one does.
 *
 * The bytes of the tokens go into [text]; an end token writes nothing.
 */
internal fun cutAtStop(tokens: IntArray, eosIds: Set<Int>, text: StopText, bytesOf: (Int) -> ByteArray): Emitted {
    for (i in tokens.indices) {
        if (tokens[i] in eosIds || text.push(bytesOf(tokens[i]))) return Emitted(tokens.copyOf(i + 1), true)
    }
    return Emitted(tokens, false)
}

/** A cut at the first end-of-sequence token; what was accepted after it is not output. */
internal fun cutAtEos(eosIds: Set<Int>): Cut = Cut { tokens ->
    val at = tokens.indexOfFirst { it in eosIds }
    if (at < 0) Emitted(tokens, false) else Emitted(tokens.copyOf(at + 1), true)
}

/** A number of whole tokens, and of bytes of the token after them. */
internal data class WholeTokens(val tokens: Int, val bytes: Int)

/** How many tokens lie entirely before byte [start], and how many bytes of the next token do. */
internal fun wholeTokens(lengths: IntArray, start: Int): WholeTokens {
    var left = start
    for (i in lengths.indices) {
        if (lengths[i] > left) return WholeTokens(i, left)
        left -= lengths[i]
    }
    return WholeTokens(lengths.size, 0)
}

private fun stopBytes(stop: String): ByteArray {
    if (hasHalfPair(stop)) {
        throw SettingException("the stop string \"$stop\" holds half of a surrogate pair", "give whole text", "stop")
    }
    if (stop.isEmpty()) {
        throw SettingException("a stop string is empty, which would end every output", "give some text", "stop")
    }
    return stop.toByteArray(Charsets.UTF_8)
}

/** Bytes that grow at one end and are taken from the other. */
private class Bytes {
    private var values = ByteArray(64)
    var size = 0

    fun add(byte: Byte) {
        if (size == values.size) values = values.copyOf(2 * size)
        values[size++] = byte
    }

    fun endsWith(stop: ByteArray, length: Int): Boolean =
        length <= size && (0 until length).all { values[size - length + it] == stop[it] }

    /** Length of the longest end of the bytes that [stop] begins with and goes on from. */
    fun overlap(stop: ByteArray): Int = (minOf(size, stop.size - 1) downTo 1).firstOrNull { endsWith(stop, it) } ?: 0

    fun takeFirst(count: Int): ByteArray {
        val taken = values.copyOf(count)
        System.arraycopy(values, count, values, 0, size - count)
        size -= count
        return taken
    }
}
