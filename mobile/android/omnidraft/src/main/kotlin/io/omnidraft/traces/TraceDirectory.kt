package io.omnidraft.traces

import io.omnidraft.TraceFileException
import io.omnidraft.disk.Claim
import io.omnidraft.disk.ClaimException
import io.omnidraft.disk.claim
import io.omnidraft.disk.readFile
import io.omnidraft.disk.removeLeftovers
import java.io.File
import java.io.IOException

/* The directory of a trace: one writer at a time, a bound, and deletion of nothing but traces. */

/** Delete the segments in a directory and the leftovers of their writers. */
internal fun removeSegments(path: File): Int {
    var count = 0
    for (segment in segmentsOf(path)) {
        if (!isTrace(segment)) continue
        deleteFile(segment)
        count += 1 + removeLeftovers(segment)
    }
    return count
}

/** Claim a directory for this process; see [claim]. */
internal fun claimForRecording(path: File): Claim = try {
    claim(path)
} catch (_: ClaimException) {
    throw TraceFileException(
        "in_use",
        "a session is recording in $path",
        "end that session, or choose another directory",
    )
}

/** Refuse to record beside a segment of other vocabularies or versions; a damaged segment is skipped. */
internal fun checkSegment(path: File, vocabularies: Vocabularies) {
    try {
        vocabularies.check(decodeHeader(readFile(path, HEADER_BYTES)).vocabularies)
    } catch (error: TraceFileException) {
        if (error.fault != "foreign_vocabulary" && error.fault != "version") return
        throw TraceFileException(
            error.fault,
            "no trace can be recorded in ${path.parent}: of ${path.name}, ${error.message}",
            "choose another place for this pair of models",
        )
    }
}

/** Delete the oldest segments until the segments together have at most [room] bytes. */
internal fun evict(path: File, room: Long) {
    val segments = segmentsOf(path)
    var total = segments.sumOf { it.length() }
    for (segment in segments) {
        if (total <= room) return
        total -= segment.length()
        deleteFile(segment)
    }
}

private fun isTrace(path: File): Boolean = readFile(path, MAGIC.size).contentEquals(MAGIC)

private fun deleteFile(path: File) {
    if (!path.delete()) throw IOException("${path.name} cannot be deleted")
}
