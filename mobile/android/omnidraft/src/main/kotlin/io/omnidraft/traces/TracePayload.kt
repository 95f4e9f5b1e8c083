package io.omnidraft.traces

import io.omnidraft.Defaults
import io.omnidraft.Defaults.TRACE_WINDOW as WINDOW
import io.omnidraft.TraceFileException
import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.bytesOf
import io.omnidraft.disk.f32
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.i32
import io.omnidraft.disk.u16
import io.omnidraft.disk.u32
import io.omnidraft.disk.u8
import kotlin.math.abs

/* Payloads of the entries of a trace's file: the beginning of a record, and a round (spec/12-trace.md). */

/** The modes of generation; a file has their indices. */
internal val MODES: List<String> = listOf("trie", "match", "direct", "paper", "lookup", "plain")

private const val START_BYTES = 72 // digests, mode, continues, reserved, skipped
private const val TOKEN_BYTES = 24 // id, accepted, ids of distribution and roots, reserved, four numbers
private const val DIGEST_BYTES = 32
private const val ROUNDING = 1.0 / (1 shl 8) // more than 64 roundings to float16 can add up to
private val NO_DIGEST = "0".repeat(2 * DIGEST_BYTES)
private const val NARROW = 1L shl 16
private val NO_IDS = IntArray(0)
private val NO_PROBABILITIES = FloatArray(0)
private val NOTHING = Masses(NO_IDS, NO_PROBABILITIES, 1.0)

/** The sizes of both vocabularies, which give the width of ids: 2 bytes up to 65,536 ids, else 4. */
internal class PayloadLayout(val draftSize: Long, val targetSize: Long) {
    val draftBytes: Int get() = idBytes(draftSize)

    val targetBytes: Int get() = idBytes(targetSize)

    companion object {
        fun of(vocabularies: Vocabularies): PayloadLayout =
            PayloadLayout(vocabularies.draftSize, vocabularies.targetSize)
    }
}

internal fun encodeStart(start: Start, layout: PayloadLayout): ByteArray {
    val out = ByteWriter(START_BYTES + start.context.size * layout.draftBytes)
    for (digest in listOf(start.drafterAdapter, start.targetAdapter)) out.put(bytesOf(digest ?: NO_DIGEST))
    out.u8(MODES.indexOf(start.mode)).u8(if (start.continues) 1 else 0).u16(0)
    out.u32(start.skipped)
    out.ids(start.context, layout.draftBytes)
    return out.bytes()
}

internal fun encodeRound(traced: TracedRound, layout: PayloadLayout): ByteArray {
    val out = ByteWriter(1 shl 10)
    for (token in traced.tokens) out.token(token, layout)
    return out.bytes()
}

private fun ByteWriter.token(token: TracedToken, layout: PayloadLayout) {
    i32(token.tokenId)
    u8(if (token.accepted) 1 else 0)
    count(token.distribution.ids.size).count(token.roots.ids.size).u8(0)
    f32(token.surprisal.toFloat()).f32(token.distribution.rest.toFloat())
    f32(token.roots.rest.toFloat()).f32(token.unspelled.toFloat())
    masses(token.distribution, layout.targetBytes)
    masses(token.roots, layout.draftBytes)
}

private fun ByteWriter.masses(masses: Masses, idBytes: Int) {
    ids(masses.ids, idBytes)
    for (probability in masses.probabilities) u16(halfOf(probability).toInt())
}

private fun ByteWriter.ids(ids: IntArray, idBytes: Int) {
    for (id in ids) if (idBytes == 2) u16(id) else i32(id)
}

/** A number that a byte of the format holds. */
private fun ByteWriter.count(count: Int): ByteWriter {
    check(count in 0..255) { "$count does not fit a byte of a trace" }
    return u8(count)
}

/** The beginning of a record in its payload, which is a part of an array. */
internal fun decodeStart(data: ByteArray, from: Int, until: Int, layout: PayloadLayout): Start {
    val cursor = Cursor(data, from, until)
    val at = cursor.take(START_BYTES.toLong())
    val mode = u8(data, at + 64)
    val continues = u8(data, at + 65)
    val reserved = u16(data, at + 66)
    val skipped = u32(data, at + 68)
    demand(reserved == 0, "reserved") { "the reserved field of a record is $reserved, not 0" }
    demand(mode < MODES.size, "kind") { "it has a mode $mode, outside 0..${MODES.size - 1}" }
    demand(continues < 2, "kind") { "it has a record that continues $continues, neither 0 nor 1" }
    val context = cursor.window(skipped, layout)
    val drafter = digest(data, at)
    val target = digest(data, at + DIGEST_BYTES)
    return Start(drafter, target, MODES[mode], continues == 1, skipped, context)
}

private fun Cursor.window(skipped: Long, layout: PayloadLayout): IntArray {
    val count = left / layout.draftBytes
    val extra = left % layout.draftBytes
    demand(extra == 0, "length") { "a record has $extra bytes too many" }
    demand(count <= WINDOW, "limits") { "a record begins with $count draft ids, more than $WINDOW" }
    demand(skipped == 0L || count == WINDOW, "limits") { "a record keeps $count draft ids and leaves some out" }
    return draftIds(count.toLong(), layout)
}

