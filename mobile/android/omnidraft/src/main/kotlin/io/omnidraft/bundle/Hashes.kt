package io.omnidraft.bundle

/* The files of a bundle against its manifest: hashed, or known by their stamps, and unchanged afterwards. */

import io.omnidraft.BundleException
import io.omnidraft.device.Stamp
import io.omnidraft.device.StateDirectory
import io.omnidraft.device.rememberCheck
import io.omnidraft.device.stampOf
import io.omnidraft.device.wasChecked
import io.omnidraft.device.writeBack
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.at
import io.omnidraft.disk.encodeUtf8
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.long
import io.omnidraft.disk.mapping
import io.omnidraft.disk.newSha256
import io.omnidraft.disk.openFile
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.quoted
import io.omnidraft.parts.FilePlaces
import io.omnidraft.parts.FileRecord
import io.omnidraft.reason
import java.io.File
import java.io.IOException
import java.nio.file.Files

/**
 * How the files of a bundle are checked: all are hashed; hashed only where this device has no record that all have the
 * stamps of its last full check; or the first with a public key, else the second.
 */
internal enum class Verify { AUTO, FULL, STAMP }

/** The largest integer of a manifest: every binary64 below it is exact. */
internal const val MOST_EXACT = (1L shl 53) - 1
private const val PIECE = 1 shl 16 // bytes that are read at once
private const val MILLISECOND = 1_000_000L // in ns

internal data class Record(override val sha256: String, override val bytes: Long) : FileRecord

internal fun fileSha256(path: File): String {
    val digest = newSha256()
    val piece = ByteArray(PIECE)
    openFile(path).use { file ->
        while (true) {
            val count = file.read(piece)
            if (count < 0) return hexOf(digest.digest())
            digest.update(piece, 0, count)
        }
    }
}

/** Refuse files that changed since they were hashed; call it after they are loaded. */
internal fun checkUnchanged(places: FilePlaces, stamps: Map<String, Stamp>) {
    for ((name, stamp) in stamps) {
        val file = places.place(name)
        if (timesOf(file) != stamp.times) throw changed(file)
    }
}

/**
 * Refuse files that were written in place since they were loaded; call it before each generation.
 *
 * Graphs and tables are mapped: the models would compute with what was written, and a page of a file that was cut short
 * ends the program. A file that was replaced or removed does no harm, since the old one stays.
 */
internal fun refuseRewritten(places: FilePlaces, stamps: Map<String, Stamp>) {
    for ((name, stamp) in stamps) {
        val file = places.place(name)
        val now = try {
            stampOf(file)
        } catch (_: IOException) {
            continue // it was removed
        }
        val isSame = now.inode == stamp.inode && now.device == stamp.device
        if (!isSame || (now.size == stamp.size && now.modified == stamp.modified)) continue
        val remedy = "load the bundle again, and replace the files of a bundle, but never write into them"
        throw BundleException("checksum", "$file was written while the bundle is loaded", remedy)
    }
}

/** The times of a regular file; null where there is none. */
private fun timesOf(file: File): Triple<Long, Long, Long>? = try {
    if (file.isFile) stampOf(file).times else null
} catch (_: IOException) {
    null
}

internal fun changed(file: File): BundleException {
    val remedy = "load the bundle again when nothing writes to it"
    return BundleException("checksum", "$file was changed while it was loaded", remedy)
}

/** The field `files` of a manifest as values; no file is looked at. */
internal fun checkFiles(manifest: File, files: Any?): Map<String, Record> {
    val fields = files as? Map<*, *>
    if (fields == null || fields.size !in 1..BundleLimits.MAX_FILES) {
        val message = "$manifest lists no files, or more than ${BundleLimits.MAX_FILES}"
        throw BundleException("no_hash", message, "run `omnidraft export` again")
    }
    return mapping(fields).mapValues { (name, value) -> record(manifest, name, value) }
}

