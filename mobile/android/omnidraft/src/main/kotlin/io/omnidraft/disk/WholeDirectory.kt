package io.omnidraft.disk

import java.io.File
import java.io.IOException

/*
 * Write a directory so that a reader finds the old or the new one, whole, even if the writer is killed.
 *
 * The new directory is made beside its final place and takes its name when it is complete. A kill leaves
 * `.NAME.<16 hex digits>.tmp`, the unfinished directory, or `.NAME.<16 hex digits>.old`, the one that was to be replaced.
 * The next writer of NAME takes the old one back, or removes what was left. A directory of a running process is claimed,
 * so it is not taken for a leftover.
 */

/** Runs [write] with a temporary directory beside [out], which is removed at the end unless it was renamed. */
internal fun <T> newDirectory(out: File, write: (File) -> T): T {
    val place = out.absoluteFile
    val work = File(place.parentFile, ".${place.name}.${randomHex(8)}.tmp")
    if (!work.mkdirs()) throw IOException("the directory $work cannot be made")
    val claim = claim(work)
    try {
        return write(work)
    } finally {
        claim.close()
        lockOf(work).delete()
        removeTree(work)
    }
}

/** Give the complete directory its final name; an older directory is removed last. */
internal fun takeName(work: File, out: File, replaces: Boolean = true) {
    val place = out.absoluteFile
    val old = File(place.parentFile, work.name.removeSuffix(".tmp") + ".old")
    if (place.exists()) {
        if (!replaces) throw IOException("another process wrote it meanwhile")
        rename(place, old)
    }
    rename(work, place)
    syncDirectory(place.parentFile)
    removeTree(old)
}

/** Flush a directory and those in it, the innermost first; files are flushed where they are written. */
internal fun syncTree(directory: File) {
    directory.walkBottomUp().filter { it.isDirectory }.forEach { syncDirectory(it) }
}

/** Remove a directory and all in it; links in it are removed and not followed. */
internal fun removeTree(directory: File) {
    val isLink = java.nio.file.Files.isSymbolicLink(pathOf(directory))
    if (!isLink) directory.listFiles()?.forEach { removeTree(it) }
    directory.delete()
}

/**
 * Put right what killed writers of a place left. Where the place is absent, the directory that was to be replaced gets its
 * name back.
 */
internal fun recover(out: File) {
    val place = out.absoluteFile
    val left = place.parentFile?.listFiles().orEmpty().sortedBy { it.name }.mapNotNull { leftover(it, place.name) }
    val running = left.filter { it.kind == "tmp" && !isFree(it.place) }.map { it.writer }
    for (each in left.filter { it.writer !in running }) {
        lockOf(each.place).delete()
        if (each.kind == "old" && !place.exists()) rename(each.place, place) else removeTree(each.place)
    }
}

private class Leftover(val place: File, val writer: String, val kind: String)

private fun leftover(file: File, name: String): Leftover? {
    if (!file.name.startsWith(".$name.") || !file.isDirectory) return null
    if (java.nio.file.Files.isSymbolicLink(pathOf(file))) return null
    val rest = file.name.substring(name.length + 2)
    val (writer, kind) = rest.split('.').takeIf { it.size == 2 } ?: return null
    val isOurs = isHexadecimal(writer, 16)
    return if (isOurs && (kind == "tmp" || kind == "old")) Leftover(file, writer, kind) else null
}

private fun isFree(place: File): Boolean = try {
    claim(place).close()
    true
} catch (_: ClaimException) {
    false
} catch (_: IOException) {
    false
}
