package io.omnidraft.sync

import io.omnidraft.archive.Pace
import io.omnidraft.archive.Web
import io.omnidraft.archive.configure
import io.omnidraft.archive.statusOf
import java.io.ByteArrayOutputStream
import java.io.IOException
import java.net.URL
import javax.net.ssl.HttpsURLConnection

/*
 * Read files from a web server. Nothing that a server sends is taken without a bound: of bytes, of time, of speed.
 */

private const val OK = 200
private const val PIECE = 1 shl 16
private val ABSENT = setOf(404, 410)

/**
 * The bytes of a file below an address; null where the server has none.
 *
 * @param address begins with `https://`.
 * @param name of the file.
 * @param most bytes at most.
 * @throws IOException the server cannot be reached, answers with an error, or is too slow.
 * @throws io.omnidraft.SyncException `too_large`.
 */
internal fun readOnServer(address: String, name: String, most: Long, web: Web): ByteArray? {
    val connection = URL(address.trimEnd('/') + "/" + name).openConnection() as? HttpsURLConnection
        ?: throw IOException("it is no address of a web server")
    try {
        configure(connection, web)
        val status = statusOf(connection, web.seconds)
        if (status in ABSENT) return null
        if (status != OK) throw IOException("the server answers $status")
        return body(connection, name, most, Pace(web.seconds))
    } finally {
        connection.disconnect()
    }
}

private fun body(connection: HttpsURLConnection, name: String, most: Long, pace: Pace): ByteArray {
    val out = ByteArrayOutputStream()
    val piece = ByteArray(PIECE)
    connection.inputStream.use { body ->
        while (true) {
            val count = body.read(piece, 0, minOf(PIECE.toLong(), most - out.size() + 1).toInt())
            if (count < 0) return out.toByteArray()
            out.write(piece, 0, count)
            if (out.size() > most) throw tooLarge(name, most)
            pace.add(count)
        }
    }
}
