package io.omnidraft.archive

/* Read the entries of an archive, strictly, from the first byte to the last (spec/16-archive.md). */

import io.omnidraft.ArchiveException
import io.omnidraft.bundle.isFileName
import io.omnidraft.disk.i64
import io.omnidraft.disk.quoted
import io.omnidraft.disk.u16
import io.omnidraft.disk.u32

private const val MAX_NAME = 512
private const val ENCRYPTED = (1 shl 0) or (1 shl 6) or (1 shl 13) // flags
private const val DESCRIPTOR = 1 shl 3
private const val ZIP64_BYTES = 20
private const val MOST_SIZE = 1L shl 53

/** Whether an entry may have a name: relative, ASCII, and a file on every system. */
internal fun isEntryName(name: String): Boolean =
    name.length <= MAX_NAME && isFileName(name) && name.split("/").none { it.endsWith('.') || isDevice(it) }

/** Whether Windows keeps a name for a device, with any ending. */
private fun isDevice(part: String): Boolean {
    val name = lowerCase(part.substringBefore('.'))
    val isNumbered = name.length == 4 && name[3] in '0'..'9' && name.take(3) in listOf("com", "lpt")
    return isNumbered || name in listOf("con", "prn", "aux", "nul")
}

/** ASCII letters in lower case, in any locale. */
private fun lowerCase(name: String): String =
    name.map { if (it in 'A'..'Z') it + ('a' - 'A') else it }.joinToString("")

/** The entries of an archive, in order. The bytes of the files are not read. */
internal fun readEntries(data: ZipBytes): List<ArchiveEntry> {
    val walk = ZipWalk(data)
    while (walk.next() != null) continue
    return walk.entries
}

/**
 * A walk through an archive, from entry to entry. A caller of a stream reads the bytes of an entry before the next one.
 */
internal class ZipWalk(private val data: ZipBytes) {
    val entries = ArrayList<ArchiveEntry>()
    private val names = HashSet<String>()
    private var at = 0L

    /** The next entry; null behind the last one, where the rest of the archive is its directory. */
    fun next(): ArchiveEntry? {
        val start = data.read(at, LOCAL_BYTES)
        if (entries.isNotEmpty() && begins(start, CENTRAL)) {
            checkDirectory()
            return null
        }
        checkStart(start)
        val entry = entry(start)
        checkName(entry.name)
        if (entries.size == MAX_ENTRIES) refuse("limits", "it has more than $MAX_ENTRIES entries")
        if (entry.end > data.size) {
            refuse("truncated", "${entry.name} ends at byte ${entry.end} and the archive at ${data.size}")
        }
        entries.add(entry)
        at = entry.end
        return entry
    }

    private fun checkDirectory() {
        val expected = centralDirectory(entries, at)
        val rest = data.read(at, expected.size + 1)
        if (rest.contentEquals(expected)) return
        if (begins(expected, rest)) refuse("truncated", "its directory is cut short")
        if (begins(rest, expected)) refuse("trailing_bytes", "it has bytes behind its end")
        refuse("directory", "its directory differs from its entries")
    }

    /** Check the first four bytes of a local header. */
    private fun checkStart(start: ByteArray) {
        if (begins(start, LOCAL)) return
        val first = start.copyOf(minOf(start.size, LOCAL.size))
        if (entries.isEmpty() && !begins(LOCAL, first)) refuse("not_an_archive", "it is not an archive of a bundle")
        if (first.size < LOCAL.size) refuse("truncated", "it is cut short")
        refuse("header", "bytes follow an entry that are not an entry")
    }

    /** The entry whose local header begins at [at]. */
    private fun entry(fixed: ByteArray): ArchiveEntry {
        if (fixed.size < LOCAL_BYTES) refuse("truncated", "a header is cut short")
        checkKind(fixed)
        val nameBytes = u16(fixed, 26)
        val extraBytes = u16(fixed, 28)
        if (nameBytes !in 1..MAX_NAME) refuse("outside", "a name has $nameBytes bytes")
        val rest = data.read(at + LOCAL_BYTES, nameBytes + extraBytes)
        if (rest.size < nameBytes + extraBytes) refuse("truncated", "a header is cut short")
        val name = String(rest, 0, nameBytes, Charsets.ISO_8859_1)
        if (!isEntryName(name)) refuse("outside", "${quoted(name)} is not a name of a file in a bundle")
        val extra = rest.copyOfRange(nameBytes, rest.size)
        val entry = ArchiveEntry(name, at, sizeOf(u32(fixed, 22), extra), u32(fixed, 14))
        compare(entry, fixed, extra)
        return entry
    }

    private fun checkKind(fixed: ByteArray) {
        val flags = u16(fixed, 6)
        val method = u16(fixed, 8)
        if (flags and ENCRYPTED != 0) refuse("encrypted", "an entry is encrypted")
        if (flags and DESCRIPTOR != 0) refuse("descriptor", "the size of an entry is behind it")
        if (method != 0) refuse("compressed", "an entry is compressed by method $method")
        if (u32(fixed, 18) != u32(fixed, 22)) refuse("header", "an entry has two sizes")
    }

    /** Refuse a name that is taken on some system: in other case, or as a directory. Directories are kept with `/`. */
    private fun checkName(name: String) {
        val folded = lowerCase(name)
        val parts = folded.split("/")
        val above = (1 until parts.size).map { parts.take(it).joinToString("/") }
        if (folded in names || "$folded/" in names || above.any { it in names }) {
            refuse("duplicate", "two entries are named ${quoted(name)}")
        }
        names.add(folded)
        above.mapTo(names) { "$it/" }
    }
}

/** The size of an entry: of its header, or of the zip64 field where 32 bits do not hold it. */
private fun sizeOf(length: Long, extra: ByteArray): Long {
    if (length != FULL) {
        val isLarge = extra.size >= 2 && u16(extra, 0) == 1
        if (isLarge) refuse("zip64", "an entry has a zip64 field that it does not need")
        return length
    }
    if (extra.size < ZIP64_BYTES || u16(extra, 0) != 1 || u16(extra, 2) != ZIP64_BYTES - 4) {
        refuse("zip64", "an entry of 4 GiB has no zip64 field")
    }
    val size = i64(extra, 4)
    if (size != i64(extra, 12) || size !in FULL until MOST_SIZE) {
        refuse("zip64", "a zip64 field has the sizes ${size.toULong()} and ${i64(extra, 12).toULong()}")
    }
    return size
}

/** Compare a header with the one that the entry must have. */
private fun compare(entry: ArchiveEntry, fixed: ByteArray, extra: ByteArray) {
    val expected = entry.localHeader()
    if (!extra.contentEquals(expected.copyOfRange(LOCAL_BYTES + entry.name.length, expected.size))) {
        refuse("alignment", "${entry.name} is not aligned as it must be")
    }
    if (!fixed.contentEquals(expected.copyOf(LOCAL_BYTES))) {
        refuse("header", "the header of ${entry.name} has another value than it must have")
    }
}

private fun begins(data: ByteArray, start: ByteArray): Boolean =
    data.size >= start.size && start.indices.all { data[it] == start[it] }

private fun refuse(fault: String, sentence: String): Nothing = throw ArchiveException(fault, sentence)
