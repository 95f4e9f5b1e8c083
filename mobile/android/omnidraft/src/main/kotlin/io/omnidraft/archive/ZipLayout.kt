package io.omnidraft.archive

/* The bytes of a ZIP file around its entries, which names, sizes and checksums decide (spec/16-archive.md). */

import io.omnidraft.disk.ByteWriter

/** Bytes; a multiple of the pages of every phone. */
internal const val ALIGNMENT = 1 shl 14
internal val LOCAL: ByteArray = byteArrayOf(0x50, 0x4b, 3, 4)
internal val CENTRAL: ByteArray = byteArrayOf(0x50, 0x4b, 1, 2)
private val LARGE_END = byteArrayOf(0x50, 0x4b, 6, 6)
private val LARGE_PLACE = byteArrayOf(0x50, 0x4b, 6, 7)
private val END = byteArrayOf(0x50, 0x4b, 5, 6)

/** Of a local header, without name and extra field. */
internal const val LOCAL_BYTES = 30

/** The files of a manifest, the manifest, its signature and the index. */
internal const val MAX_ENTRIES = 1027
private const val ZIP64 = 0x0001 // kinds of extra fields
private const val PADDING = 0xd935 // Android's
private const val PLAIN = 10 // version that is needed to extract
private const val LARGE = 45
private const val DATE = 0x0021 // 1 January 1980

/** The value stands in the zip64 field. */
internal const val FULL = 0xffffffffL

/**
 * One file in an archive.
 *
 * @property name its path, in ASCII.
 * @property at the byte at which its local header begins.
 * @property size bytes of the file.
 * @property crc32 of its bytes.
 */
internal data class ArchiveEntry(val name: String, val at: Long, val size: Long, val crc32: Long) {
    /** The first byte of the file, a multiple of [ALIGNMENT]. */
    val begin: Long
        get() = (at + LOCAL_BYTES + name.length + zip64().size + 6 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT

    val end: Long get() = begin + size

    /** The extra field of a size that 32 bits do not hold; empty for others. */
    private fun zip64(): ByteArray {
        if (size < FULL) return ByteArray(0)
        return ByteWriter().u16(ZIP64).u16(16).i64(size).i64(size).bytes()
    }

    /** The fields that both headers have, from `flags` to the length of the name. */
    private fun fields(out: ByteWriter): ByteWriter {
        val shown = minOf(size, FULL)
        out.u16(0).u16(0).u16(0).u16(DATE)
        return out.u32(crc32).u32(shown).u32(shown).u16(name.length)
    }

    /** The bytes before the file, with padding. */
    fun localHeader(): ByteArray {
        val large = zip64()
        val padding = (begin - at).toInt() - LOCAL_BYTES - name.length - large.size - 4
        val out = ByteWriter(LOCAL_BYTES + ALIGNMENT).put(LOCAL).u16(if (size >= FULL) LARGE else PLAIN)
        fields(out).u16(large.size + 4 + padding).put(ascii(name)).put(large)
        return out.u16(PADDING).u16(padding).u16(ALIGNMENT).put(ByteArray(padding - 2)).bytes()
    }

    fun centralHeader(): ByteArray {
        val values = ByteWriter().put(zip64().drop(4).toByteArray())
        if (at >= FULL) values.i64(at)
        val extra = ByteWriter()
        if (values.size > 0) extra.u16(ZIP64).u16(values.size).put(values.bytes())
        val version = if (extra.size > 0) LARGE else PLAIN
        val out = ByteWriter().put(CENTRAL).u16(version).u16(version)
        fields(out).u16(extra.size).put(ByteArray(10)).u32(minOf(at, FULL))
        return out.put(ascii(name)).put(extra.bytes()).bytes()
    }
}

private fun ascii(text: String): ByteArray = text.toByteArray(Charsets.US_ASCII)

/** The bytes behind the last file, to the end of the archive. */
internal fun centralDirectory(entries: List<ArchiveEntry>, at: Long): ByteArray {
    val out = ByteWriter()
    for (entry in entries) out.put(entry.centralHeader())
    val size = out.size.toLong()
    val count = entries.size
    if (at >= FULL) {
        out.put(LARGE_END).i64(44).u16(LARGE).u16(LARGE).i32(0).i32(0).i64(count.toLong()).i64(count.toLong())
        out.i64(size).i64(at).put(LARGE_PLACE).i32(0).i64(at + size).i32(1)
    }
    return out.put(END).u16(0).u16(0).u16(count).u16(count).u32(size).u32(minOf(at, FULL)).u16(0).bytes()
}
