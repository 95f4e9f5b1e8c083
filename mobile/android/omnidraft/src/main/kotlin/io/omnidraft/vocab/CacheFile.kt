package io.omnidraft.vocab

import io.omnidraft.CacheFileException
import io.omnidraft.Defaults
import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.bytesOf
import io.omnidraft.disk.crc32
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.part
import io.omnidraft.disk.u32
import io.omnidraft.disk.u8
import java.nio.ByteBuffer

/* The file of an n-gram cache, format version 2: spec/06-ngram-cache.md. */

/** The first bytes of every version. */
internal val CACHE_MAGIC: ByteArray = bytesOf("894f444e430d0a1a")

/** Bytes of the header, with its own CRC-32. */
internal const val CACHE_HEADER_BYTES: Int = 136

internal const val MAX_CACHE_BYTES: Long = 1L shl 28

private const val VERSION = 2L
private const val MAX_ENTRIES = Defaults.CACHE_MAX_ENTRIES.toLong() // times 255 draft tokens stays below 2^31
private const val WIDTHS_AT = 12
private const val DRAFT_AT = 16
private const val TARGET_AT = 48
private const val ENTRIES_AT = 80
private const val TICK_AT = 84
private const val RESERVED_AT = 88
private const val SECTIONS_AT = 92
private const val CHECKSUM_AT = 132
private const val VERSION_END = 12
private val CACHE_SECTIONS = listOf("targets", "lengths", "pieces", "ticks", "counts")

/** The first 136 bytes, verified: the sections that follow and their lengths. */
internal class CacheHeader(
    val widths: IntArray, // of targets, pieces, ticks, counts
    val draftFingerprint: String,
    val targetFingerprint: String,
    val entries: Long,
    val tick: Long,
    val lengths: LongArray, // bytes of each section
    val checksums: LongArray, // CRC-32 of each section
) {
    val fileBytes: Long get() = CACHE_HEADER_BYTES + lengths.sum()
}

/** The bytes of a table: equal tables give equal bytes. */
internal fun encode(table: CacheTable): ByteArray {
    val widths = widthsOf(table)
    val n = table.size.toLong()
    val pieces = table.spellings.values.size.toLong()
    val size = CACHE_HEADER_BYTES + n * (widths[0] + 1 + widths[2] + 2 * widths[3]) + pieces * widths[1]
    demand(size <= MAX_CACHE_BYTES, "limits") { "it would have $size bytes, more than $MAX_CACHE_BYTES" }
    val lengths = ArrayTable(IntArray(table.size) { table.spellings.length(it) })
    val sections = listOf(
        bytesOf(widths[0], table.targets), bytesOf(1, lengths), bytesOf(widths[1], table.spellings.values),
        bytesOf(widths[2], table.ticks), bytesOf(widths[3], table.hits, table.accepted),
    )
    val out = ByteWriter(size.toInt()).put(CACHE_MAGIC).u32(VERSION)
    for (width in widths) out.u8(width)
    out.put(bytesOf(table.draftFingerprint)).put(bytesOf(table.targetFingerprint))
    out.u32(n).u32(table.tick).u32(0)
    for (section in sections) out.u32(section.size.toLong()).u32(crc32(section))
    out.u32(crc32(out.bytes()))
    for (section in sections) out.put(section)
    return out.bytes()
}

/** Columns one after another, each number in [width] bytes. */
private fun bytesOf(width: Int, vararg columns: IntTable): ByteArray {
    val data = ByteArray(width * columns.sumOf { it.size })
    var at = 0
    for (column in columns) {
        for (i in 0 until column.size) {
            for (byte in 0 until width) data[at++] = (column[i] ushr (8 * byte)).toByte()
        }
    }
    return data
}

/** The table in a file's bytes; it reads them in place, so they must not change. */
internal fun decode(data: ByteArray): CacheTable {
    val header = decodeHeader(data)
    val size = header.fileBytes
    demand(size <= MAX_CACHE_BYTES, "limits") { "it says that it has $size bytes, more than $MAX_CACHE_BYTES" }
    demand(data.size >= size, "truncated") { cut(data.size, size) }
    demand(data.size.toLong() == size, "trailing_bytes") { "it goes on for ${data.size - size} bytes after its end" }
    val sections = sectionsOf(data, header)
    val table = tableOf(header, sections)
    checkIds(table)
    checkCounts(table)
    checkCanonical(table, header)
    return table
}

internal fun decodeHeader(data: ByteArray): CacheHeader {
    demand(startsWithMagic(data), "not_a_cache") { "it is not an n-gram cache" }
    demand(data.size >= VERSION_END, "truncated") { cut(data.size, CACHE_HEADER_BYTES.toLong()) }
    val version = u32(data, CACHE_MAGIC.size)
    demand(version == VERSION, "version") { "it has format version $version, this omnidraft reads $VERSION" }
    demand(data.size >= CACHE_HEADER_BYTES, "truncated") { cut(data.size, CACHE_HEADER_BYTES.toLong()) }
    demand(crc32(data, 0, CHECKSUM_AT) == u32(data, CHECKSUM_AT), "checksum") { "its header is damaged" }
    val header = CacheHeader(
        IntArray(4) { u8(data, WIDTHS_AT + it) },
        hexOf(data.copyOfRange(DRAFT_AT, TARGET_AT)), hexOf(data.copyOfRange(TARGET_AT, ENTRIES_AT)),
        u32(data, ENTRIES_AT), u32(data, TICK_AT),
        LongArray(CACHE_SECTIONS.size) { u32(data, SECTIONS_AT + 8 * it) },
        LongArray(CACHE_SECTIONS.size) { u32(data, SECTIONS_AT + 8 * it + 4) },
    )
    val reserved = u32(data, RESERVED_AT)
    demand(reserved == 0L, "reserved") { "its reserved field is $reserved, not 0" }
    demand(header.widths.all { it == 1 || it == 2 || it == 4 }, "width") {
        "its columns are ${header.widths.toList()} bytes wide, not 1, 2 or 4"
    }
    checkLengths(header)
    return header
}

