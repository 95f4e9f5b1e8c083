package io.omnidraft.traces

import io.omnidraft.TraceFileException
import io.omnidraft.disk.crc32
import io.omnidraft.disk.u32
import io.omnidraft.support.changedBytes
import io.omnidraft.support.putU32
import io.omnidraft.support.randomSegment
import io.omnidraft.support.vectorFiles
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** Changed files: each is refused by a named fault, or read; nothing else is thrown. */
class TraceFuzzTest {
    private val names = setOf(
        "not_a_trace", "truncated", "version", "checksum", "reserved", "limits", "kind", "length", "number", "id_range",
        "counts", "mass", "order",
    )

    @Test
    fun `ten thousand changed files are refused by name or read right`() {
        val random = Random(20_261_122)
        val given = List(40) { encode(randomSegment(Random(it))) } +
            vectorFiles("trace/valid", ".bin")
        val faults = HashMap<String, Int>()
        repeat(FILES) {
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            val changed = changedBytes(given.random(random), random).let { if (random.nextInt(8) == 0) it else summed(it) }
            val fault = faultOf(changed)
            faults[fault] = 1 + (faults[fault] ?: 0)
        }
        assertTrue(faults.keys.containsAll(names), "some faults never came up: $faults")
        assertTrue(faults.getValue(READ) in FILES / 20..FILES / 2, "too few or too many were read: $faults")
    }

    private fun faultOf(data: ByteArray): String = try {
        val segment = decode(data)
        // What is read is written again in the same bytes.
        assertTrue(encode(segment).contentEquals(data.copyOf(data.size - segment.torn)))
        READ
    } catch (error: TraceFileException) {
        assertTrue(error.fault in names && !error.message.isNullOrEmpty(), "fault ${error.fault}: ${error.message}")
        error.fault
    }

    /** The file with right checksums, as far as its lengths lead; the length of the last entry is made to fit. */
    private fun summed(data: ByteArray): ByteArray {
        val file = data.copyOf()
        if (file.size < HEADER_BYTES) return file
        putU32(file, HEADER_BYTES - 4, crc32(file, 0, HEADER_BYTES - 4))
        var at = HEADER_BYTES
        while (file.size - at >= FRAME_BYTES) {
            if (u32(file, at) > file.size - at - FRAME_BYTES) putU32(file, at, (file.size - at - FRAME_BYTES).toLong())
            val end = at + FRAME_BYTES + u32(file, at).toInt()
            putU32(file, end - 4, crc32(file, at, end - 4))
            at = end
        }
        return file
    }

    private companion object {
        const val FILES = 10_000
        const val READ = "read"
    }
}
