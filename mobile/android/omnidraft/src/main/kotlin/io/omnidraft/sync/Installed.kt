package io.omnidraft.sync

import io.omnidraft.SyncException
import io.omnidraft.disk.ClaimException
import io.omnidraft.disk.claim
import io.omnidraft.disk.isHexadecimal
import io.omnidraft.disk.readFile
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.reason
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException

/*
 * The files of a device: adapter in use, previous adapter, newest release seen (spec/15-sync.md, What a device keeps).
 */

internal const val POINTER = "current"

/** Ending of file names, after the SHA-256. */
internal const val ADAPTER_END = ".safetensors"

private const val TITLE = "omnidraft.installed 1"
private const val MOST_POINTER_BYTES = 2048
private const val NONE = "none"
private const val HASH_DIGITS = 64
private const val RANDOM_DIGITS = 16

/** The newest release that a device verified: its number, and the SHA-256 of its signed lines. */
internal data class Seen(val number: Long, val sha256: String) {
    /** Refuse an older release, and another one of the same number. */
    fun check(release: SignedRecord) {
        if (release.number < number) {
            val message = "release ${release.number} is older than release $number, which this device has seen"
            throw SyncException("older", message, "do not use this store before its publisher made a newer one")
        }
        if (release.number == number && release.digest != sha256) {
            val message = "release $number is not the one that this device has seen under that number"
            throw SyncException("conflict", message, "tell its publisher")
        }
    }
}

/**
 * An adapter that is or was in use.
 *
 * @property number of its release; 0 for the device's own adapter.
 */
internal data class Used(val number: Long, val file: StoredFile) {
    override fun toString(): String = "$number $file"
}

/** The content of the pointer file. */
internal data class Installed(
    val channel: Channel,
    val seen: Seen? = null, // the newest release that was verified
    val refused: Long = 0, // number of the newest release whose adapter was not taken, 0 for none
    val current: Used? = null, // the adapter in use; null for the drafter without an adapter
    val previous: Used? = null, // the adapter before it; null likewise
) {
    val files: Set<String> get() = listOfNotNull(
        current?.let { it.file.sha256 + ADAPTER_END },
        previous?.let { it.file.sha256 + ADAPTER_END },
    ).toSet()

    val text: ByteArray get() = ascii(
        "$TITLE\n${channel.lines}seen ${seen?.let { "${it.number} ${it.sha256}" } ?: NONE}\nrefused $refused\n" +
            "current ${current ?: NONE}\nprevious ${previous ?: NONE}\n",
    )

    /** This state with another adapter in use; the present adapter becomes the previous one. */
    fun switched(to: Used?): Installed = if (to == current) this else copy(current = to, previous = current)
}

/** The content of a directory; null where nothing is installed. */
internal fun readInstalled(place: File): Installed? {
    val pointer = File(place, POINTER)
    val data = try {
        readFile(pointer, MOST_POINTER_BYTES + 1)
    } catch (_: FileNotFoundException) {
        return null
    } catch (error: IOException) {
        throw SyncException(
            "unreadable",
            "$pointer cannot be read (${reason(error)})",
            "check the path and its permissions",
        )
    }
    return try {
        parseInstalled(RecordReader(data))
    } catch (_: MalformedRecord) {
        throw SyncException(
            "malformed",
            "$pointer is not what a pull wrote",
            "give another directory, or delete it, which also forgets the newest release seen",
        )
    }
}

private fun parseInstalled(reader: RecordReader): Installed {
    reader.line(TITLE)
    val installed = Installed(
        channel = reader.channel(),
        seen = seen(reader.value("seen")),
        refused = count(reader.value("refused")),
        current = used(reader.value("current")),
        previous = used(reader.value("previous")),
    )
    reader.end()
    return installed
}

private fun seen(value: String): Seen? = pair(value)?.let { (release, digest) -> Seen(number(release), hash(digest)) }

private fun used(value: String): Used? = pair(value)?.let { (release, stored) -> Used(count(release), file(stored)) }

private fun pair(value: String): Pair<String, String>? {
    if (value == NONE) return null
    val space = value.indexOf(' ')
    if (space < 0) throw MalformedRecord()
    return value.substring(0, space) to value.substring(space + 1)
}

/**
 * Replace the pointer file; the caller has claimed the directory. A kill at any moment leaves the old state or the new
 * one, whole.
 */
internal fun install(place: File, state: Installed) {
    write(place, POINTER, state.text)
}

/** Remove files that the pointer file does not name, and files of killed processes; the caller has claimed it. */
internal fun tidy(place: File, state: Installed) {
    val named = state.files
    for (file in place.listFiles().orEmpty()) {
        // A file that stays only takes space.
        if ((isKept(file.name) && file.name !in named) || isLeft(file.name)) file.delete()
    }
}

private fun isKept(name: String): Boolean =
    name.endsWith(ADAPTER_END) && isHexadecimal(name.removeSuffix(ADAPTER_END), HASH_DIGITS)

private fun isLeft(name: String): Boolean {
    if (!name.startsWith(".") || !name.endsWith(".tmp")) return false
    val whole = name.substring(1, name.length - ".tmp".length)
    val of = whole.substringBeforeLast('.', "")
    return (of == POINTER || isKept(of)) && isHexadecimal(whole.substringAfterLast('.'), RANDOM_DIGITS)
}

/** Put an adapter into a directory where it is absent or damaged; the pointer file does not change. */
internal fun keep(place: File, data: ByteArray): StoredFile {
    val file = StoredFile.of(data)
    if (kept(place, file) == null) write(place, file.sha256 + ADAPTER_END, data)
    return file
}

/** The bytes of an adapter in a directory; null where it is absent or damaged. */
internal fun kept(place: File, file: StoredFile): ByteArray? {
    val data = try {
        readWhole(File(place, file.sha256 + ADAPTER_END), file.size)
    } catch (_: IOException) {
        return null
    }
    return if (StoredFile.of(data) == file) data else null
}

/** Use the previous adapter again. The release of the present adapter is not taken again by itself. */
internal fun rollBack(place: File): Installed = claimedDirectory(place) {
    val state = readInstalled(place)
    val current = state?.current ?: throw SyncException(
        "absent",
        "$place has no adapter in use, so there is nothing before it",
        "pull one first",
    )
    val rolled = state.copy(
        current = state.previous,
        previous = current,
        refused = maxOf(state.refused, current.number),
    )
    install(place, rolled)
    tidy(place, rolled)
    rolled
}

/** Lock a directory for this process while [work] runs; make it if it is absent. */
internal fun <T> claimedDirectory(place: File, work: () -> T): T {
    val claim = try {
        claim(place)
    } catch (_: ClaimException) {
        throw SyncException("in_use", "another process is pulling into $place", "wait for it, or give another directory")
    } catch (error: IOException) {
        throw unwritable(place, error)
    }
    return claim.use { work() }
}

private fun write(place: File, name: String, data: ByteArray) {
    try {
        writeAtomically(File(place, name), data)
    } catch (error: IOException) {
        throw unwritable(place, error)
    }
}

internal fun unwritable(place: File, error: IOException): SyncException = SyncException(
    "unwritable",
    "$place cannot be written (${reason(error)})",
    "make room, or give another directory",
)
