package io.omnidraft.sync

import io.omnidraft.Defaults
import io.omnidraft.SettingException
import io.omnidraft.SyncException

/*
 * The record of a device in a store: a short text that names all its files (spec/15-sync.md, push).
 *
 * A record has exactly one form in bytes, and the reader refuses every other input with a named fault.
 */

/** Bytes of the record of a push at most. */
internal const val MOST_PUSH_BYTES = Defaults.SYNC_MAX_PUSH_BYTES

private const val PUSH_VERSION = "1"
private const val PUSH_TITLE = "omnidraft.push "
private const val MOST_DEVICE = 64
private const val SEGMENT_START = "trace-"
private const val SEGMENT_DIGITS = 10
private const val SEGMENT_END = ".odt"

/** A segment of a trace: its name and its file. */
internal data class PushedTrace(val name: String, val file: StoredFile)

/**
 * The files of a device in a store.
 *
 * @property device name of the device.
 * @property channel the pair of models.
 * @property created ISO 8601 in UTC.
 * @property accepted target tokens that the device's drafts proposed and the target accepted; the weight of its
 *   adapter.
 * @property adapter the device's own; null for none.
 * @property cache the device's own; null for none.
 * @property traces name and file of each segment, by ascending name.
 */
internal data class Push(
    val device: String,
    val channel: Channel,
    val created: String,
    val accepted: Long,
    val adapter: StoredFile? = null,
    val cache: StoredFile? = null,
    val traces: List<PushedTrace> = emptyList(),
)

/**
 * The name, if it is a valid name of a device.
 *
 * @throws SettingException the name is not valid.
 */
internal fun checkDevice(name: String): String {
    if (!isDevice(name)) {
        throw SettingException(
            "device name \"${name.take(80)}\" is not 1 to 64 letters, digits, dots, hyphens and underscores that " +
                "begin with a letter or digit",
            "give another one",
            "device",
        )
    }
    return name
}

/** The bytes of a record. */
internal fun encodePush(push: Push): ByteArray {
    val text = StringBuilder("$PUSH_TITLE$PUSH_VERSION\ndevice ${push.device}\n${push.channel.lines}")
    text.append("created ${push.created}\naccepted ${push.accepted}\n")
    text.append("adapter ${shownFile(push.adapter)}\ncache ${shownFile(push.cache)}\n")
    for (trace in push.traces) text.append("trace ${trace.name} ${trace.file}\n")
    return ascii(text.toString())
}

/**
 * Parse the bytes of a record.
 *
 * @throws SyncException `not_a_push`, `version`, `malformed` or `too_large`.
 */
internal fun decodePush(data: ByteArray): Push {
    checkTitle(data)
    val push = try {
        if (data.size > MOST_PUSH_BYTES) throw MalformedRecord()
        parsePush(RecordReader(data))
    } catch (_: MalformedRecord) {
        throw SyncException("malformed", "the push is not written as spec/15-sync.md says", "let the device push again")
    }
    val sizes = listOfNotNull(push.adapter, push.cache).map { it.size } + push.traces.map { it.file.size }
    if (sizes.any { it > MAX_FILE }) {
        throw SyncException("too_large", "the push has a file of more than $MAX_FILE bytes", "leave it out")
    }
    return push
}

private fun checkTitle(data: ByteArray) {
    val line = firstLine(data, PUSH_TITLE.length + 20)
    if (!line.startsWith(PUSH_TITLE)) {
        throw SyncException("not_a_push", "the file is not the record of a push", "let the device push again")
    }
    if (line != PUSH_TITLE + PUSH_VERSION) {
        throw SyncException("version", "the push has another format version", "update omnidraft")
    }
}

private fun parsePush(reader: RecordReader): Push {
    reader.line(PUSH_TITLE + PUSH_VERSION)
    val device = reader.value("device")
    if (!isDevice(device)) throw MalformedRecord()
    val push = Push(
        device = device,
        channel = reader.channel(),
        created = time(reader.value("created")),
        accepted = count(reader.value("accepted")),
        adapter = fileOrNone(reader.value("adapter")),
        cache = fileOrNone(reader.value("cache")),
        traces = traces(reader),
    )
    reader.end()
    return push
}

private fun traces(reader: RecordReader): List<PushedTrace> {
    val found = ArrayList<PushedTrace>()
    while (true) {
        val value = reader.valueOrNull("trace") ?: return found
        val space = value.indexOf(' ')
        if (space < 0 || !isSegment(value.substring(0, space))) throw MalformedRecord()
        val trace = PushedTrace(value.substring(0, space), file(value.substring(space + 1)))
        if (found.isNotEmpty() && found.last().name >= trace.name) throw MalformedRecord()
        found.add(trace)
    }
}

private fun isDevice(name: String): Boolean =
    name.length in 1..MOST_DEVICE && isLetterOrDigit(name[0]) && name.all { isLetterOrDigit(it) || it in "._-" }

private fun isLetterOrDigit(char: Char): Boolean = char in 'A'..'Z' || char in 'a'..'z' || char in '0'..'9'

private fun isSegment(name: String): Boolean {
    if (name.length != SEGMENT_START.length + SEGMENT_DIGITS + SEGMENT_END.length) return false
    val digits = name.substring(SEGMENT_START.length, SEGMENT_START.length + SEGMENT_DIGITS)
    return name.startsWith(SEGMENT_START) && name.endsWith(SEGMENT_END) && digits.all { it in '0'..'9' }
}

/** The text before the first newline, of the first [most] bytes. */
internal fun firstLine(data: ByteArray, most: Int): String {
    val text = String(data, 0, minOf(data.size, most), Charsets.ISO_8859_1)
    return text.substringBefore('\n')
}
