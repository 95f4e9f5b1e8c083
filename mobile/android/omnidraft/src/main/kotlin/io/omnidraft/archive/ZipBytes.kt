package io.omnidraft.archive

/* The bytes of an archive, of a file or of a stream, which is read once from its beginning, such as an asset. */

import io.omnidraft.disk.readFully
import java.io.IOException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.channels.FileChannel

private const val KEPT = 1 shl 10 // bytes that a stream keeps of its last read, so that a header can be read again
private const val SKIPPED = 1 shl 16

internal interface ZipBytes {
    /** Bytes in all; the largest Long where a stream does not tell. */
    val size: Long

    /**
     * Fills the beginning of an array with the bytes from a place on.
     *
     * @return how many: [count], or fewer at the end of the archive.
     * @throws IOException they cannot be read.
     */
    fun read(at: Long, into: ByteArray, count: Int): Int

    /** At most [count] bytes from a place on; fewer at the end of the archive. */
    fun read(at: Long, count: Int): ByteArray {
        val data = ByteArray(count)
        val filled = read(at, data, count)
        return if (filled == count) data else data.copyOf(filled)
    }
}

internal class FileBytes(private val channel: FileChannel) : ZipBytes {
    override val size: Long = channel.size()

    override fun read(at: Long, into: ByteArray, count: Int): Int {
        val buffer = ByteBuffer.wrap(into, 0, count)
        while (buffer.hasRemaining()) {
            if (channel.read(buffer, at + buffer.position()) < 0) break
        }
        return buffer.position()
    }
}

/** The bytes of a stream, which is read forwards; only the end of a short read can be read again. */
internal class StreamBytes(private val stream: InputStream) : ZipBytes {
    override val size: Long = Long.MAX_VALUE
    private var position = 0L // of the stream
    private var last = ByteArray(0) // the bytes before it

    override fun read(at: Long, into: ByteArray, count: Int): Int {
        skipTo(at)
        val behind = maxOf(0, position - at).toInt() // bytes that were read already
        val again = minOf(behind, count)
        last.copyInto(into, 0, last.size - behind, last.size - behind + again)
        var filled = again
        while (filled < count) {
            val read = stream.read(into, filled, count - filled)
            if (read < 0) break
            filled += read
        }
        position += filled - again
        keep(into, filled, again)
        return filled
    }

    private fun keep(data: ByteArray, filled: Int, again: Int) {
        if (filled > again) last = data.copyOfRange(maxOf(0, filled - KEPT), filled)
    }

    private fun skipTo(at: Long) {
        check(at >= position - last.size) { "a stream cannot be read backwards" }
        while (position < at) {
            val skipped = readFully(stream, minOf(at - position, SKIPPED.toLong()).toInt())
            if (skipped.isEmpty()) return
            position += skipped.size
            last = ByteArray(0)
        }
    }
}
