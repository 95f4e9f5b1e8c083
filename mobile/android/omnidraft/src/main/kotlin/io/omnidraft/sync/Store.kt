package io.omnidraft.sync

import io.omnidraft.OmniDraftException
import io.omnidraft.ReleaseSource
import io.omnidraft.SyncException
import io.omnidraft.disk.readFile
import io.omnidraft.reason
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.util.Calendar.DAY_OF_MONTH
import java.util.Calendar.HOUR_OF_DAY
import java.util.Calendar.MINUTE
import java.util.Calendar.MONTH
import java.util.Calendar.SECOND
import java.util.Calendar.YEAR
import java.util.GregorianCalendar
import java.util.Locale
import java.util.TimeZone

/*
 * A store: files by their names below a folder, a web server, or whatever an app reads from (spec/15-sync.md, Layout).
 */

private const val HASH_DIGITS = 64
private const val SHOWN_DIGITS = 12

/** Reads files of a store and names what went wrong; no one who can write to a store is trusted. */
internal class Store(private val source: ReleaseSource) {
    /**
     * The bytes of a file.
     *
     * @param name of the file.
     * @param most bytes at most.
     * @throws SyncException `missing`, `too_large` or `unreachable`.
     */
    fun read(name: String, most: Long): ByteArray {
        val data = try {
            source.read(name, most)
        } catch (error: OmniDraftException) {
            throw error
        } catch (error: IOException) {
            throw SyncException(
                "unreachable",
                "${shortName(name)} in the store cannot be reached (${reason(error)})",
                "try again",
                error,
            )
        }
        if (data == null) {
            throw SyncException(
                "missing",
                "the store has no readable ${shortName(name)}",
                "check its address, or ask who runs it",
            )
        }
        if (data.size > most) throw tooLarge(name, most)
        return data
    }
}

/** The error of a file with more bytes than it may have. */
internal fun tooLarge(name: String, most: Long): SyncException = SyncException(
    "too_large",
    "${shortName(name)} in the store has more than $most bytes",
    "ask its publisher",
)

/**
 * The files of a folder. What someone else put under a name, such as a pipe or a link to itself, counts as an absent
 * file.
 *
 * @throws IOException the folder cannot be read.
 */
internal fun readInFolder(root: File, name: String, most: Long): ByteArray? {
    val bound = minOf(most + 1, Int.MAX_VALUE.toLong() - 8).toInt()
    val data = try {
        readFile(File(root, name), bound)
    } catch (error: FileNotFoundException) {
        if (!root.isDirectory && isBlocked(root)) throw error
        return null
    } catch (error: IOException) {
        if (!root.isDirectory) throw error
        return null
    }
    if (data.size > most) throw tooLarge(name, most)
    return data
}

/** Whether something else than a folder is where the folder or one above it must be. */
private fun isBlocked(root: File): Boolean {
    val above = generateSequence(root.absoluteFile) { it.parentFile }.firstOrNull { it.exists() }
    return above != null && !above.isDirectory
}

/** A name for messages, with the first 12 digits of each SHA-256. */
internal fun shortName(name: String): String = name.split('/').joinToString("/") { part ->
    val digits = part.takeWhile { it in '0'..'9' || it in 'a'..'f' }
    if (digits.length == HASH_DIGITS) digits.take(SHOWN_DIGITS) + part.substring(HASH_DIGITS) else part
}

/** The time now in the form of records, ISO 8601 in UTC. */
internal fun utc(): String {
    val now = GregorianCalendar(TimeZone.getTimeZone("UTC"), Locale.ROOT)
    val date = listOf(padded(now[YEAR], 4), padded(now[MONTH] + 1, 2), padded(now[DAY_OF_MONTH], 2))
    val hour = listOf(padded(now[HOUR_OF_DAY], 2), padded(now[MINUTE], 2), padded(now[SECOND], 2))
    return date.joinToString("-") + "T" + hour.joinToString(":") + "Z"
}

private fun padded(number: Int, digits: Int): String = number.toString().padStart(digits, '0')
