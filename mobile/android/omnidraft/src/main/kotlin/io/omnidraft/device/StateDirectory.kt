package io.omnidraft.device

/*
 * A private directory of small records, which the device can lose at any time (spec/08-phones.md, "What a device
 * remembers"). A record that is absent, damaged or larger than it may be is the same as none, and a directory that
 * cannot be written remembers nothing. No function here throws for either.
 */

import io.omnidraft.disk.hexOf
import io.omnidraft.disk.isHexadecimal
import io.omnidraft.disk.isOwnDirectory
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.sha256
import io.omnidraft.disk.writeAtomically
import java.io.File
import java.io.IOException
import java.nio.file.FileAlreadyExistsException
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

/** Records of each kind; the oldest ones are deleted. */
internal const val MOST_RECORDS = 256

internal const val MOST_RECORD_BYTES = 1 shl 14
private const val END = ".json"
private const val KEY_DIGITS = 32

/** The name of a record: 32 hexadecimal digits of the SHA-256 of texts, each with a zero byte after it. */
internal fun recordKey(vararg parts: String): String =
    hexOf(sha256(parts.joinToString("") { "$it\u0000" }.toByteArray())).take(KEY_DIGITS)

/**
 * The directory of what a device remembers. The app chooses it, because a phone has no place of its own for it.
 *
 * @property root the directory, which need not exist; null remembers nothing.
 */
internal class StateDirectory(val root: File?) {
    /** The bytes of a record that is at most [mostAge] milliseconds old; null where there is none that may be used. */
    fun readRecord(kind: String, key: String, mostAge: Long = Long.MAX_VALUE): ByteArray? {
        val file = File(File(root ?: return null, kind), key + END)
        return try {
            val isOld = System.currentTimeMillis() - file.lastModified() > mostAge
            if (!isOld && isPrivate(root, kind)) readWhole(file, MOST_RECORD_BYTES.toLong()) else null
        } catch (_: IOException) {
            null // the same as no record
        }
    }

    /**
     * Replace a record, and delete the oldest ones where there are too many.
     *
     * @return whether the record was written; else the directory cannot be written, or is not this user's alone.
     */
    fun writeRecord(kind: String, key: String, data: ByteArray): Boolean {
        if (data.size > MOST_RECORD_BYTES) return false
        val place = directory(kind) ?: return false
        try {
            writeAtomically(File(place, key + END), data)
        } catch (_: IOException) {
            return false // nothing is remembered, and nothing is said
        }
        deleteOldest(place, END, MOST_RECORDS)
        return true
    }

    /** The directory of a kind, which is made; null where it cannot be written, or is not this user's alone. */
    fun directory(kind: String): File? {
        val place = File(root ?: return null, kind)
        return try {
            makePrivate(root)
            makePrivate(place)
            place.takeIf { isPrivate(root, kind) }
        } catch (_: IOException) {
            null
        }
    }

    /** Deletes a record, where there is one. */
    fun deleteRecord(kind: String, key: String) {
        if (root != null && isPrivate(root, kind)) File(File(root, kind), key + END).delete()
    }

    companion object {
        /** Remembers nothing. */
        val NONE = StateDirectory(null)
    }
}

private fun makePrivate(place: File) {
    val path = pathOf(place)
    if (Files.isDirectory(path)) return
    path.parent?.let { Files.createDirectories(it) }
    try {
        Files.createDirectory(path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")))
    } catch (_: FileAlreadyExistsException) {
        return // another thread was faster
    } catch (_: UnsupportedOperationException) {
        Files.createDirectory(path) // a file system without modes; an app's container is private there
    }
}

/** Whether the directory of a kind is this user's alone, in one that no other user can write. */
private fun isPrivate(root: File, kind: String): Boolean =
    isOwnDirectory(root) && isOwnDirectory(File(root, kind), isPrivate = true)

/** Deletes the oldest files of a directory that are named by a key, where there are more than [most]; no others. */
internal fun deleteOldest(place: File, end: String, most: Int) {
    fun isKey(name: String) = name.endsWith(end) && isHexadecimal(name.removeSuffix(end), KEY_DIGITS)
    val files = place.listFiles().orEmpty().filter { isKey(it.name) && !it.isDirectory }.map { it.lastModified() to it }
    val oldest = files.sortedWith(compareBy({ it.first }, { it.second.name }))
    oldest.take(maxOf(0, files.size - most)).forEach { it.second.delete() }
}
