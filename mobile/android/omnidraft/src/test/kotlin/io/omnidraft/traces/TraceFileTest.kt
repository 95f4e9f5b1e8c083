package io.omnidraft.traces

import io.omnidraft.TraceFileException
import io.omnidraft.conformance.ROOT
import io.omnidraft.support.SMALL_PAIR
import io.omnidraft.support.randomSegment
import io.omnidraft.support.segmentOf
import java.io.File
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The file of a trace: one way to write it, and one name for each way to spoil it. */
class TraceFileTest {
    private fun fault(data: ByteArray): String = assertThrows(TraceFileException::class.java) { decode(data) }.fault

    @Test
    fun `what is written is read`() {
        for (seed in 0 until 300) {
            val wide = Vocabularies("1".repeat(64), "2".repeat(64), 1L shl 31, (1L shl 16) + 1)
            val segment = randomSegment(Random(seed), pair = if (seed % 2 == 0) SMALL_PAIR else wide)
            val data = encode(segment)
            val decoded = decode(data)
            assertArrayEquals(data, encode(decoded), "seed $seed")
            assertEquals(0, decoded.torn)
            assertEquals(segment.frames.count { it.content is TracedRound }, decoded.generations().sumOf { it.rounds.size })
        }
    }

    @Test
    fun `a torn end loses the last entry only`() {
        val segment = randomSegment(Random(1))
        val ends = (0..segment.frames.size).map { encode(Segment(segment.header, segment.frames.take(it))).size }
        val data = encode(segment)
        for (length in HEADER_BYTES until data.size) {
            val decoded = decode(data.copyOf(length))
            val whole = ends.last { it <= length }
            assertArrayEquals(data.copyOf(whole), encode(decoded), "cut at $length")
            assertEquals(length - whole, decoded.torn)
            // Zeros, as some file systems leave them after a power cut.
            val padded = encode(decode(data.copyOf(length).copyOf(data.size)))
            assertTrue(padded.size >= whole && padded.contentEquals(data.copyOf(padded.size)), "zeros from $length on")
        }
    }

    @Test
    fun `every beginning of a header is refused`() {
        val data = encode(randomSegment(Random(2)))
        for (length in 0 until HEADER_BYTES) {
            assertEquals(if (length < MAGIC.size) "not_a_trace" else "truncated", fault(data.copyOf(length)))
        }
    }

    @Test
    fun `every flipped bit is refused, or the end is left out`() {
        val data = File(ROOT, "trace/valid/example.bin").readBytes()
        val second = HEADER_BYTES + FRAME_BYTES + data[HEADER_BYTES]
        for (bit in 0 until 8 * data.size) {
            val spoiled = data.copyOf()
            spoiled[bit / 8] = (spoiled[bit / 8].toInt() xor (1 shl bit % 8)).toByte()
            val byte = bit / 8
            when {
                byte < HEADER_BYTES -> assertTrue(fault(spoiled) in setOf("not_a_trace", "version", "checksum"))
                // A round follows, so this was no broken write.
                byte in HEADER_BYTES + 4 until second -> assertEquals("checksum", fault(spoiled))
                else -> assertEquals(data.size - (if (byte < second) HEADER_BYTES else second), decode(spoiled).torn)
            }
        }
    }

    @Test
    fun `an id of 31 bits and more is outside every vocabulary`() {
        for (wide in listOf(Int.MIN_VALUE, -1)) { // 2^31 and 2^32 - 1
            val pair = Vocabularies("1".repeat(64), "2".repeat(64), 9, 70_000)
            val listed = Masses(intArrayOf(wide), floatArrayOf(0.5f), 0.5)
            val nothing = Masses(IntArray(0), FloatArray(0), 1.0)
            val token = TracedToken(6, 0.5, false, listed, nothing, 0.0)
            val start = Start(null, null, "trie", false, 0, IntArray(0))
            val traced = Traced(start, listOf(TracedRound(listOf(token))))
            assertEquals("id_range", fault(segmentOf(listOf(traced), pair, 1)))
        }
    }
}
