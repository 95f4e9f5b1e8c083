package io.omnidraft.archive

/* Open an archive: headers, manifest and index (spec/16-archive.md). A signature is checked when the bundle is loaded. */

import io.omnidraft.ArchiveException
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.BundleLimits
import io.omnidraft.bundle.MANIFEST
import io.omnidraft.bundle.SIGNATURE
import io.omnidraft.bundle.SIGNATURE_BYTES
import io.omnidraft.bundle.describedBundle
import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.crc32
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.openFile
import io.omnidraft.disk.sha256
import io.omnidraft.parts.FilePlaces
import io.omnidraft.parts.INDEX
import io.omnidraft.parts.MAX_INDEX_BYTES
import io.omnidraft.parts.PackIndex
import io.omnidraft.parts.PackIndexException
import io.omnidraft.parts.readIndex
import io.omnidraft.reason
import java.io.File
import java.io.IOException
import java.io.InputStream

/** Entries that are not in the manifest, in order, with their bytes at most. */
private val BESIDE: Map<String, Int> =
    linkedMapOf(MANIFEST to BundleLimits.MAX_MANIFEST_BYTES, SIGNATURE to SIGNATURE_BYTES + 1, INDEX to MAX_INDEX_BYTES)

internal fun openArchive(path: File): Archive = try {
    openFile(path).use { open(path, FileBytes(it.channel)) }
} catch (error: IOException) {
    val message = "the archive $path cannot be read (${reason(error)})"
    throw ArchiveException("unreadable", message, "check the path", error)
}

private fun open(path: File, data: ZipBytes): Archive {
    val entries = try {
        readEntries(data).associateBy { it.name }
    } catch (error: ArchiveException) {
        throw refused(path, error.message.orEmpty(), error.fault)
    }
    if (entries.keys.first() != MANIFEST) throw refused(path, "its first entry is not $MANIFEST", "entries")
    val beside = LinkedHashMap<String, ByteArray>()
    for (name in BESIDE.keys) entries[name]?.let { beside[name] = besideOf(path, data, it) }
    return described(path, entries, beside).also { checkEntries(it) }
}

private fun described(path: File, entries: Map<String, ArchiveEntry>, beside: Map<String, ByteArray>): Archive {
    val manifest = beside.getValue(MANIFEST)
    val bundle = describedBundle(path, manifest, packed = true)
    val index = indexOf(bundle, beside[INDEX], manifest)
    return Archive(bundle.copy(found = FilePlaces(path, null, index)), index, entries, beside)
}

/** The bytes of an entry that the manifest does not list. */
private fun besideOf(path: File, data: ZipBytes, entry: ArchiveEntry): ByteArray {
    val most = BESIDE.getValue(entry.name)
    if (entry.size > most) throw refused(path, "${entry.name} has more than $most bytes", "size")
    val out = ByteWriter()
    pieces(data, entry, ByteArray(entry.size.toInt())) { piece, count -> out.put(piece, 0, count) }
    val bytes = out.bytes()
    if (crc32(bytes) != entry.crc32) throw refused(path, "the checksum of ${entry.name} is wrong", "checksum")
    return bytes
}

private fun indexOf(bundle: Bundle, data: ByteArray?, manifest: ByteArray): PackIndex {
    if (data == null) throw refused(bundle.path, "it has no $INDEX", "index")
    try {
        return readIndex(data, hexOf(sha256(manifest)), bundle.files.keys)
    } catch (error: PackIndexException) {
        throw refused(bundle.path, "$INDEX: ${error.message}", error.fault)
    }
}

/** Check that an archive holds what it must, in order, in the sizes of the manifest. */
private fun checkEntries(archive: Archive) {
    val expected = archive.beside.keys.toList() + archive.files
    if (archive.entries.keys.toList() != expected) {
        throw refused(archive.path, "it does not hold the files that its index names, in their order", "entries")
    }
    for (name in archive.files) checkSize(archive, archive.entries.getValue(name))
}

private fun checkSize(archive: Archive, entry: ArchiveEntry) {
    val bytes = archive.bundle.files.getValue(entry.name).bytes
    if (entry.size == bytes) return
    throw refused(archive.path, "${entry.name} has ${entry.size} bytes instead of $bytes", "size")
}

/**
 * An archive that is read once, from its first byte to its last.
 *
 * Headers are checked as they arrive, so a wrong bundle is refused before its weights are read, and a wrong directory
 * at the end.
 */
internal class ArchiveStream private constructor(
    private val data: ZipBytes,
    private val walk: ZipWalk,
    val archive: Archive, // what the first entries say
) : Contents {
    private val buffer = ByteArray(PIECE)
    private val left = ArrayDeque(archive.files)

    override fun read(name: String, take: TakePiece): ArchiveEntry {
        while (true) {
            val entry = next()
            if (entry.name != name) continue
            try {
                pieces(data, entry, buffer, take)
            } catch (error: ArchiveException) { // an IOException is of the place that is written
                throw refused(archive.path, error.message.orEmpty(), error.fault)
            }
            return entry
        }
    }

    private fun next(): ArchiveEntry {
        val entry = named(archive.path) { walk.next() }
        if (entry == null || left.isEmpty() || entry.name != left.removeFirst()) {
            throw refused(archive.path, "it does not hold the files that its index names, in their order", "entries")
        }
        checkSize(archive, entry)
        return entry
    }

    override fun finish() {
        while (left.isNotEmpty()) next()
        if (named(archive.path) { walk.next() } == null) return
        throw refused(archive.path, "it holds a file that its index does not name", "entries")
    }

    override fun close() = Unit

    internal companion object {
        fun open(stream: InputStream, path: File): ArchiveStream {
            val data = StreamBytes(stream)
            val walk = ZipWalk(data)
            val beside = LinkedHashMap<String, ByteArray>()
            while (INDEX !in beside) {
                val entry = named(path) { walk.next() }
                if (entry == null || !mayFollow(entry.name, beside.keys)) {
                    throw refused(path, "it does not begin with $MANIFEST and $INDEX", "entries")
                }
                beside[entry.name] = named(path) { besideOf(path, data, entry) }
            }
            val archive = described(path, walk.entries.associateBy { it.name }, beside)
            return ArchiveStream(data, walk, archive)
        }

        private fun mayFollow(name: String, before: Set<String>): Boolean = when (name) {
            MANIFEST -> before.isEmpty()
            SIGNATURE -> before == setOf(MANIFEST)
            else -> name == INDEX && MANIFEST in before
        }
    }
}

/** Runs a reading of a stream, whose refusals name the archive. */
private fun <T> named(path: File, read: () -> T): T = try {
    read()
} catch (error: ArchiveException) {
    throw if (path.path in error.message.orEmpty()) error else refused(path, error.message.orEmpty(), error.fault)
} catch (error: IOException) {
    throw refused(path, "it cannot be read (${reason(error)})", "unreadable")
}
