package io.omnidraft.traces

import io.omnidraft.TraceFileException
import io.omnidraft.disk.readWhole
import io.omnidraft.reason
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException

/* Read traces for training: one generation after another, from any number of files and devices. */

/** The end of a segment's name. */
internal const val SUFFIX = ".odt"

private const val PREFIX = "trace-"
private const val DIGITS = 10
private const val REMEDY = "delete it, or give a whole copy of it"
private val REMEDIES = mapOf(
    "not_a_trace" to "check the path",
    "unreadable" to "check the path and its permissions",
    "version" to "update omnidraft",
    "foreign_vocabulary" to "use it with the pair of models that it was recorded with",
)

/**
 * All generations of some traces, the oldest of each first. One segment at a time is in memory.
 *
 * Torn bytes at the end of a segment are skipped. So is a segment that a recording session deletes meanwhile to make
 * room. The sequence throws a [TraceFileException] with the name of the fault, the file and the remedy.
 *
 * @param places directories of traces, single segments, or both.
 * @param vocabularies of the models to train; null accepts any.
 */
internal fun readTraces(places: List<File>, vocabularies: Vocabularies? = null): Sequence<Traced> = sequence {
    for (place in places) {
        for ((_, segment) in readSegments(place, vocabularies)) yieldAll(segment.generations())
    }
}

/** The segments of one trace with their files; it throws as [readTraces] does. */
internal fun readSegments(place: File, vocabularies: Vocabularies? = null): Sequence<Pair<File, Segment>> = sequence {
    val files = if (place.isDirectory) listed(place) else listOf(place)
    if (files.isEmpty()) throw TraceFileException("not_a_trace", "$place holds no trace", "check the path")
    for (file in files) {
        val segment = checked(file, place, vocabularies)
        if (segment != null) yield(file to segment)
    }
}

/** The segment of a file; null where the recording session deleted it to make room. */
private fun checked(file: File, place: File, vocabularies: Vocabularies?): Segment? = try {
    read(file).also { vocabularies?.check(it.header.vocabularies) }
} catch (_: FileNotFoundException) {
    if (place.isDirectory) null else throw absent(file)
} catch (error: TraceFileException) {
    val remedy = REMEDIES[error.fault] ?: REMEDY
    throw TraceFileException(error.fault, "$file is refused: ${error.message}", remedy)
}

private fun listed(place: File): List<File> = try {
    segmentsOf(place)
} catch (error: IOException) {
    throw TraceFileException("unreadable", "$place is refused: ${reason(error)}", REMEDIES.getValue("unreadable"))
}

private fun absent(file: File) = TraceFileException(
    "unreadable",
    "the trace $file does not exist",
    "give a directory that a session with a trace recorded in",
)

private fun read(file: File): Segment = try {
    decode(readWhole(file, MAX_SEGMENT_BYTES))
} catch (error: FileNotFoundException) {
    throw error
} catch (error: IOException) {
    throw TraceFileException("unreadable", "it cannot be read (${reason(error)})")
}

/** The segments in a directory, by number. */
internal fun segmentsOf(directory: File): List<File> {
    val files = directory.listFiles() ?: throw IOException("the directory cannot be listed")
    return files.filter { isSegmentName(it.name) && it.isFile }.sortedBy { it.name }
}

internal fun nameOf(number: Long): String = PREFIX + number.toString().padStart(DIGITS, '0') + SUFFIX

internal fun numberOf(file: File): Long = file.name.removePrefix(PREFIX).removeSuffix(SUFFIX).toLong()

private fun isSegmentName(name: String): Boolean {
    val digits = name.removePrefix(PREFIX).removeSuffix(SUFFIX)
    return digits.length == DIGITS && digits.all { it in '0'..'9' } && name == PREFIX + digits + SUFFIX
}