private fun record(manifest: File, name: String, value: Any?): Record {
    if (!isInside(name)) {
        val message = "$manifest names ${quoted(name)}, which is outside the bundle"
        throw BundleException("outside", message, "do not use this bundle")
    }
    try {
        val fields = mapping(value)
        return Record(hexadecimal(fields.at("sha256"), 64), long(fields.at("bytes"), 0, MOST_EXACT))
    } catch (_: ValueError) {
        throw noHash(manifest, name)
    }
}

/** The refusal of a file that a manifest does not list rightly. */
internal fun noHash(manifest: File, name: String): BundleException =
    BundleException("no_hash", "$manifest has no hash of ${quoted(name)}", "run `omnidraft export` again")

/** Whether a path of a manifest is relative and stays below the bundle on every system. */
internal fun isInside(name: String): Boolean {
    val isNamed = name.none { it < ' ' || it == ':' || it == '\\' }
    val isBelow = name.split("/").none { it in listOf("", ".", "..") }
    return isNamed && isBelow && encodeUtf8(name).size <= BundleLimits.MAX_PATH
}

/** Hash every file that a manifest lists and that was not left out; return the stamps from before. */
internal fun verifyFiles(
    places: FilePlaces,
    files: Map<String, Record>,
    seal: String, // of the manifest, for the record of this check
    verify: Verify, // `STAMP` hashes nothing where all stamps are those of the last full check on this device
    state: StateDirectory, // the directory of what this device remembers
): Map<String, Stamp> {
    val now = System.currentTimeMillis() * MILLISECOND
    if (verify == Verify.STAMP) {
        val known = knownStamps(places, files)
        if (known != null && wasChecked(state, places.path, seal, known)) return known
    }
    val stamps = places.present(files).associateWith { name -> verified(places, name, files.getValue(name)) }
    rememberCheck(state, places.path, seal, stamps, now)
    return stamps
}

private fun verified(places: FilePlaces, name: String, record: Record): Stamp = try {
    refuseLinks(places.links(name))
    verifyFile(places.place(name), record, places.remedyFor(name))
} catch (error: IOException) {
    val message = "${quoted(name)} of ${places.path} cannot be read (${reason(error)})"
    throw BundleException("missing", message, places.remedyFor(name), error)
}

/** The stamp of each file; null where one is not as it must be, which the full check then names. */
private fun knownStamps(places: FilePlaces, files: Map<String, Record>): Map<String, Stamp>? {
    val stamps = LinkedHashMap<String, Stamp>()
    try {
        for (name in places.present(files)) {
            refuseLinks(places.links(name))
            val file = places.place(name)
            val stamp = stampOf(file)
            if (stamp.size != files.getValue(name).bytes || !file.isFile) return null
            stamps[name] = stamp
        }
    } catch (_: IOException) {
        return null
    } catch (_: BundleException) {
        return null
    }
    return stamps
}

private fun verifyFile(file: File, record: Record, remedy: String): Stamp {
    if (!file.isFile) throw BundleException("missing", "$file is missing", remedy)
    writeBack(file)
    val stamp = stampOf(file)
    if (stamp.size != record.bytes) {
        val message = "$file has ${stamp.size} bytes instead of ${record.bytes}"
        throw BundleException("size", message, "it was cut short or changed: $AGAIN")
    }
    if (fileSha256(file) != record.sha256) {
        throw BundleException("checksum", "$file was changed (its SHA-256 does not match)", AGAIN)
    }
    return stamp
}

private const val AGAIN = "copy it again or run `omnidraft export` again"

/** Refuse a link on the way to a file of a bundle: it leads outside, or to a file that can change. */
private fun refuseLinks(paths: List<File>) {
    for (path in paths) {
        if (!Files.isSymbolicLink(pathOf(path))) continue
        val message = "$path is a link, and the files of a bundle are read from inside the bundle only"
        throw BundleException("outside", message, "copy the files themselves, for example with `cp -RL`")
    }
}
