package io.omnidraft.disk

import java.io.File
import java.io.FileInputStream
import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.nio.MappedByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.Files
import java.nio.file.InvalidPathException
import java.nio.file.Path
import java.nio.file.Paths
import java.nio.file.attribute.BasicFileAttributes

/*
 * Read a regular file, or say why not: opening a pipe or a device could wait forever.
 *
 * Each IOException that is thrown here has a message that ends a sentence beginning with "it cannot be read because".
 */

/** A regular file, open for reading from its beginning; the caller closes it. Its `channel` gives size and place. */
internal fun openFile(file: File): FileInputStream {
    val path = pathOf(file)
    if (!Files.exists(path)) throw FileNotFoundException("there is no such file")
    checkRegular(path) // Java cannot ask an open file what it is; a pipe that takes the name now would wait
    if (!Files.isReadable(path)) throw IOException("it may not be read")
    return FileInputStream(file)
}

/** The bytes of a regular file, at most [most] of them, so that a wrong file of any size fits the memory. */
internal fun readFile(file: File, most: Int): ByteArray = openFile(file).use { stream ->
    readFully(stream, minOf(stream.channel.size(), most.toLong()).toInt())
}

/** The bytes of a regular file; one that has more than [most] is not read. */
internal fun readWhole(file: File, most: Long): ByteArray = openFile(file).use { stream ->
    val size = stream.channel.size()
    if (size > minOf(most, LARGEST_ARRAY)) throw IOException("it has more than $most bytes")
    readFully(stream, size.toInt())
}

/**
 * A regular file, mapped for reading; pages are read when they are used. The order of bytes is big-endian until it is set.
 */
internal fun mapFile(file: File): MappedByteBuffer = openFile(file).use { stream ->
    val size = stream.channel.size()
    if (size > Int.MAX_VALUE) throw IOException("it has $size bytes")
    stream.channel.map(FileChannel.MapMode.READ_ONLY, 0, size)
}

/** Refuse what is not a regular file, links followed. */
internal fun checkRegular(path: Path) {
    val kind = Files.readAttributes(path, BasicFileAttributes::class.java)
    if (kind.isDirectory) throw IOException("it is a directory")
    if (!kind.isRegularFile) throw IOException("it is not a regular file")
}

internal fun pathOf(file: File): Path = try {
    Paths.get(file.path)
} catch (_: InvalidPathException) { // a zero byte in the name
    throw IOException("no file can have that name")
}

/** The next [size] bytes of a stream, fewer at its end. */
internal fun readFully(stream: InputStream, size: Int): ByteArray {
    val data = ByteArray(size)
    var filled = 0
    while (filled < size) {
        val count = stream.read(data, filled, size - filled)
        if (count < 0) return data.copyOf(filled)
        filled += count
    }
    return data
}

private const val LARGEST_ARRAY = (1L shl 31) - 9
