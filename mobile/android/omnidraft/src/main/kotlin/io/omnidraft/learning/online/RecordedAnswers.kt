package io.omnidraft.learning.online

import io.omnidraft.TraceFileException
import io.omnidraft.reason
import io.omnidraft.traces.Segment
import io.omnidraft.traces.Traced
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.nameOf
import io.omnidraft.traces.numberOf
import io.omnidraft.traces.readSegments
import io.omnidraft.traces.segmentsOf
import java.io.File
import java.io.IOException

internal class FoundRecord(val segment: Long, val record: Long, val traced: Traced)

/** The answers in a trace's directory, which a session may append to and delete from meanwhile. */
internal class RecordedAnswers(private val place: File, private val vocabularies: Vocabularies) {
    /**
     * The records behind a place, in order. One segment at a time is in memory.
     *
     * @param read the last record that was taken; null takes all. A trace that was started again is read from its
     *   beginning.
     * @param isGrowing whether the last record is left out, because a session still appends to it.
     * @throws TraceFileException a segment is refused.
     */
    fun since(read: AnswerPlace?, isGrowing: Boolean): Sequence<FoundRecord> = sequence {
        val numbers = numbers()
        val last = numbers.lastOrNull() ?: return@sequence
        val from = read?.takeIf { it.segment <= last }
        for (number in numbers) {
            if (from != null && number < from.segment) continue
            val generations = segment(number)?.generations() ?: continue
            val first = if (from != null && number == from.segment) from.record + 1 else 0L
            val end = generations.size - if (isGrowing && number == last) 1 else 0
            for (record in first until end) yield(FoundRecord(number, record, generations[record.toInt()]))
        }
    }

    /** A segment; null where it was deleted to make room. */
    fun segment(number: Long): Segment? {
        val file = File(place, nameOf(number))
        return if (file.exists()) readSegments(file, vocabularies).firstOrNull()?.second else null
    }

    private fun numbers(): List<Long> = try {
        if (place.isDirectory) segmentsOf(place).map { numberOf(it) } else emptyList()
    } catch (error: IOException) {
        throw TraceFileException("unreadable", "$place cannot be read (${reason(error)})", "check the path")
    }
}