internal fun decodeRound(data: ByteArray, from: Int, until: Int, layout: PayloadLayout): TracedRound {
    val cursor = Cursor(data, from, until)
    demand(cursor.left > 0, "counts") { "a round emitted nothing" }
    val tokens = ArrayList<TracedToken>()
    while (cursor.left > 0) tokens.add(cursor.token(layout))
    val late = tokens.dropWhile { it.accepted }.any { it.accepted }
    demand(!late, "counts") { "a token was accepted after one that was not" }
    return TracedRound(tokens)
}

private fun Cursor.token(layout: PayloadLayout): TracedToken {
    val at = take(TOKEN_BYTES.toLong())
    val token = u32(data, at)
    val accepted = u8(data, at + 4)
    val reserved = u8(data, at + 7)
    val surprisal = f32(data, at + 8)
    val unspelled = f32(data, at + 20)
    demand(reserved == 0, "reserved") { "the reserved field of a token is $reserved, not 0" }
    demand(token < layout.targetSize, "id_range") { "it holds target id $token of ${layout.targetSize}" }
    demand(accepted < 2, "kind") { "it has a token that was accepted $accepted, neither 0 nor 1" }
    demand(isNumber(surprisal), "number") { "it has a surprisal of $surprisal" }
    demand(isShare(unspelled), "number") { "it has an unspelled mass of $unspelled" }
    val ofTarget = Listing(u8(data, at + 5), layout.targetBytes, layout.targetSize)
    val distribution = masses(ofTarget, f32(data, at + 12), 0f)
    val ofDrafter = Listing(u8(data, at + 6), layout.draftBytes, layout.draftSize)
    val roots = masses(ofDrafter, f32(data, at + 16), unspelled)
    return TracedToken(
        token.toInt(), surprisal.toDouble(), accepted == 1, distribution, roots, unspelled.toDouble(),
    )
}

/** How many ids a distribution lists, the bytes of an id, and the size of the vocabulary. */
private class Listing(val count: Int, val idBytes: Int, val size: Long)

/** A distribution. */
private fun Cursor.masses(listing: Listing, rest: Float, beside: Float): Masses {
    val count = listing.count
    if (count == 0) { // of most tokens of a hostile file, and not worth a few arrays each
        demandWhole(0.0, rest, beside)
        return if (rest == 1f) NOTHING else Masses(NO_IDS, NO_PROBABILITIES, rest.toDouble())
    }
    val ids = ids(count.toLong(), listing.idBytes)
    val halves = take(count * 2L)
    val probabilities = FloatArray(count) { floatOf(u16(data, halves + 2 * it).toShort()) }
    // As unsigned numbers, because a wide id of a hostile file may be 2^31 or more.
    val ascend = (1 until count).all { unsigned(ids[it - 1]) < unsigned(ids[it]) }
    demand(ascend, "order") { "the ids of a distribution do not ascend" }
    val last = unsigned(ids[count - 1])
    demand(last < listing.size, "id_range") { "it holds id $last of ${listing.size}" }
    // As a comparison that NaN fails too.
    val right = probabilities.all { it >= Defaults.TRACE_FLOOR && it <= 1f }
    demand(right, "number") { "a distribution has a probability outside 2^-14 to 1" }
    demandWhole(probabilities.sumOf { it.toDouble() }, rest, beside)
    return Masses(ids, probabilities, rest.toDouble())
}

private fun demandWhole(listed: Double, rest: Float, beside: Float) {
    demand(isShare(rest), "number") { "it has a rest of $rest" }
    val whole = listed + rest + beside
    demand(abs(whole - 1.0) <= ROUNDING, "mass") { "the masses of a distribution add up to $whole, not 1" }
}

/** Reads fields from the front of a payload, which is the part [at] to [until] of [data]. */
private class Cursor(val data: ByteArray, private var at: Int, private val until: Int) {
    /** Bytes that were not read. */
    val left: Int get() = until - at

    /** Where the next [count] bytes begin; they count as read. */
    fun take(count: Long): Int {
        demand(count <= left, "length") { "an entry lacks ${count - left} bytes" }
        return at.also { at += count.toInt() }
    }

    /** Ids as they are in the file: 4 bytes wide they may be negative here. */
    fun ids(count: Long, idBytes: Int): IntArray {
        val begin = take(count * idBytes)
        if (count == 0L) return NO_IDS
        return IntArray(count.toInt()) { if (idBytes == 2) u16(data, begin + 2 * it) else i32(data, begin + 4 * it) }
    }

    fun draftIds(count: Long, layout: PayloadLayout): IntArray {
        val ids = ids(count, layout.draftBytes)
        val largest = ids.maxOfOrNull { unsigned(it) } ?: 0L
        demand(largest < layout.draftSize, "id_range") { "it holds draft id $largest of ${layout.draftSize}" }
        return ids
    }
}

/** Refuse a file with the name of a fault unless a condition holds. */
internal inline fun demand(holds: Boolean, fault: String, sentence: () -> String) {
    if (!holds) throw TraceFileException(fault, sentence())
}

private fun digest(data: ByteArray, at: Int): String? =
    hexOf(data.copyOfRange(at, at + DIGEST_BYTES)).takeIf { it != NO_DIGEST }

private fun idBytes(size: Long): Int = if (size <= NARROW) 2 else 4

private fun unsigned(id: Int): Long = id.toLong() and 0xffffffffL

/** Whether a number is finite, not negative and not -0: each number is written in one way. */
private fun isNumber(x: Float): Boolean = x >= 0f && x < Float.POSITIVE_INFINITY && x.toRawBits() >= 0

private fun isShare(x: Float): Boolean = isNumber(x) && x <= 1f
