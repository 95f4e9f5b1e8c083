package io.omnidraft.disk

import java.io.File
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.FileAlreadyExistsException
import java.nio.file.Files
import java.nio.file.Path
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.nio.file.StandardOpenOption.CREATE_NEW
import java.nio.file.StandardOpenOption.READ
import java.nio.file.StandardOpenOption.WRITE
import java.nio.file.attribute.PosixFilePermission
import java.nio.file.attribute.PosixFilePermissions

/* Write a file so that a reader finds the old file or the new file, whole, even if the writer is killed. */

/** Reading and writing by the owner: the content was learned from a user's text. */
internal val PRIVATE: Set<PosixFilePermission> = PosixFilePermissions.fromString("rw-------")

private val LONGEST_NAME = 255 - "..${"0".repeat(16)}.tmp".length // so that the temporary name fits a directory too
private const val STALE_SECONDS = 60.0 // no write takes that long, so the writer of an older leftover was killed

/** The file that a path leads to, through links, if a file can be written or replaced there. */
internal fun placeOf(file: File): File {
    val path = pathOf(file.absoluteFile)
    val isThere = Files.exists(path)
    val place = if (isThere) path.toRealPath() else behindLinks(path)
    if (isThere) checkRegular(place)
    if (isThere && !(Files.isReadable(place) && Files.isWritable(place))) {
        throw IOException("it may not be read and written")
    }
    val parent = place.parent ?: throw IOException("no file can have that name")
    if (!Files.isDirectory(parent)) throw IOException("there is no directory $parent: make it first")
    if (!(Files.isWritable(parent) && Files.isExecutable(parent))) {
        throw IOException("the directory $parent may not be written")
    }
    if (place.fileName.toString().toByteArray().size > LONGEST_NAME) throw IOException("its name is too long")
    return place.toFile()
}

/** Where a file that does not exist would be made: a link to nothing is written through. */
private fun behindLinks(path: Path): Path {
    var place = path
    repeat(MOST_LINKS) {
        val parent = place.parent ?: return place
        if (!Files.isDirectory(parent)) return place
        place = parent.toRealPath().resolve(place.fileName)
        if (!Files.isSymbolicLink(place)) return place
        place = place.resolveSibling(Files.readSymbolicLink(place)).normalize()
    }
    throw IOException("too many links lead to it")
}

private const val MOST_LINKS = 40

/**
 * Replace a file: write a temporary one beside it, flush it to the disk, rename it, flush the directory.
 *
 * A link is written through. A new file is its owner's alone; a file that is replaced keeps its permissions. Leftovers of
 * killed writers are removed; they are named `.NAME.<random>.tmp` and are harmless.
 *
 * @param keep rename the old file to a free name, `NAME.refused`, `NAME.refused-2` and so on.
 * @return the new name of the old file; null if there is none.
 * @throws IOException the disk is full, or the file cannot be written; the old file is whole.
 */
internal fun writeAtomically(file: File, data: ByteArray, keep: Boolean = false): File? {
    val place = placeOf(file)
    val temporary = File(place.parentFile, ".${place.name}.${randomHex(8)}.tmp")
    var kept: File? = null
    try {
        writeNew(temporary, data, place)
        if (keep && place.exists()) kept = freeName(place).also { rename(place, it) }
        rename(temporary, place)
    } finally {
        temporary.delete() // absent unless something above failed
    }
    syncDirectory(place.parentFile)
    removeLeftovers(place, STALE_SECONDS)
    return kept
}

/** Renames a file over another one in one step. */
internal fun rename(from: File, to: File) {
    Files.move(pathOf(from), pathOf(to), ATOMIC_MOVE, REPLACE_EXISTING)
}

private fun writeNew(temporary: File, data: ByteArray, place: File) {
    // CREATE_NEW: never write through a link that another program made.
    FileChannel.open(pathOf(temporary), CREATE_NEW, WRITE).use { channel ->
        permit(temporary, if (place.exists()) permissions(place) else PRIVATE)
        val buffer = ByteBuffer.wrap(data)
        while (buffer.hasRemaining()) channel.write(buffer)
        channel.force(true)
    }
}

/** Sets permissions where the file system has them; shared storage has none. */
internal fun permit(file: File, permissions: Set<PosixFilePermission>?) {
    if (permissions == null) return
    try {
        Files.setPosixFilePermissions(pathOf(file), permissions)
    } catch (_: UnsupportedOperationException) {
        return
    }
}

private fun permissions(file: File): Set<PosixFilePermission>? = try {
    Files.getPosixFilePermissions(pathOf(file))
} catch (_: UnsupportedOperationException) {
    null
}

/** A free name beside a file; an empty file is made under it, so that no other writer takes it. */
private fun freeName(file: File): File {
    var number = 1
    while (true) {
        val name = File(file.parentFile, "${file.name}.refused" + if (number > 1) "-$number" else "")
        try {
            Files.createFile(pathOf(name))
            permit(name, PRIVATE)
            return name
        } catch (_: FileAlreadyExistsException) {
            number++
        }
    }
}

/**
 * Remove the temporary files of killed writers of a path, and return their number.
 *
 * @param olderThan seconds since the last change; a younger file may belong to a running writer.
 */
internal fun removeLeftovers(file: File, olderThan: Double = 0.0): Int {
    val start = ".${file.name}."
    val end = ".tmp"
    val left = file.absoluteFile.parentFile?.listFiles().orEmpty().filter {
        it.name.length == start.length + 16 + end.length && it.name.startsWith(start) && it.name.endsWith(end)
    }
    return left.count { System.currentTimeMillis() - it.lastModified() >= olderThan * 1000 && it.delete() }
}

/** Flush a directory, so that a rename in it lasts; where the platform cannot open one, nothing is to be done. */
internal fun syncDirectory(directory: File) {
    try {
        FileChannel.open(pathOf(directory), READ).use { it.force(true) }
    } catch (_: IOException) {
        return // the rename itself is done
    }
}
