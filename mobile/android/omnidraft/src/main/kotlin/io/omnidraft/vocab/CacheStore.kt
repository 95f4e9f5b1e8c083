package io.omnidraft.vocab

import io.omnidraft.CacheFileException
import io.omnidraft.Defaults
import io.omnidraft.disk.openFile
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.readFully
import io.omnidraft.disk.writeAtomically
import java.io.File
import java.io.IOException
import java.nio.file.Files

/* Caches on disk: read a cache or start with an empty one, write a cache so that no crash damages it. */

private const val ANOTHER_PAIR = "use it with the pair of models that it was learned from"
private val REMEDIES = mapOf(
    "not_a_cache" to "check the path",
    "unreadable" to "check the path and its permissions",
    "unwritable" to "choose another place",
    "version" to "update omnidraft",
    "foreign_vocabulary" to ANOTHER_PAIR,
    "spelling" to ANOTHER_PAIR,
    "id_range" to ANOTHER_PAIR,
)
private val LEFT_ALONE = listOf("not_a_cache", "foreign_vocabulary") // no session replaces or renames such a file

internal data class OpenedCache(val cache: NgramCache, val problem: String?)

/** The cache in a file, or an empty cache: a bad file never stops a generation. */
internal fun openCache(file: File, map: VocabMap, capacity: Int = Defaults.CACHE_CAPACITY): OpenedCache {
    val empty = NgramCache(map, capacity)
    if (isAbsent(file)) return OpenedCache(empty, null)
    val table = try {
        tableAt(file, map)
    } catch (error: CacheFileException) {
        val sentence = "starting with an empty cache: $file is refused: ${error.message}; ${afterRefusal(file, error)}"
        return OpenedCache(empty, sentence)
    }
    return OpenedCache(NgramCache.ofTable(table, map, capacity), null)
}

private fun afterRefusal(file: File, error: CacheFileException): String = when {
    error.fault in LEFT_ALONE && !isFree(file) -> "it is left alone, and nothing is saved there"
    error.fault == "unreadable" -> REMEDIES.getValue("unreadable")
    isFree(file) -> "saving replaces it"
    else -> "saving keeps it under another name"
}

internal fun readTable(file: File, map: VocabMap? = null): CacheTable = try {
    tableAt(file, map)
} catch (error: CacheFileException) {
    val remedy = REMEDIES[error.fault] ?: "give a whole copy of it"
    throw CacheFileException(error.fault, "$file is refused: ${error.message}", remedy, error)
}

private fun tableAt(file: File, map: VocabMap?): CacheTable {
    val table = decode(read(file))
    if (map != null) checkAgainst(table, map)
    return table
}

/** Whether the file is absent. A link whose target is absent counts as absent. */
private fun isAbsent(file: File): Boolean = try {
    Files.notExists(pathOf(file))
} catch (_: IOException) { // a name that no file can have: reading or writing it reports the error
    false
}

/** Whether writing there loses nothing: the file is absent or empty. */
private fun isFree(file: File): Boolean = isAbsent(file) || (file.isFile && file.length() == 0L)

/** The bytes of a file, at most one more than its header promises: a wrong file is not read to its end. */
private fun read(file: File): ByteArray = try {
    openFile(file).use { stream ->
        val head = readFully(stream, CACHE_HEADER_BYTES)
        val promised = decodeHeader(head).fileBytes
        val size = stream.channel.size()
        if (promised > MAX_CACHE_BYTES) return head // which is refused as it is
        if (size > promised) {
            val extra = if (size == promised + 1) "1 byte" else "${size - promised} bytes"
            throw CacheFileException("trailing_bytes", "it goes on for $extra after its end")
        }
        head + readFully(stream, maxOf(0, size - head.size).toInt())
    }
} catch (error: IOException) {
    throw CacheFileException("unreadable", "it cannot be read (${error.message})", cause = error)
} catch (error: OutOfMemoryError) { // a whole cache may have 268 MB, and a phone less for an app
    throw CacheFileException("unreadable", "it has ${file.length()} bytes, more than memory holds", cause = error)
}

/**
 * Saves a cache; killed at any point, the old file or the new one is there, whole.
 *
 * @return the new name of the old file, if that was a damaged cache; else null.
 * @throws CacheFileException `unwritable`; or `not_a_cache` or `foreign_vocabulary`: the file there is not a cache, or
 *   one of another pair, and stays as it is.
 */
internal fun writeCache(file: File, cache: NgramCache): File? {
    val table = cache.table()
    val fault = faultAt(file, table.draftFingerprint, table.targetFingerprint)
    if (fault != null && fault in LEFT_ALONE) throw leftAlone(file, fault)
    return write(file, table, keep = fault != null)
}

private fun leftAlone(file: File, fault: String): CacheFileException {
    val what = if (fault == "not_a_cache") "not an n-gram cache" else "a cache of another pair of models"
    val sentence = "$file is $what, so it is left alone"
    return CacheFileException(fault, sentence, "give another file, or the name of a new one")
}

/** Saves a table; it replaces only a whole cache of its pair. */
internal fun writeTable(file: File, table: CacheTable) {
    if (faultAt(file, table.draftFingerprint, table.targetFingerprint) != null) {
        val sentence = "$file is not a whole cache of this pair of models, so it is not replaced"
        throw CacheFileException("unwritable", sentence, REMEDIES.getValue("unwritable"))
    }
    write(file, table, keep = false)
}

private fun write(file: File, table: CacheTable, keep: Boolean): File? = try {
    writeAtomically(file, encode(table), keep = keep)
} catch (error: IOException) {
    throw unwritable(file, error)
}

private fun unwritable(file: File, error: IOException): CacheFileException {
    val sentence = "the cache cannot be written to $file (${error.message})"
    return CacheFileException("unwritable", sentence, REMEDIES.getValue("unwritable"), error)
}

/** Why a table of a pair may not replace a file; null for no file and for a whole cache of the same pair. */
private fun faultAt(file: File, draftFingerprint: String, targetFingerprint: String): String? {
    if (isFree(file)) return null
    val old = try {
        tableAt(file, null)
    } catch (error: CacheFileException) {
        return error.fault
    }
    val isSame = old.draftFingerprint == draftFingerprint && old.targetFingerprint == targetFingerprint
    return if (isSame) null else "foreign_vocabulary"
}
