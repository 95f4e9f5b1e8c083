package io.omnidraft.archive

/*
 * Download an archive by HTTPS. A server may be hostile or slow: not a byte more than the archive has is taken, a slow
 * transfer is given up, and the whole file is hashed at the end. What was read stays in a file beside the place of the
 * bundle, and the next download goes on behind it.
 */

import io.omnidraft.ArchiveException
import io.omnidraft.BundleSource
import io.omnidraft.bundle.fileSha256
import io.omnidraft.counted
import io.omnidraft.disk.Claim
import io.omnidraft.disk.ClaimException
import io.omnidraft.disk.claimFile
import io.omnidraft.reason
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import java.net.URL
import java.util.Timer
import java.util.TimerTask
import java.util.concurrent.atomic.AtomicBoolean
import javax.net.ssl.HttpsURLConnection
import javax.net.ssl.SSLSocketFactory

private const val LEAST = 1024L // bytes a second
private const val SECONDS = 10
private const val NANOSECONDS = 1_000_000_000L
private const val READ = 1 shl 16 // bytes that are read at once
private const val OK = 200
private const val PARTIAL = 206
private const val AGAIN = "check the address and the network and try again: the download goes on where it ended"

/**
 * How an address is read.
 *
 * @property sockets makes encrypted connections; null takes the platform's.
 * @property seconds over which a transfer must bring 1,024 bytes a second.
 */
internal class Web(val sockets: SSLSocketFactory? = null, val seconds: Int = SECONDS)

/** Claim the file beside the place [into] that a download is read into: two calls would write over each other. */
internal fun claimPart(source: BundleSource.Download, into: File): Pair<File, Claim> {
    val folder = into.absoluteFile.parentFile
    if (folder == null || !folder.isDirectory && !folder.mkdirs()) {
        throw ArchiveException("unwritable", "there is no directory for $into", "choose another place")
    }
    val part = File(folder, ".${into.name}.${source.sha256.take(16)}.part")
    try {
        return part to claimFile(part)
    } catch (error: ClaimException) {
        throw ArchiveException("in_use", "another call downloads to $into", "wait until it has ended", error)
    } catch (error: IOException) {
        throw unwritable(part, error)
    }
}

/** Download an archive into its part, which the caller has claimed. */
internal fun download(source: BundleSource.Download, part: File, into: File, web: Web, progress: ByteProgress) {
    removeOthers(part, into)
    if (part.length() > source.bytes) part.delete()
    checkSpace(part.parentFile, source.bytes - part.length(), source.address)
    if (part.length() < source.bytes) fetch(source, part, web, progress)
    val isRight = try {
        fileSha256(part) == source.sha256
    } catch (error: IOException) {
        throw unwritable(part, error)
    }
    if (!isRight) throw discarded(part, "checksum", "${source.address} has another SHA-256 than the app expects")
}

/** Remove what is left of downloads of other archives to the same place. */
private fun removeOthers(part: File, into: File) {
    val left = part.parentFile.listFiles().orEmpty().filter { file ->
        file.name.length == part.name.length && file.name.startsWith(".${into.name}.") && file.name.endsWith(".part")
    }
    left.filter { it.name != part.name }.forEach { it.delete() }
}

private fun discarded(part: File, fault: String, message: String): ArchiveException {
    part.delete()
    return ArchiveException(fault, message, "ask the app's publisher, or give the size and hash of the new file")
}

private fun fetch(source: BundleSource.Download, part: File, web: Web, progress: ByteProgress) {
    val connection = try {
        URL(source.address).openConnection() as? HttpsURLConnection ?: throw IOException("no web server has it")
    } catch (error: IOException) {
        throw unreadable(source, reason(error), error)
    }
    try {
        configure(connection, web, part.length())
        val begin = answered(source, connection, part, web.seconds)
        FileOutputStream(part, begin > 0).use { out ->
            copy(source, connection.inputStream, out, begin, Pace(web.seconds), progress)
            out.fd.sync()
        }
    } catch (error: TooLongException) {
        throw discarded(part, "size", error.message.orEmpty())
    } catch (error: IOException) {
        val failed = unwritable(part, error)
        throw if (failed.fault == "space") failed else unreadable(source, reason(error), error)
    } finally {
        connection.disconnect()
    }
    if (part.length() < source.bytes) {
        throw unreadable(source, "the connection ended at byte ${part.length()} of ${source.bytes}")
    }
}

