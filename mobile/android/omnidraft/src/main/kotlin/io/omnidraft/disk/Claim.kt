package io.omnidraft.disk

import io.omnidraft.OmniDraftException
import java.io.Closeable
import java.io.File
import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.channels.FileLock
import java.nio.channels.OverlappingFileLockException
import java.nio.file.Files
import java.nio.file.StandardOpenOption.CREATE
import java.nio.file.StandardOpenOption.WRITE
import java.nio.file.attribute.PosixFilePermissions

/* Claim a directory or a file for one process: a lock that the system drops with the process. spec/08-phones.md, flock. */

/** A directory that another process, or another user in this process, has claimed; the fault is `in_use`. */
internal class ClaimException(directory: File) : OmniDraftException(
    "in_use",
    "$directory is in use by another process",
    "wait for it, or choose another directory",
)

/** A claimed directory; closing gives it back. A process that ends, even by a kill, gives it back too. */
internal class Claim internal constructor(
    private val name: String,
    private val channel: FileChannel,
    private val lock: FileLock,
) : Closeable {
    /** Gives the directory back; a second call does nothing. */
    override fun close() {
        if (!lock.isValid) return
        lock.release()
        channel.close()
        synchronized(claimed) { claimed.remove(name) }
    }
}

// A lock of the system does not exclude two users in one process.
private val claimed = HashSet<String>()

/**
 * Claim a directory, made where it is absent, until the returned claim is closed.
 *
 * The lock is on a file `.NAME.lock` beside the directory, since Java locks no directory. The file stays; it is empty.
 */
internal fun claim(directory: File): Claim {
    val path = pathOf(directory.absoluteFile)
    if (Files.exists(path) && !Files.isDirectory(path)) throw IOException("it is not a directory")
    if (!Files.exists(path)) {
        if (!Files.isDirectory(path.parent)) throw IOException("there is no directory ${path.parent}: make it first")
        Files.createDirectory(path)
        permit(directory, PosixFilePermissions.fromString("rwx------"))
    }
    if (!(Files.isReadable(path) && Files.isWritable(path) && Files.isExecutable(path))) {
        throw IOException("the directory may not be read and written")
    }
    val name = path.toRealPath().toString()
    synchronized(claimed) { if (!claimed.add(name)) throw ClaimException(directory) }
    return locked(directory, name, lockOf(File(name)))
}

/** Claim a file, made where it is absent, until the returned claim is closed. The lock is on the file itself. */
internal fun claimFile(file: File): Claim {
    val name = file.canonicalPath
    synchronized(claimed) { if (!claimed.add(name)) throw ClaimException(file) }
    return locked(file, name, file)
}

/** The file that is locked while a directory is claimed. */
internal fun lockOf(directory: File): File = File(directory.absoluteFile.parentFile, ".${directory.name}.lock")

private fun locked(directory: File, name: String, file: File): Claim {
    var channel: FileChannel? = null
    var lock: FileLock? = null
    try {
        channel = FileChannel.open(pathOf(file), CREATE, WRITE)
        lock = channel.tryLock()
    } catch (_: OverlappingFileLockException) {
        lock = null
    } finally {
        if (lock == null) {
            channel?.close()
            synchronized(claimed) { claimed.remove(name) }
        }
    }
    return Claim(name, channel ?: throw ClaimException(directory), lock ?: throw ClaimException(directory))
}
