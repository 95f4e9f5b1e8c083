package io.omnidraft.traces

import io.omnidraft.Defaults.TRACE_LEAST_BYTES as LEAST_BYTES
import io.omnidraft.Defaults.TRACE_SEGMENTS as SEGMENTS
import io.omnidraft.SettingException
import io.omnidraft.TraceFileException
import io.omnidraft.support.numberedRound
import io.omnidraft.vocab.IntList
import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/** Traces on disk: bounded, private, claimed by one, killed at any moment, wiped without a loss to others. */
class TraceStoreTest {
    @TempDir
    lateinit var place: File

    private val path get() = File(place, "t")

    private fun open(path: File = this.path) = TraceStore(path, PAIR, LEAST_BYTES.toLong())

    private fun record(store: TraceStore, first: Int, count: Int, at: SegmentPlace? = null): SegmentPlace? {
        var place = at
        for (number in first until first + count) {
            val (skipped, context) = window(IntList().also { it.addAll(IntArray(2 * number) { 7 }) })
            val start = Start(null, null, "trie", false, skipped, context)
            place = store.append(numberedRound(number), place) { start }
        }
        return place
    }

    private fun numbers(path: File = this.path): List<Int> =
        readTraces(listOf(path), PAIR).flatMap { it.rounds }.map { it.tokens[0].tokenId }.toList()

    private fun refusal(path: File = this.path, pair: Vocabularies = PAIR): TraceFileException {
        val error = assertThrows(TraceFileException::class.java) { TraceStore(path, pair) }
        assertTrue(path.path in error.message.orEmpty(), error.message)
        return error
    }

    @Test
    fun `rounds come back in order and records are told apart`() {
        val store = open()
        record(store, 1, 5)
        record(store, 6, 3)
        assertEquals(listOf(5, 3), readTraces(listOf(path)).map { it.rounds.size }.toList())
        store.close()
        assertNull(record(store, 9, 1), "it is closed")
        store.close()
        open().use { record(it, 9, 1) } // goes on with the same file
        assertEquals((1..9).toList(), numbers())
        assertEquals(1, segmentsOf(path).size)
    }

    @Test
    fun `the ring keeps its bound and the latest`() {
        var at: SegmentPlace? = null
        var last = 0
        open().use { store ->
            repeat(60) {
                at = record(store, last + 1, 200, at)
                last += 200
                val sizes = segmentsOf(path).map { it.length() }
                assertTrue(sizes.sum() <= LEAST_BYTES && sizes.max() <= LEAST_BYTES / SEGMENTS)
            }
        }
        val recorded = numbers()
        assertTrue(recorded[0] > 1, "nothing was dropped")
        assertEquals((recorded[0]..last).toList(), recorded)
        assertTrue(segmentsOf(path).sumOf { it.length() } > LEAST_BYTES * 3 / 4)
        // Each segment can be read alone, and says that its first record goes on.
        for ((file, segment) in readSegments(path)) {
            assertTrue(segment.generations().all { it.start.continues })
            assertEquals(1, readTraces(listOf(file), PAIR).count())
        }
    }

    @Test
    fun `a torn end stays and recording goes on behind it`() {
        open().use { record(it, 1, 4) }
        val file = segmentsOf(path).single()
        val torn = file.readBytes().let { it.copyOf(it.size - 5) }
        file.writeBytes(torn)
        open().use { record(it, 9, 1) }
        assertEquals(listOf(1, 2, 3, 9), numbers())
        assertArrayEquals(torn, file.readBytes(), "what was there was changed")
        assertEquals(listOf(true, false), readSegments(path).map { it.second.torn > 0 }.toList())
    }

    @Test
    fun `wherever a kill cuts off a write, the rounds before it are read and recording goes on`() {
        open().use { record(it, 1, 3) }
        val file = segmentsOf(path).single()
        val whole = file.readBytes()
        val before = scan(whole).let { it.ends[it.count - 1] } // of the last round
        for (length in before until whole.size) {
            file.writeBytes(whole.copyOf(length))
            assertEquals(listOf(1, 2), numbers(), "cut at $length")
            open().use { assertNotNull(record(it, 9, 1)) }
            assertEquals(listOf(1, 2, 9), numbers(), "cut at $length")
            segmentsOf(path).drop(1).forEach { assertTrue(it.delete()) }
        }
    }

    @Test
    fun `a damaged file is refused by name and recording goes on`() {
        open().use { record(it, 1, 4) }
        val file = segmentsOf(path).single()
        file.writeBytes(file.readBytes().also { it[150] = (it[150].toInt() xor 1).toByte() })
        open().use { record(it, 9, 1) }
        val error = assertThrows(TraceFileException::class.java) { numbers() }
        assertEquals("checksum", error.fault)
        assertTrue(file.name in error.message.orEmpty())
        assertEquals(listOf(9), numbers(segmentsOf(path)[1]))
    }

    @Test
    fun `a place in use is refused`() {
        open().use { store ->
            record(store, 1, 1)
            assertEquals("in_use", refusal().fault)
        }
        open().close()
    }