/** Whether bytes begin as every cache does. */
internal fun startsWithMagic(data: ByteArray): Boolean =
    data.size >= CACHE_MAGIC.size && CACHE_MAGIC.indices.all { data[it] == CACHE_MAGIC[it] }

/** The sections must be as long as the number of entries says. */
private fun checkLengths(header: CacheHeader) {
    val n = header.entries
    demand(n <= MAX_ENTRIES, "limits") { "it has $n entries, more than $MAX_ENTRIES" }
    val (targets, pieces, ticks, counts) = header.widths
    val expected = longArrayOf(n * targets, n, header.lengths[2], n * ticks, 2 * n * counts)
    for (i in expected.indices) {
        demand(header.lengths[i] == expected[i], "section_length") {
            "its section of ${CACHE_SECTIONS[i]} has ${header.lengths[i]} bytes, not ${expected[i]}"
        }
    }
    demand(header.lengths[2] % pieces == 0L, "section_length") {
        "its section of pieces has ${header.lengths[2]} bytes, which is not a multiple of $pieces"
    }
}

/** The bytes of each section, after their checksums were compared. */
private fun sectionsOf(data: ByteArray, header: CacheHeader): List<ByteBuffer> {
    var end = CACHE_HEADER_BYTES
    return CACHE_SECTIONS.indices.map { i ->
        val start = end
        end += header.lengths[i].toInt()
        demand(crc32(data, start, end) == header.checksums[i], "checksum") {
            "its section of ${CACHE_SECTIONS[i]} is damaged"
        }
        part(ByteBuffer.wrap(data), start, end)
    }
}

/** The columns as tables, ids still unchecked except that they fit 31 bits. */
private fun tableOf(header: CacheHeader, sections: List<ByteBuffer>): CacheTable {
    val n = header.entries.toInt()
    val pieces = packed(sections[2], header.widths[1])
    val offsets = offsetsOf(ByteTable(sections[1]), pieces.size)
    val targets = packed(sections[0], header.widths[0])
    checkFits31Bits("target", targets)
    checkFits31Bits("draft", pieces)
    val width = header.widths[3]
    val hits = part(sections[4], 0, n * width)
    val accepted = part(sections[4], n * width, 2 * n * width)
    return CacheTable(
        header.draftFingerprint, header.targetFingerprint, header.tick, targets, Ragged(pieces, ArrayTable(offsets)),
        packed(sections[3], header.widths[2]), packed(hits, width), packed(accepted, width),
    )
}

private fun offsetsOf(lengths: IntTable, pieces: Int): IntArray {
    val offsets = IntArray(lengths.size + 1)
    for (i in 0 until lengths.size) offsets[i + 1] = offsets[i] + lengths[i]
    val total = offsets[lengths.size]
    demand(total == pieces, "section_length") { "its spellings have $total pieces and its section of pieces $pieces" }
    for (i in 0 until lengths.size) {
        demand(lengths[i] >= 2, "spelling") { "it has a spelling of ${lengths[i]} pieces; an n-gram has 2 or more" }
    }
    return offsets
}

private fun checkFits31Bits(which: String, ids: IntTable) {
    for (i in 0 until ids.size) {
        demand(ids[i] >= 0, "id_range") { "it holds $which id ${ids.unsigned(i)}, more than 2^31 - 1" }
    }
}

/** Target ids ascend, without repetition. */
private fun checkIds(table: CacheTable) {
    for (i in 1 until table.size) {
        val a = table.targets[i - 1]
        val b = table.targets[i]
        demand(a != b, "duplicate") { "it repeats target id $a" }
        demand(a < b, "order") { "it holds target id $b after $a" }
    }
}

/** Refuses numbers that no cache can have counted. */
private fun checkCounts(table: CacheTable) {
    for (i in 0 until table.size) {
        demand(table.accepted.unsigned(i) <= table.hits.unsigned(i), "counts") {
            "it has an entry accepted more often than used"
        }
        demand(table.ticks.unsigned(i) <= table.tick, "counts") {
            "it has an entry used in round ${table.ticks.unsigned(i)} of ${table.tick}"
        }
    }
}

/** Another way to write the same table is refused, so that equal tables are equal files. */
private fun checkCanonical(table: CacheTable, header: CacheHeader) {
    val right = widthsOf(table)
    demand(header.widths.contentEquals(right), "not_canonical") {
        "its columns are ${header.widths.toList()} bytes wide where ${right.toList()} are enough"
    }
}

/** The fewest bytes, 1, 2 or 4, that hold the largest number of each column. */
private fun widthsOf(table: CacheTable): IntArray = intArrayOf(
    width(table.targets), width(table.spellings.values), width(table.ticks),
    maxOf(width(table.hits), width(table.accepted)),
)

private fun width(column: IntTable): Int {
    var bits = 0
    for (i in 0 until column.size) bits = bits or column[i]
    return if (bits ushr 8 == 0) 1 else if (bits ushr 16 == 0) 2 else 4
}

private fun cut(size: Int, least: Long): String = "it is cut short: $size bytes of at least $least"

private inline fun demand(holds: Boolean, fault: String, sentence: () -> String) {
    if (!holds) throw CacheFileException(fault, sentence())
}
