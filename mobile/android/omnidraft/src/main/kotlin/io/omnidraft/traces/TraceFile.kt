package io.omnidraft.traces

import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.bytesOf
import io.omnidraft.disk.crc32
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.i64
import io.omnidraft.disk.u16
import io.omnidraft.disk.u32

/* The file of a trace, format version 2: spec/12-trace.md. A header, then frames that are only ever appended. */

internal val MAGIC: ByteArray = bytesOf("894f44540d0a1a0a")

internal const val VERSION = 2
internal const val MAX_VOCABULARY = 1L shl 31

/** No segment is larger; a larger file is not read: it may hold 150,000 tokens. */
internal const val MAX_SEGMENT_BYTES = 1L shl 22

/** Bytes of the header, with its CRC-32. */
internal const val HEADER_BYTES = 100

/** Bytes of a frame without its payload: the fields before it, the CRC-32 after it. */
internal const val FRAME_BYTES = 16

internal const val START = 1
internal const val ROUND = 2

private const val FIELD_BYTES = 12 // of a frame before its payload
private const val CHECKED_BYTES = 96 // of the header before its CRC-32

internal class TraceHeader(val vocabularies: Vocabularies, val number: Long)

/**
 * One entry: the beginning of a record, or a round of it.
 *
 * @property record the number of the record; records have numbers 0, 1, ... in a segment.
 */
internal class Frame(val record: Long, val content: Content)

/**
 * A file of a trace.
 *
 * @property torn bytes at the end that were left out, of a write that did not finish.
 */
internal class Segment(val header: TraceHeader, val frames: List<Frame>, val torn: Int = 0) {
    /** The records in the order in which they began, without those that have no round. */
    fun generations(): List<Traced> {
        val starts = LinkedHashMap<Long, Start>()
        val rounds = HashMap<Long, MutableList<TracedRound>>()
        for (frame in frames) {
            when (val content = frame.content) {
                is Start -> starts[frame.record] = content
                is TracedRound -> rounds.getOrPut(frame.record) { ArrayList() }.add(content)
            }
        }
        return starts.mapNotNull { (record, start) -> rounds[record]?.let { Traced(start, it) } }
    }
}

/** The first 100 bytes of a segment. */
internal fun encodeHeader(header: TraceHeader): ByteArray {
    val v = header.vocabularies
    val data = ByteWriter(HEADER_BYTES).put(MAGIC).i32(VERSION).u32(v.draftSize).u32(v.targetSize).i32(0)
    data.put(bytesOf(v.draftFingerprint)).put(bytesOf(v.targetFingerprint)).i64(header.number)
    return data.u32(crc32(data.bytes())).bytes()
}

/** The bytes of one entry: equal entries give equal bytes. */
internal fun encodeFrame(frame: Frame, vocabularies: Vocabularies): ByteArray {
    val layout = PayloadLayout.of(vocabularies)
    val content = frame.content
    val payload = when (content) {
        is Start -> encodeStart(content, layout)
        is TracedRound -> encodeRound(content, layout)
    }
    val data = ByteWriter(FRAME_BYTES + payload.size)
    data.i32(payload.size).u16(if (content is Start) START else ROUND).u16(0).u32(frame.record).put(payload)
    return data.u32(crc32(data.bytes())).bytes()
}

/** The bytes of a segment without torn bytes: equal segments give equal bytes. */
internal fun encode(segment: Segment): ByteArray {
    val data = ByteWriter().put(encodeHeader(segment.header))
    for (frame in segment.frames) data.put(encodeFrame(frame, segment.header.vocabularies))
    return data.bytes()
}

