package io.omnidraft.traces

import io.omnidraft.Defaults
import io.omnidraft.Defaults.TRACE_LEAST_BYTES as LEAST_BYTES
import io.omnidraft.SettingException
import io.omnidraft.TraceFileException
import io.omnidraft.disk.Claim
import io.omnidraft.disk.pathOf
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.reason
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.nio.file.Files

/*
 * A trace on disk: a directory of segments, of which the oldest is deleted to make room.
 *
 * Segments are only appended to, with one write per round. A killed process loses the current round; a machine that
 * loses power loses the rounds since the last flush.
 */

/** Where a record continues: the number of the segment, and of the record in it. */
internal data class SegmentPlace(val segment: Long, val record: Long)

/**
 * Records generations in a directory; nothing is sent anywhere.
 *
 * One process and one store at a time record in a directory; any number of sessions and threads may share the store.
 *
 * @throws TraceFileException `in_use`, `unwritable`, `version`, or `foreign_vocabulary` (another pair's).
 * @throws SettingException [maxBytes] is too small.
 */
internal class TraceStore(
    private val path: File, // the directory; it is made, for its owner alone, where it is absent
    private val vocabularies: Vocabularies,
    private val maxBytes: Long = Defaults.TRACE_MAX_BYTES.toLong(),
) : AutoCloseable {
    /** Why recording stopped, in one sentence; null while it works. */
    @Volatile
    var problem: String? = null
        private set

    @Volatile
    private var paused = false

    @Volatile
    private var claim: Claim?
    private var segment: OpenSegment? = null // that is written to
    private var last = 0L // number of the segment before it; records may still be at places of it

    init {
        if (maxBytes < LEAST_BYTES.toLong()) {
            throw SettingException("max_bytes $maxBytes is less than $LEAST_BYTES", "16 MB is usual", "max_bytes")
        }
        claim = try {
            claimForRecording(path)
        } catch (error: IOException) {
            throw unwritable(error)
        }
        try {
            continueLast()
        } catch (error: IOException) {
            close()
            throw unwritable(error)
        } catch (error: TraceFileException) {
            close()
            throw error
        }
    }

    val isRecording: Boolean get() = !paused && problem == null && claim != null

    /** Record nothing more until [resume]; from any thread. */
    fun pause() {
        paused = true
    }

    fun resume() {
        paused = false
    }

    /** Flush the records to the disk, and release the directory. A second call does nothing. */
    @Synchronized
    override fun close() {
        sync()
        leaveSegment()
        claim?.close()
        claim = null
    }

    /** Delete the records and nothing else; the store may go on recording. */
    @Synchronized
    fun wipe(): Int {
        leaveSegment()
        return try {
            removeSegments(path)
        } catch (error: IOException) {
            throw TraceFileException("unwritable", "$path cannot be wiped (${reason(error)})", "check the path")
        }
    }

    /**
     * Record a round. A full disk stops the recording, never the generation.
     *
     * @param at the value returned for the round before; null begins a record.
     * @param start makes the beginning of a record; called only if the round begins one.
     * @return where the record continues; null where nothing was recorded.
     */
    @Synchronized
    fun append(traced: TracedRound, at: SegmentPlace?, start: () -> Start): SegmentPlace? {
        if (!isRecording) return null
        return try {
            added(traced, at, start)
        } catch (error: IOException) {
            leaveSegment()
            problem = "recording stopped: $path cannot be written (${reason(error)})"
            null
        }
    }

    /** Make what was recorded reach the disk; called at the end of a generation. */
    @Synchronized
    fun sync() {
        try {
            segment?.sync()
        } catch (error: IOException) {
            problem = "recording stopped: $path cannot be flushed (${reason(error)})"
        }
    }

    private fun added(traced: TracedRound, at: SegmentPlace?, start: () -> Start): SegmentPlace? {
        val current = segment
        if (at != null && current != null && at.segment == current.number) {
            val data = encodeFrame(Frame(at.record, traced), vocabularies)
            if (current.size + data.size <= segmentBytes) {
                current.write(data)
                return at
            }
        }
        return begun(if (at == null) start() else start().continuing(), traced)
    }

    /** Write a new record and its first round. */
    private fun begun(start: Start, traced: TracedRound): SegmentPlace? {
        var current = segment
        var data = record(current?.records ?: 0, start, traced)
        if (current == null || current.size + data.size > segmentBytes) {
            if (HEADER_BYTES + data.size > segmentBytes) return null // larger than a segment, as no real round is
            current = newSegment()
            data = record(0, start, traced)
        }
        current.write(data)
        current.records += 1
        return SegmentPlace(current.number, current.records - 1)
    }

    private fun record(number: Long, start: Start, traced: TracedRound): ByteArray =
        encodeFrame(Frame(number, start), vocabularies) + encodeFrame(Frame(number, traced), vocabularies)

    private val segmentBytes: Long get() = minOf(maxBytes / Defaults.TRACE_SEGMENTS, MAX_SEGMENT_BYTES)

    /** Begin a segment, and delete the oldest, so that the bound holds when the new segment is full. */
    private fun newSegment(): OpenSegment {
        segment?.sync()
        leaveSegment()
        val number = 1 + maxOf(last, segmentsOf(path).maxOfOrNull { numberOf(it) } ?: 0)
        evict(path, maxBytes - segmentBytes)
        val data = encodeHeader(TraceHeader(vocabularies, number))
        val file = File(path, nameOf(number))
        writeAtomically(file, data)
        return OpenSegment(file, number, data.size.toLong(), 0).also { segment = it }
    }

    /** Check all segments, and continue the last one if it is whole and small enough. */
    private fun continueLast() {
        val segments = segmentsOf(path)
        for (each in segments) checkSegment(each, vocabularies)
        val last = segments.lastOrNull() ?: return
        val (size, records) = wholeSegment(last) ?: return
        if (size < segmentBytes) segment = OpenSegment(last, numberOf(last), size, records)
    }

    private fun leaveSegment() {
        try {
            segment?.close()
        } catch (error: IOException) {
            problem = "recording stopped: $path cannot be closed (${reason(error)})"
        }
        last = segment?.number ?: last
        segment = null
    }

    private fun unwritable(error: IOException) = TraceFileException(
        "unwritable",
        "no trace can be recorded in $path (${reason(error)})",
        "choose another place",
    )
}

