package io.omnidraft.archive

/* An archive that was opened: read or map its files in place, and check their hashes (spec/16-archive.md). */

import io.omnidraft.ArchiveException
import io.omnidraft.BundleException
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.MOST_EXACT
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.newSha256
import io.omnidraft.disk.openFile
import io.omnidraft.disk.quoted
import io.omnidraft.parts.PackIndex
import io.omnidraft.parts.drafterAddress
import io.omnidraft.reason
import java.io.Closeable
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.util.zip.CRC32

internal const val PIECE = 1 shl 16

/** Told the bytes that are done, and all bytes. */
internal typealias ByteProgress = (Long, Long) -> Unit

/** Takes the first bytes of an array, as many as the number says; the array is used again afterwards. */
internal typealias TakePiece = (ByteArray, Int) -> Unit

private const val AGAIN = "download it again or run `omnidraft pack` again"

/**
 * An archive whose headers, manifest and index are right.
 *
 * @property entries by name, in order; of a stream only those of [beside], because the others were not read yet.
 * @property beside the bytes of the entries that the manifest does not list: itself, its signature, the index.
 */
internal class Archive(
    val bundle: Bundle, // what its manifest says; its path is the archive
    val index: PackIndex,
    val entries: Map<String, ArchiveEntry>,
    val beside: Map<String, ByteArray>,
) {
    val path: File get() = bundle.path

    val address: String get() = drafterAddress(bundle.files)

    /** The files of the manifest that the archive holds, in order. */
    val files: List<String> = bundle.files.keys.filter { index.holds(it) }

    /** Bytes of all entries; those of a hostile stream may have any sizes, so the sum has a bound. */
    val total: Long
        get() {
            val sizes = beside.values.map { it.size.toLong() } + files.map { bundle.files.getValue(it).bytes }
            return sizes.fold(0L) { sum, size -> minOf(sum + size, MOST_EXACT) }
        }

    /**
     * A file as it lies in the archive, mapped. Its hash is not checked.
     *
     * @throws BundleException `left_out`; [ArchiveException]: the archive does not hold it, or cannot be read.
     */
    fun mapped(name: String): ByteBuffer {
        bundle.places.refuseLeftOut(name)
        val entry = entries[name] ?: throw refused(path, "it does not hold ${quoted(name)}", "entries")
        try {
            openFile(path).use { file ->
                if (entry.end > file.channel.size()) throw refused(path, "it became shorter", "unreadable")
                return file.channel.map(FileChannel.MapMode.READ_ONLY, entry.begin, entry.size)
            }
        } catch (error: IOException) {
            throw refused(path, "it cannot be read (${reason(error)})", "unreadable")
        }
    }
}

/** Reads the files of an archive, in their order. */
internal interface Contents : Closeable {
    /** Reads a file of the archive; a stream passes those before it. */
    fun read(name: String, take: TakePiece): ArchiveEntry

    /** Checks what is behind the last file, where it was not checked before. */
    fun finish()
}

internal class FileContents(private val archive: Archive) : Contents {
    private val file = openFile(archive.path)
    private val bytes = FileBytes(file.channel)
    private val buffer = ByteArray(PIECE)

    override fun read(name: String, take: TakePiece): ArchiveEntry {
        val entry = archive.entries.getValue(name)
        pieces(bytes, entry, buffer, take)
        return entry
    }

    override fun finish() = Unit

    override fun close() = file.close()
}

internal fun pieces(data: ZipBytes, entry: ArchiveEntry, buffer: ByteArray, take: TakePiece) {
    var done = 0L
    while (done < entry.size) {
        val count = try {
            data.read(entry.begin + done, buffer, minOf(entry.size - done, buffer.size.toLong()).toInt())
        } catch (error: IOException) {
            throw ArchiveException("unreadable", "the archive cannot be read (${reason(error)})", AGAIN, error)
        }
        if (count == 0) throw ArchiveException("truncated", "${entry.name} is cut short", AGAIN)
        take(buffer, count)
        done += count
    }
}

/** The files of an archive that was opened from a file. */
internal fun contentsOf(archive: Archive): Contents = try {
    FileContents(archive)
} catch (error: IOException) {
    throw refused(archive.path, "it cannot be read (${reason(error)})", "unreadable")
}

/** The bytes of a file that the manifest lists, in pieces; a wrong hash is thrown behind the last piece. */
internal fun readChecked(archive: Archive, contents: Contents, name: String, take: TakePiece) {
    val digest = newSha256()
    val crc32 = CRC32()
    val entry = contents.read(name) { piece, count ->
        digest.update(piece, 0, count)
        crc32.update(piece, 0, count)
        take(piece, count)
    }
    if (hexOf(digest.digest()) != archive.bundle.files.getValue(name).sha256 || crc32.value != entry.crc32) {
        throw refused(archive.path, "the checksum of $name is wrong", "checksum")
    }
}

internal fun refused(path: File, why: String, fault: String): ArchiveException =
    ArchiveException(fault, "$path is refused: $why", AGAIN)