internal fun decodeHeader(data: ByteArray): TraceHeader {
    val isTrace = data.size >= MAGIC.size && MAGIC.indices.all { data[it] == MAGIC[it] }
    demand(isTrace, "not_a_trace") { "it is not a trace" }
    demand(data.size >= 12, "truncated") { cut(data) }
    val version = u32(data, 8)
    demand(version == VERSION.toLong(), "version") {
        "it has format version $version, this omnidraft reads $VERSION"
    }
    demand(data.size >= HEADER_BYTES, "truncated") { cut(data) }
    demand(crc32(data, 0, CHECKED_BYTES) == u32(data, CHECKED_BYTES), "checksum") { "its header is damaged" }
    val reserved = u32(data, 20)
    demand(reserved == 0L, "reserved") { "its reserved field is $reserved, not 0" }
    val draftSize = u32(data, 12)
    val targetSize = u32(data, 16)
    for ((name, size) in listOf("drafter" to draftSize, "target" to targetSize)) {
        demand(size in 1..MAX_VOCABULARY, "limits") { "its $name has $size ids, not 1 to 2^31" }
    }
    val draft = hexOf(data.copyOfRange(24, 56))
    val target = hexOf(data.copyOfRange(56, 88))
    return TraceHeader(Vocabularies(draft, target, draftSize, targetSize), i64(data, 88))
}

internal fun decode(data: ByteArray): Segment {
    val header = decodeHeader(data)
    val scan = scan(data)
    val layout = PayloadLayout.of(header.vocabularies)
    val frames = ArrayList<Frame>(scan.count)
    for (i in 0 until scan.count) frames.add(frame(data, scan.ends[i], scan.ends[i + 1], layout))
    checkRecords(frames)
    return Segment(header, frames, scan.torn)
}

/**
 * Where the frames of a segment are.
 *
 * @property ends the ends of the whole frames, the header's end first; more elements than [count] + 1 may follow.
 * @property torn bytes at the end that are no whole frame.
 */
internal class Scan(val ends: IntArray, val count: Int, val torn: Int)

/**
 * Find the whole frames of a segment, whose header is whole.
 *
 * A frame that is not whole is torn if no whole frame follows it; else the file was damaged later.
 */
internal fun scan(data: ByteArray): Scan {
    var ends = IntArray(64)
    var count = 0
    var at = HEADER_BYTES
    ends[0] = at
    while (at < data.size) {
        val end = endOf(data, at)
        if (end < 0 || !isWhole(data, at, end)) {
            val after = if (end < 0) -1 else endOf(data, end)
            val follows = after >= 0 && isWhole(data, end, after)
            demand(!follows, "checksum") { "its entry at byte $at is damaged" }
            break
        }
        count += 1
        if (count == ends.size) ends = ends.copyOf(2 * count)
        ends[count] = end
        at = end
    }
    return Scan(ends, count, data.size - at)
}

/** The kind of the frame at an offset, which is whole. */
internal fun kindOf(data: ByteArray, at: Int): Int = u16(data, at + 4)

/** The end of the frame at an offset by its length; -1 if that is outside the file. */
private fun endOf(data: ByteArray, at: Int): Int {
    if (at.toLong() + FRAME_BYTES > data.size) return -1
    val end = at + FRAME_BYTES + u32(data, at)
    return if (end <= data.size) end.toInt() else -1
}

private fun isWhole(data: ByteArray, at: Int, end: Int): Boolean = crc32(data, at, end - 4) == u32(data, end - 4)

private fun frame(data: ByteArray, at: Int, end: Int, layout: PayloadLayout): Frame {
    val kind = kindOf(data, at)
    val reserved = u16(data, at + 6)
    demand(reserved == 0, "reserved") { "the reserved field of an entry is $reserved, not 0" }
    demand(kind == START || kind == ROUND, "kind") { "it has an entry of kind $kind, neither $START nor $ROUND" }
    val (from, until) = Pair(at + FIELD_BYTES, end - 4)
    val content = if (kind == START) decodeStart(data, from, until, layout) else decodeRound(data, from, until, layout)
    return Frame(u32(data, at + 8), content)
}

/** Records are numbered as they begin. */
private fun checkRecords(frames: List<Frame>) {
    var begun = 0L
    for (frame in frames) {
        val record = frame.record
        if (frame.content is Start) {
            demand(record == begun, "order") { "its record $record begins after $begun others" }
            begun += 1
        }
        demand(record < begun, "order") { "it has a round of record $record, which has not begun" }
    }
}

private fun cut(data: ByteArray): String = "it is cut short: ${data.size} bytes of at least $HEADER_BYTES"
