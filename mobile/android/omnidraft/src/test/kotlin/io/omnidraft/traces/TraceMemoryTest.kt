package io.omnidraft.traces

import io.omnidraft.support.SMALL_PAIR
import io.omnidraft.support.TraceValues
import io.omnidraft.support.numberedRound
import io.omnidraft.vocab.IntList
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** Traces in memory: what is taken is gone, and a generation that goes on does so in another record. */
class TraceMemoryTest {
    private val pair = Vocabularies("d".repeat(64), "e".repeat(64), 4000, 60_000)

    private fun record(memory: TraceMemory, first: Int, count: Int, at: SegmentPlace? = null): SegmentPlace? {
        var place = at
        for (number in first until first + count) {
            val (skipped, context) = window(IntList().also { it.addAll(IntArray(2 * number) { 7 }) })
            val start = Start(null, null, 0.0, "trie", false, skipped, context)
            place = memory.append(numberedRound(number), place) { start }
        }
        return place
    }

    @Test
    fun `what is taken is gone, and what goes on begins another record`() {
        val memory = TraceMemory(pair)
        val one = record(memory, 1, 3)
        record(memory, 10, 2)
        assertEquals(listOf(3, 2), memory.take().map { it.rounds.size })
        assertEquals(emptyList<Traced>(), memory.take())
        record(memory, 4, 2, one)
        val rest = memory.take().single()
        assertEquals(listOf(true, 2, 8L), listOf(rest.start.continues, rest.rounds.size, rest.rounds[0].position))
    }

    @Test
    fun `a pause records nothing`() {
        val memory = TraceMemory(pair)
        memory.pause()
        assertNull(record(memory, 1, 1))
        memory.resume()
        record(memory, 2, 1)
        assertEquals(1, memory.take().size)
    }

    @Test
    fun `generations as the bytes of a segment are read as what they were`() {
        val memory = TraceMemory(SMALL_PAIR)
        val values = TraceValues(Random(3), SMALL_PAIR)
        repeat(4) {
            val start = values.start()
            memory.append(values.round(start.context.size.toLong()), null) { start }
        }
        val traces = memory.take()
        val segment = decode(segmentOf(traces, SMALL_PAIR, 7))
        assertEquals(7L, segment.header.number)
        val tokens = { each: Traced -> each.tokens.map { it.tokenId } }
        assertEquals(traces.map(tokens), segment.generations().map(tokens))
    }
}
