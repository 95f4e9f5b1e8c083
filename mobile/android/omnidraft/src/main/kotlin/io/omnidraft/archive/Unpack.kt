package io.omnidraft.archive

/* Unpack an archive: every hash is checked, and a directory takes its name when whole (spec/16-archive.md). */

import io.omnidraft.ArchiveException
import io.omnidraft.bundle.fileSha256
import io.omnidraft.bundle.refusalToReplace
import io.omnidraft.disk.ClaimException
import io.omnidraft.disk.newDirectory
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.recover
import io.omnidraft.disk.rename
import io.omnidraft.disk.syncTree
import io.omnidraft.disk.takeName
import io.omnidraft.parts.DRAFTER
import io.omnidraft.parts.ONLY
import io.omnidraft.parts.SHARED
import io.omnidraft.reason
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.nio.file.Files
import java.nio.file.LinkOption

private const val SPARE = 1L shl 20 // bytes for directories
private const val ELSEWHERE = "choose another place"

/**
 * Unpack an archive.
 *
 * @return the directory that was written: [out], or `drafters/ADDRESS` below it.
 * @throws ArchiveException a file is not the one of the manifest, the place exists, the space is too little, or the
 *   place cannot be written. Nothing is left of a directory that is not whole.
 */
internal fun unpack(
    archive: Archive,
    out: File, // the directory of the bundle; for a drafter alone, the directory that bundles are in
    overwrite: Boolean = false, // replace a bundle that exists
    progress: ByteProgress = { _, _ -> }, // called after each piece that was written
): File = contentsOf(archive).use { unpack(archive, it, out, overwrite, progress) }

/** See above; [contents] are those of the archive, which may be a stream. */
internal fun unpack(
    archive: Archive,
    contents: Contents,
    out: File,
    overwrite: Boolean,
    progress: ByteProgress,
): File {
    val isDrafter = archive.index.drafter == ONLY
    val place = if (isDrafter) File(File(out, SHARED), archive.address) else out
    if (isDrafter) {
        if (sharedPlaceExists(place)) return complete(archive, contents, place, progress)
    } else {
        refuseExisting(place, overwrite)
    }
    whole(archive, place) { work ->
        writeFiles(archive, contents, work, archive.files, progress)
        if (!isDrafter) archive.beside.forEach { (name, data) -> newFile(File(work, name)) { it.write(data) } }
        syncTree(work)
        if (!isDrafter && overwrite) refuseExisting(place, overwrite) // something may have been put there meanwhile
        takeName(work, place, replaces = !isDrafter && overwrite)
    }
    return place
}

private fun sharedPlaceExists(place: File): Boolean = try {
    refuseLink(place)
    refuseLink(place.parentFile)
    recover(place)
    place.exists()
} catch (error: IOException) {
    throw unwritable(place, error)
}

/** Refuse a link where a shared drafter is kept; no bundle would read through it. */
internal fun refuseLink(path: File) {
    if (!Files.isSymbolicLink(pathOf(path))) return
    throw ArchiveException("outside", "$path is a link, and a shared drafter is never behind one", ELSEWHERE)
}

/** Refuse a place that exists; what a killed process left is put right first. */
private fun refuseExisting(out: File, overwrite: Boolean) {
    try {
        recover(out)
        if (!Files.exists(pathOf(out), LinkOption.NOFOLLOW_LINKS)) return
    } catch (error: IOException) {
        throw unwritable(out, error)
    }
    if (!overwrite) throw ArchiveException("unwritable", "$out exists already", "delete it or $ELSEWHERE")
    val (message, remedy) = refusalToReplace(out) ?: return
    throw ArchiveException("unwritable", message, remedy)
}

/** Runs [write] with a temporary directory beside the place, where the archive has room. */
private fun whole(archive: Archive, place: File, write: (File) -> Unit) {
    try {
        val parent = place.absoluteFile.parentFile ?: throw IOException("it has no directory above it")
        if (!parent.isDirectory && !parent.mkdirs()) throw IOException("the directory $parent cannot be made")
        checkSpace(parent, archive.total + SPARE, archive.path.toString())
        newDirectory(place, write)
    } catch (error: IOException) {
        throw unwritable(place, error)
    } catch (error: ClaimException) {
        throw unwritable(place, error)
    }
}

/** Refuse a directory whose disk has too little room. */
internal fun checkSpace(directory: File, needed: Long, what: String) {
    val free = directory.usableSpace
    if (free >= needed) return
    val message = "$what needs $needed bytes and $directory has $free left"
    throw ArchiveException("space", message, "free some space or $ELSEWHERE")
}

/** The refusal of a place that cannot be written; `space` where the disk is full. */
internal fun unwritable(place: File, error: Exception): ArchiveException {
    val isFull = listOf("ENOSPC", "EDQUOT", "No space left", "Disk quota").any { it in error.message.orEmpty() }
    return ArchiveException(
        if (isFull) "space" else "unwritable",
        "$place cannot be written (${reason(error)})",
        if (isFull) "free some space or $ELSEWHERE" else ELSEWHERE,
        error,
    )
}

/** Write files that the manifest lists; of a drafter alone, without `drafter/` in their paths. */
private fun writeFiles(archive: Archive, contents: Contents, work: File, names: List<String>, progress: ByteProgress) {
    var done = 0L
    val total = names.sumOf { archive.bundle.files.getValue(it).bytes }
    for (name in names) {
        newFile(File(work, below(archive, name))) { out ->
            readChecked(archive, contents, name) { piece, count ->
                out.write(piece, 0, count)
                done += count
                progress(done, total)
            }
        }
    }
    contents.finish()
}

/** A new file, flushed to the disk at the end. */
private fun newFile(path: File, write: (FileOutputStream) -> Unit) {
    val parent = path.parentFile
    if (!parent.isDirectory && !parent.mkdirs()) throw IOException("the directory $parent cannot be made")
    if (!path.createNewFile()) throw IOException("$path exists already")
    FileOutputStream(path).use { out ->
        write(out)
        out.fd.sync()
    }
}

/** The path of a file below the directory that is written. */
private fun below(archive: Archive, name: String): String =
    if (archive.index.drafter == ONLY) name.drop(DRAFTER.length) else name

/** Add the files that a shared drafter lacks, or has damaged; each takes its name when it is whole. */
private fun complete(archive: Archive, contents: Contents, place: File, progress: ByteProgress): File {
    val targets = archive.files.associateWith { File(place, below(archive, it)) }
    for (target in targets.values) {
        generateSequence(target) { it.parentFile }.takeWhile { it != place }.forEach { refuseLink(it) }
    }
    val lacking = archive.files.filterNot { isThere(archive, targets.getValue(it), it) }
    whole(archive, place) { work ->
        writeFiles(archive, contents, work, lacking, progress)
        for (name in lacking) {
            val target = targets.getValue(name)
            target.parentFile.mkdirs()
            rename(File(work, below(archive, name)), target)
        }
        syncTree(place)
    }
    return place
}

private fun isThere(archive: Archive, file: File, name: String): Boolean = try {
    val record = archive.bundle.files.getValue(name)
    file.length() == record.bytes && fileSha256(file) == record.sha256
} catch (_: IOException) {
    false
}
