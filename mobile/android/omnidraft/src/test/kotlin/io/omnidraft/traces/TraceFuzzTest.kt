package io.omnidraft.traces

import io.omnidraft.TraceFileException
import io.omnidraft.disk.crc32
import io.omnidraft.disk.u32
import io.omnidraft.support.changedBytes
import io.omnidraft.support.checkChanged
import io.omnidraft.support.putU32
import io.omnidraft.support.randomSegment
import io.omnidraft.support.vectorFiles
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Test
import kotlin.random.Random

/** Changed files: each is refused by a named fault, or read; nothing else is thrown. */
class TraceFuzzTest {
    @Test
    fun `ten thousand changed files are refused by name or read right`() {
        val faults = setOf(
            "not_a_trace", "truncated", "version", "checksum", "reserved", "limits", "kind", "length", "number",
            "id_range", "counts", "mass", "order",
        )
        val random = Random(20_261_122)
        val given = List(40) { encode(randomSegment(Random(it))) } + vectorFiles("trace/valid", ".bin")
        checkChanged(given, random, faults, TraceFileException::class.java, least = 0.05) { given ->
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            val data = changedBytes(given, random).let { if (random.nextInt(8) == 0) it else summed(it) }
            val segment = decode(data)
            assertArrayEquals(data.copyOf(data.size - segment.torn), encode(segment), "written again, the file is another one")
        }
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
}
