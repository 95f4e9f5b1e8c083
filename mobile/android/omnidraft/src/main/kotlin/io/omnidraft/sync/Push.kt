package io.omnidraft.sync

import io.omnidraft.Defaults
import io.omnidraft.SettingException
import io.omnidraft.SyncException
import io.omnidraft.TraceFileException
import io.omnidraft.bundle.publicKeyOf
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.reason
import io.omnidraft.traces.MAX_SEGMENT_BYTES
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.decode as decodeTrace
import io.omnidraft.traces.segmentsOf
import java.io.File
import java.io.IOException
import java.security.SecureRandom

/*
 * What a device shares: the parts that its user chose, in one file that the device signs (spec/15-sync.md).
 */

private const val SEED_BYTES = 32
private const val MILLISECONDS = 1000L

internal fun writePush(
    channel: Channel,
    adapter: ByteArray?, // the device's own; null for none
    cache: ByteArray?, // the device's own n-grams; null for none
    traces: List<ByteArray>,
    accepted: Long, // target tokens that the device's drafts proposed and the target accepted
    seed: ByteArray,
): ByteArray {
    val files = listOfNotNull(adapter, cache) + traces
    if (files.isEmpty()) {
        throw SettingException("nothing is to be sent", "choose an adapter, n-grams or traces", "parts")
    }
    val record = SignedRecord(
        SignedKind.PUSH, hexOf(publicKeyOf(seed)), channel, System.currentTimeMillis() / MILLISECONDS, utc(Defaults.SYNC_DAYS),
        accepted.coerceIn(0, LARGEST), adapter?.let { StoredFile.of(it) }, cache?.let { StoredFile.of(it) },
        traces.map { StoredFile.of(it) },
    )
    return writeSigned(record, files, seed)
}

/** The seed of this device's key; the first call makes it. */
internal fun deviceSeed(file: File): ByteArray {
    try {
        if (!file.exists()) writeAtomically(file, ByteArray(SEED_BYTES).also { SecureRandom().nextBytes(it) })
        val seed = readWhole(file, SEED_BYTES.toLong())
        if (seed.size == SEED_BYTES) return seed
    } catch (error: IOException) {
        throw unwritable(file, error)
    }
    throw SyncException("malformed", "$file is not the key of this device", "delete it, which makes a new identity")
}

internal fun segmentsIn(place: File, vocabularies: Vocabularies): List<ByteArray> {
    val files = try {
        segmentsOf(place)
    } catch (error: IOException) {
        throw TraceFileException("unreadable", "$place cannot be read (${reason(error)})", "check the path")
    }
    if (files.isEmpty()) throw TraceFileException("not_a_trace", "$place holds no trace", "record some text first")
    return files.map { segment(it, vocabularies) }
}

private fun segment(file: File, vocabularies: Vocabularies): ByteArray = try {
    val data = readWhole(file, MAX_SEGMENT_BYTES)
    vocabularies.check(decodeTrace(data).header.vocabularies)
    data
} catch (error: IOException) {
    throw TraceFileException("unreadable", "$file cannot be read (${reason(error)})")
} catch (error: TraceFileException) {
    throw TraceFileException(error.fault, "$file is refused: ${error.message}", "leave it out")
}
