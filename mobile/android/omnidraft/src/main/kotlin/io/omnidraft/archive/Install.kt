package io.omnidraft.archive

/*
 * Unpack a bundle from wherever an app has it: the engine of `OmniDraft.unpack` (spec/08-phones.md, "Assets that are
 * not files").
 */

import io.omnidraft.BundleException
import io.omnidraft.BundleSource
import io.omnidraft.bundle.BundleLimits
import io.omnidraft.bundle.MANIFEST
import io.omnidraft.bundle.SIGNATURE
import io.omnidraft.bundle.hasFiles
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.readFile
import io.omnidraft.disk.recover
import io.omnidraft.disk.sha256
import io.omnidraft.disk.writeAtomically
import io.omnidraft.parts.INDEX
import io.omnidraft.parts.ONLY
import java.io.File
import java.io.IOException
import java.nio.file.Files

private const val NOTE_BYTES = 1 shl 10
private val OF_THE_PLACE = setOf("unwritable", "space") // refusals after which the archive is asked for again

/**
 * Unpack a bundle. A directory that exists and holds the same bundle is used as it is; where one of its files is absent
 * or has another size, all are written again.
 */
internal fun install(
    source: BundleSource,
    into: File, // the directory of the bundle; for a drafter alone, the directory that bundles are in
    overwrite: Boolean = false, // replace another bundle that is there
    web: Web = Web(), // how an address is read
    progress: ByteProgress = { _, _ -> },
): File = when (source) {
    is BundleSource.Stream -> source.stream.use { stream ->
        ArchiveStream.open(stream, File("the archive")).use {
            installed(it.archive, it, into, overwrite, progress)
        }
    }
    is BundleSource.Archive -> ofFile(source.file, into, overwrite, progress)
    is BundleSource.Download -> ofAddress(source, into, overwrite, web, progress)
}

private fun ofFile(file: File, into: File, overwrite: Boolean, progress: ByteProgress): File {
    val archive = openArchive(file)
    return contentsOf(archive).use { installed(archive, it, into, overwrite, progress) }
}

private fun installed(
    archive: Archive,
    contents: Contents,
    into: File,
    overwrite: Boolean,
    progress: ByteProgress,
): File {
    if (archive.index.drafter == ONLY) return unpack(archive, contents, into, overwrite, progress)
    val (isThere, isSigned) = try {
        recover(into)
        holds(into, archive.beside - SIGNATURE) to holds(into, archive.beside)
    } catch (error: IOException) {
        throw unwritable(into, error)
    }
    if (isSigned && hasFiles(into)) return into
    return unpack(archive, contents, into, overwrite || isThere, progress)
}

/** Whether a directory has the same manifest, signature and index as an archive that has them, byte for byte. */
private fun holds(into: File, beside: Map<String, ByteArray>): Boolean = beside.all { (name, data) ->
    val file = File(into, name)
    val isThere = !Files.isSymbolicLink(pathOf(into)) && file.isFile
    isThere && readFile(file, data.size + 1).contentEquals(data)
}

private fun ofAddress(
    source: BundleSource.Download,
    into: File,
    overwrite: Boolean,
    web: Web,
    progress: ByteProgress,
): File {
    val note = File(into.absoluteFile.parentFile, ".${into.name}.unpacked")
    if (isNoted(note, source, into)) return into
    val all = 2 * source.bytes
    val (part, claim) = claimPart(source, into)
    return claim.use {
        download(source, part, into, web) { done, _ -> progress(done, all) }
        val place = try {
            ofFile(part, into, overwrite) { done, total ->
                progress(source.bytes + (source.bytes * (done.toDouble() / maxOf(1, total))).toLong(), all)
            }
        } catch (refused: BundleException) {
            if (refused.fault !in OF_THE_PLACE) part.delete()
            throw refused
        }
        if (place == into) writeNote(note, source, into)
        part.delete()
        place
    }
}

/*
 * Which archive a directory was unpacked from, in a file beside it: a program that asks for the same download at each
 * start must not need the network. The note is lost without harm; nothing is trusted because of it.
 */
private fun isNoted(note: File, source: BundleSource.Download, into: File): Boolean = try {
    note.isFile && readFile(note, NOTE_BYTES).contentEquals(noteOf(source, into)) && hasFiles(into)
} catch (_: IOException) {
    false // no note, or no bundle
}

private fun writeNote(note: File, source: BundleSource.Download, into: File) {
    try {
        writeAtomically(note, noteOf(source, into))
    } catch (error: IOException) {
        throw unwritable(note, error)
    }
}

private fun noteOf(source: BundleSource.Download, into: File): ByteArray {
    val files = listOf(MANIFEST, INDEX).map { readFile(File(into, it), BundleLimits.MAX_MANIFEST_BYTES + 1) }
    val digests = files.map { hexOf(sha256(it)) }
    return (listOf("omnidraft.unpacked 1", source.sha256) + digests).joinToString("\n", postfix = "\n").toByteArray()
}
