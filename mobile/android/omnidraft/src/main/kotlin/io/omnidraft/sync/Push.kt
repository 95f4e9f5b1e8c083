package io.omnidraft.sync

import io.omnidraft.SettingException
import io.omnidraft.SyncException
import io.omnidraft.TraceFileException
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.models.Adapter
import io.omnidraft.models.encodeAdapter
import io.omnidraft.reason
import io.omnidraft.traces.MAX_SEGMENT_BYTES
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.decode as decodeTrace
import io.omnidraft.traces.segmentsOf
import io.omnidraft.vocab.CacheTable
import io.omnidraft.vocab.encode as encodeCache
import java.io.File
import java.io.IOException

/*
 * Write a push into a folder of this device (spec/15-sync.md, push). Nothing is sent: an app uploads the files with its
 * own means, in their order, so that the record comes last.
 *
 * Files are named by their SHA-256, so a push that was interrupted goes on where it stopped.
 */

private const val TRACE_END = ".odt"

/** A file to send. */
private class PushItem(val data: ByteArray, val end: String) {
    val file: StoredFile = StoredFile.of(data)
    val storedName: String = file.sha256 + end
}

/**
 * What a push holds; the user chose it.
 *
 * @property adapter the device's own; null for none.
 * @property cache the device's own n-grams; null for none.
 * @property traces directory whose segments are sent, word for word; null for none.
 * @property accepted target tokens that the device's drafts proposed and the target accepted; the weight of the
 *   adapter.
 */
internal class PushContents(
    val adapter: Adapter?,
    val cache: CacheTable?,
    val traces: File?,
    val accepted: Long,
)

/**
 * Write the files of a push, then its record.
 *
 * @param folder where the layout of a store begins; made if it is absent.
 * @param device name of the device.
 * @param channel of the bundle.
 * @param contents what is sent.
 * @param vocabularies of the bundle; a segment of other ones is refused.
 * @param now ISO 8601 in UTC.
 * @return the files in the order in which they are to be uploaded.
 * @throws SettingException the name is no name of a device, there is nothing to send, or a file is too large.
 * @throws TraceFileException a segment is refused.
 * @throws SyncException `unwritable`.
 */
internal fun writePush(
    folder: File,
    device: String,
    channel: Channel,
    contents: PushContents,
    vocabularies: Vocabularies,
    now: String = utc(),
): List<File> {
    checkDevice(device)
    val adapter = contents.adapter?.let { PushItem(encodeAdapter(it), ADAPTER_END) }
    val cache = contents.cache?.let { PushItem(encodeCache(it), CACHE_END) }
    val traces = contents.traces?.let { segments(it, vocabularies) } ?: emptyList()
    val items = listOfNotNull(adapter, cache) + traces.map { it.second }
    if (items.isEmpty()) {
        throw SettingException("nothing is to be sent", "choose an adapter, n-grams or traces", "parts")
    }
    items.firstOrNull { it.data.size > MAX_FILE }?.let {
        throw SettingException("a file has ${it.data.size} bytes, more than $MAX_FILE", "leave it out")
    }
    val record = Push(
        device, channel, now, contents.accepted.coerceIn(0, LARGEST), adapter?.file, cache?.file,
        traces.map { (name, item) -> PushedTrace(name, item.file) },
    )
    val place = File(folder, deviceFolder(channel, device))
    return written(place, items.distinctBy { it.storedName }, encodePush(record))
}

private fun written(place: File, items: List<PushItem>, record: ByteArray): List<File> = try {
    if (!place.isDirectory && !place.mkdirs()) throw IOException("the directory cannot be made")
    val files = items.map { item -> File(place, item.storedName).also { writeAtomically(it, item.data) } }
    val last = File(place, RECORD)
    writeAtomically(last, record)
    val named = files.map { it.name } + RECORD
    for (old in place.listFiles().orEmpty()) if (isStored(old.name) && old.name !in named) old.delete()
    files + last
} catch (error: IOException) {
    throw unwritable(place, error)
}

/** Whether a name is that of a file of an earlier push. */
private fun isStored(name: String): Boolean =
    listOf(ADAPTER_END, CACHE_END, TRACE_END).any { name.endsWith(it) && isHexadecimal(name.removeSuffix(it), 64) }

private fun segments(place: File, vocabularies: Vocabularies): List<Pair<String, PushItem>> {
    val files = try {
        segmentsOf(place)
    } catch (error: IOException) {
        throw TraceFileException("unreadable", "$place cannot be read (${reason(error)})", "check the path")
    }
    if (files.isEmpty()) throw TraceFileException("not_a_trace", "$place holds no trace", "record some text first")
    return files.map { it.name to segment(it, vocabularies) }
}

private fun segment(file: File, vocabularies: Vocabularies): PushItem = try {
    val data = readWhole(file, MAX_SEGMENT_BYTES)
    vocabularies.check(decodeTrace(data).header.vocabularies)
    PushItem(data, TRACE_END)
} catch (error: IOException) {
    throw TraceFileException("unreadable", "$file cannot be read (${reason(error)})")
} catch (error: TraceFileException) {
    throw TraceFileException(error.fault, "$file is refused: ${error.message}", "leave it out")
}