internal fun configure(connection: HttpsURLConnection, web: Web, begin: Long = 0) {
    web.sockets?.let { connection.sslSocketFactory = it }
    connection.connectTimeout = web.seconds * 1000
    connection.readTimeout = web.seconds * 1000
    connection.useCaches = false
    connection.setRequestProperty("User-Agent", "omnidraft")
    connection.setRequestProperty("Accept-Encoding", "identity")
    if (begin > 0) connection.setRequestProperty("Range", "bytes=$begin-")
}

/** The byte at which the answer begins: that which was asked for, or 0 of a server that always sends the whole file. */
private fun answered(source: BundleSource.Download, connection: HttpsURLConnection, part: File, seconds: Int): Long {
    val begin = part.length()
    val status = statusOf(connection, seconds)
    val length = connection.getHeaderField("Content-Length")?.toLongOrNull()
    if (status == OK) {
        if (length != null && length != source.bytes) throw TooLongException(source, length)
        return 0
    }
    val rest = "bytes $begin-${source.bytes - 1}/"
    val isRest = connection.getHeaderField("Content-Range") in listOf("$rest${source.bytes}", "$rest*")
    if (status == PARTIAL && isRest) return begin
    if (status != PARTIAL) throw IOException("the server answers $status")
    throw TooLongException(source, null)
}

/** The status of an answer. A header that comes byte by byte has no bound of its own, so it is waited for here. */
internal fun statusOf(connection: HttpsURLConnection, seconds: Int): Int {
    val timer = Timer(true)
    val isLate = AtomicBoolean()
    val late = "its answer did not begin within ${2 * seconds} s"
    val end = object : TimerTask() {
        override fun run() {
            isLate.set(true)
            connection.disconnect()
        }
    }
    timer.schedule(end, 2 * seconds * 1000L)
    try {
        return connection.responseCode
    } catch (error: IOException) {
        throw if (isLate.get()) IOException(late, error) else error
    } catch (error: IllegalArgumentException) {
        throw IOException("the address has no host", error)
    } catch (error: RuntimeException) { // Android's without the permission; the JVM's after the timer's `disconnect`
        throw IOException(if (isLate.get()) late else reason(error), error)
    } finally {
        timer.cancel()
    }
}

private fun copy(
    source: BundleSource.Download,
    body: InputStream,
    out: FileOutputStream,
    begin: Long,
    pace: Pace,
    progress: ByteProgress,
) {
    val buffer = ByteArray(READ)
    var done = begin
    while (true) {
        val count = body.read(buffer, 0, minOf(buffer.size.toLong(), source.bytes - done + 1).toInt())
        if (count < 0) return
        if (done + count > source.bytes) throw TooLongException(source, null)
        out.write(buffer, 0, count)
        done += count
        progress(done, source.bytes)
        pace.add(count)
    }
}

/** Gives up a transfer that is too slow. */
internal class Pace(private val seconds: Int) {
    private var began = System.nanoTime()
    private var bytes = 0L

    fun add(count: Int) {
        bytes += count
        val now = System.nanoTime()
        if (now - began < seconds * NANOSECONDS) return
        if (bytes < LEAST * seconds) throw IOException("it brings less than $LEAST bytes a second")
        began = now
        bytes = 0
    }
}

/** The server has another file than the one that is expected. */
private class TooLongException(source: BundleSource.Download, length: Long?) : IOException(
    "${source.address} has ${length?.let { counted(it, "byte") } ?: "another number of bytes"} and not ${source.bytes}",
)

private fun unreadable(source: BundleSource.Download, why: String, cause: Exception? = null): ArchiveException =
    ArchiveException("unreadable", "${source.address} cannot be read ($why)", AGAIN, cause)