    @Test
    fun `files are their owner's alone`() {
        open().use { record(it, 1, 1) }
        fun mode(file: File) = PosixFilePermissions.toString(Files.getPosixFilePermissions(file.toPath()))
        assertEquals("rwx------", mode(path))
        assertEquals("rw-------", mode(segmentsOf(path).single()))
    }

    @Test
    fun `wiping takes segments only`() {
        val store = open()
        record(store, 1, 3)
        val others = mapOf("notes.txt" to "mine", "trace-0000000009.odt" to "no trace", "trace-9.odt" to "another")
        for ((name, text) in others) File(path, name).writeText(text)
        assertEquals(1, store.wipe()) // while it records, and it goes on
        record(store, 4, 1)
        // A number behind that of the file that is none of ours.
        assertEquals(listOf(9L, 10L), segmentsOf(path).map { numberOf(it) })
        assertEquals(1, store.wipe())
        store.close()
        assertEquals(others, path.listFiles()!!.associate { it.name to it.readText() })
    }

    @Test
    fun `generations that a wipe interrupts go on in records of their own`() {
        open().use { store ->
            val (first, second) = record(store, 1, 1) to record(store, 2, 1)
            store.wipe()
            record(store, 3, 1, first)
            record(store, 4, 1, second)
            record(store, 5, 1)
        }
        val read = readTraces(listOf(path), PAIR).toList()
        val tokens = read.map { each -> each.rounds.map { it.tokens[0].tokenId } }
        assertEquals(listOf(listOf(3), listOf(4), listOf(5)), tokens)
        assertEquals(listOf(true, true, false), read.map { it.start.continues })
    }

    @Test
    fun `other vocabularies are refused`() {
        open().use { record(it, 1, 1) }
        for (other in listOf(
            PAIR.copy(draftFingerprint = "a".repeat(64)), PAIR.copy(targetFingerprint = "a".repeat(64)),
            PAIR.copy(draftSize = 9), PAIR.copy(targetSize = 9),
        )) {
            assertEquals("foreign_vocabulary", refusal(pair = other).fault)
            val error = assertThrows(TraceFileException::class.java) { readTraces(listOf(path), other).count() }
            assertEquals("foreign_vocabulary", error.fault)
        }
        assertEquals(listOf(1), numbers())
    }

    @Test
    fun `places that cannot be recorded in`() {
        val file = File(place, "file").also { it.writeText("mine") }
        for (each in listOf(file, File(place, "no/where"))) assertEquals("unwritable", refusal(each).fault)
        assertEquals("mine", file.readText())
        assertThrows(SettingException::class.java) { TraceStore(path, PAIR, 5) }
        val faults = listOf(File(place, "absent"), file, place).map { each ->
            assertThrows(TraceFileException::class.java) { readTraces(listOf(each)).count() }.fault
        }
        assertEquals(listOf("unreadable", "not_a_trace", "not_a_trace"), faults)
    }

    @Test
    fun `a file that is too large is not read`() {
        open().use { record(it, 1, 1) }
        val file = segmentsOf(path).single()
        file.appendBytes(ByteArray((MAX_SEGMENT_BYTES - file.length()).toInt() + 1))
        val error = assertThrows(TraceFileException::class.java) { numbers() }
        assertEquals("unreadable", error.fault)
    }

    @Test
    fun `a directory that is gone ends the recording and nothing else`() {
        val store = open()
        path.deleteRecursively()
        assertNull(record(store, 1, 1))
        assertTrue("recording stopped" in store.problem.orEmpty(), store.problem)
        assertFalse(store.isRecording)
        assertNull(record(store, 2, 1))
        assertEquals("unwritable", assertThrows(TraceFileException::class.java) { store.wipe() }.fault)
        store.close()
    }

    @Test
    fun `no segment is written through a link`() {
        open().use { record(it, 1, 1) }
        val file = segmentsOf(path).single()
        val elsewhere = File(place, "elsewhere")
        assertTrue(file.renameTo(elsewhere))
        val before = elsewhere.readBytes()
        Files.createSymbolicLink(file.toPath(), elsewhere.toPath())
        assertEquals("unwritable", refusal().fault)
        assertArrayEquals(before, elsewhere.readBytes())
    }

    @Test
    fun `sessions in several threads may share a store`() {
        open().use { store ->
            val threads = List(4) { Thread { record(store, 1, 300) } }
            threads.forEach { it.start() }
            threads.forEach { it.join() }
        }
        val records = readTraces(listOf(path), PAIR).toList()
        assertEquals(1200, records.sumOf { it.rounds.size })
        assertEquals(4, records.count { !it.start.continues })
    }

    @Test
    fun `a pause records nothing`() {
        open().use { store ->
            val at = record(store, 1, 2)
            store.pause()
            assertFalse(store.isRecording)
            assertNull(record(store, 3, 1, at))
            store.resume()
            record(store, 4, 1, at)
        }
        assertEquals(listOf(1, 2, 4), numbers())
    }

    private companion object {
        val PAIR = Vocabularies("d".repeat(64), "e".repeat(64), 4000, 60_000)
    }
}
