package io.omnidraft.traces

import io.omnidraft.TraceFileException
import io.omnidraft.conformance.ROOT
import io.omnidraft.disk.crc32
import io.omnidraft.disk.u32
import io.omnidraft.support.randomSegment
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import kotlin.random.Random

/** Changed files: each is refused by a named fault, or read; nothing else is thrown. */
class TraceFuzzTest {
    private val names = setOf(
        "not_a_trace", "truncated", "version", "checksum", "reserved", "limits", "kind", "length", "number", "id_range",
        "counts", "mass", "order", "position",
    )

    @Test
    fun `ten thousand changed files are refused by name or read right`() {
        val random = Random(20_261_122)
        val given = List(40) { encode(randomSegment(Random(it))) } +
            File(ROOT, "trace/valid").listFiles { file -> file.name.endsWith(".bin") }!!.map { it.readBytes() }
        val faults = HashMap<String, Int>()
        repeat(FILES) {
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            val changed = changed(given.random(random), random).let { if (random.nextInt(8) == 0) it else summed(it) }
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

    private fun changed(data: ByteArray, random: Random): ByteArray {
        var changed = data.copyOf()
        repeat(1 + random.nextInt(2)) { changed = changedOnce(changed, random) }
        return changed
    }

    private fun changedOnce(data: ByteArray, random: Random): ByteArray {
        if (data.isEmpty()) return data
        val at = random.nextInt(data.size)
        when (random.nextInt(8)) {
            0 -> data[at] = random.nextInt().toByte()
            1 -> data[at] = (data[at].toInt() xor (1 shl random.nextInt(8))).toByte()
            2 -> data[at] = listOf(0, 1, -1, 127, -128).random(random).toByte()
            3 -> data[at] = (data[at] + 1).toByte()
            4 -> for (i in at until minOf(at + 4, data.size)) data[i] = listOf(0, -1).random(random).toByte()
            5 -> return data.copyOf(at)
            6 -> return data.copyOf(at) + data.copyOfRange(minOf(data.size, at + 1 + random.nextInt(8)), data.size)
            else -> return data.copyOf(at) + random.nextBytes(1 + random.nextInt(8)) + data.copyOfRange(at, data.size)
        }
        return data
    }

    /** The file with right checksums, as far as its lengths lead; the length of the last entry is made to fit. */
    private fun summed(data: ByteArray): ByteArray {
        val file = data.copyOf()
        if (file.size < HEADER_BYTES) return file
        put(file, HEADER_BYTES - 4, crc32(file, 0, HEADER_BYTES - 4))
        var at = HEADER_BYTES
        while (file.size - at >= FRAME_BYTES) {
            if (u32(file, at) > file.size - at - FRAME_BYTES) put(file, at, (file.size - at - FRAME_BYTES).toLong())
            val end = at + FRAME_BYTES + u32(file, at).toInt()
            put(file, end - 4, crc32(file, at, end - 4))
            at = end
        }
        return file
    }

    private fun put(data: ByteArray, at: Int, number: Long) {
        for (i in 0 until 4) data[at + i] = (number ushr (8 * i)).toByte()
    }

    private companion object {
        const val FILES = 10_000
        const val READ = "read"
    }
}