/** Size and records of a segment that is whole; null of one that is torn, damaged or too large, which stays. */
private fun wholeSegment(file: File): Pair<Long, Long>? = try {
    val data = readWhole(file, MAX_SEGMENT_BYTES)
    decodeHeader(data)
    val scan = scan(data)
    val records = (0 until scan.count).count { kindOf(data, scan.ends[it]) == START }
    if (scan.torn == 0) Pair(data.size.toLong(), records.toLong()) else null
} catch (_: TraceFileException) {
    null
} catch (_: IOException) {
    null
}

/**
 * A segment that is appended to.
 *
 * A stream and no channel: an interrupt of the writing thread closes a channel, and recording would stop.
 */
private class OpenSegment(file: File, val number: Long, var size: Long, var records: Long) {
    private val stream: FileOutputStream
    private var unsynced = 0

    init {
        if (Files.isSymbolicLink(pathOf(file))) throw IOException("${file.name} is a link")
        stream = FileOutputStream(file, true)
    }

    /** Append with one write; the part that a full disk took is cut off again. */
    fun write(data: ByteArray) {
        try {
            stream.write(data)
        } catch (error: IOException) {
            stream.channel.truncate(size)
            throw error
        }
        size += data.size
        unsynced += 1
        if (unsynced >= Defaults.TRACE_SYNC_ROUNDS) sync()
    }

    fun sync() {
        if (unsynced > 0) stream.fd.sync()
        unsynced = 0
    }

    fun close() = stream.close()
}
