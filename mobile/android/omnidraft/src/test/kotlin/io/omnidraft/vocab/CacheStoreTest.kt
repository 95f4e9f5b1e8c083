package io.omnidraft.vocab

import io.omnidraft.CacheFileException
import io.omnidraft.conformance.ROOT
import io.omnidraft.support.vectorMap
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

/** Caches on disk: read or started empty; a file of ours is replaced, any other file is kept. */
class CacheStoreTest {
    @TempDir
    lateinit var folder: File

    private val toy = vectorMap("toy")
    private val file get() = File(folder, "c")
    private val damaged = listOf("version_1.bin", "flipped_pieces.bin", "last_byte_missing.bin")
    private val foreign = "foreign_target.bin"

    private fun learned(): NgramCache = NgramCache(toy).also { it.learn(intArrayOf(FLAKE, FO), 1) }

    private fun put(name: String): ByteArray =
        File(ROOT, "cache/invalid/$name").readBytes().also { file.writeBytes(it) }

    private fun names(): List<String> = folder.list()!!.sorted()

    private fun faultOf(action: () -> Unit): String = assertThrows(CacheFileException::class.java) { action() }.fault

    @Test
    fun `a cache is saved and opened`() {
        val cache = learned()
        assertNull(writeCache(file, cache))
        val (opened, problem) = openCache(file, toy)
        assertNull(problem)
        assertEquals(cache.entries(), opened.entries())
        assertArrayEquals(file.readBytes(), encode(opened.table()))
        assertEquals(listOf("c"), names())
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file.toPath())))
    }

    @Test
    fun `no file is an empty cache and no problem`() {
        val (cache, problem) = openCache(file, toy, 7)
        assertEquals(listOf(0, null, 7), listOf(cache.size, problem, cache.capacity))
    }

    @Test
    fun `what becomes of a refused file is said`() {
        for ((name, after) in mapOf(
            "empty_file.bin" to "saving replaces it", "flipped_pieces.bin" to "saving keeps it under another name",
            "other_file.bin" to "it is left alone, and nothing is saved there",
            foreign to "it is left alone, and nothing is saved there",
        )) {
            put(name)
            val problem = openCache(file, toy).problem.orEmpty()
            assertTrue(problem.startsWith("starting with an empty cache: $file is refused: it"), problem)
            assertTrue(problem.endsWith("; $after") && '\n' !in problem, problem)
        }
    }

    @Test
    fun `a directory, a loop of links and a name of no file are unreadable`() {
        val loop = File(folder, "loop")
        Files.createSymbolicLink(loop.toPath(), loop.toPath())
        for (place in listOf(folder, loop, File(folder, "a\u0000b"))) {
            assertEquals("unreadable", faultOf { readTable(place) })
            assertTrue(openCache(place, toy).problem.orEmpty().contains("cannot be read"), place.path)
        }
    }

    @Test
    fun `a file that goes on is not read to its end`() {
        writeCache(file, learned())
        file.appendBytes(ByteArray(5))
        assertEquals("trailing_bytes", faultOf { readTable(file) })
    }

    @Test
    fun `what is not ours is left alone`() {
        for ((name, fault) in mapOf("other_file.bin" to "not_a_cache", foreign to "foreign_vocabulary")) {
            val data = put(name)
            assertEquals(fault, faultOf { writeCache(file, learned()) })
            assertArrayEquals(data, file.readBytes())
            assertEquals(listOf("c"), names())
        }
    }

    @Test
    fun `a damaged cache is put aside under a name of its own`() {
        val old = damaged.mapIndexed { number, name ->
            val data = put(name)
            val kept = File(folder, if (number == 0) "c.refused" else "c.refused-${number + 1}")
            assertEquals(kept.path, writeCache(file, learned())?.path)
            kept to data
        }
        for ((kept, data) in old) assertArrayEquals(data, kept.readBytes())
        assertNull(writeCache(file, learned()), "a cache of ours is replaced")
    }

    @Test
    fun `a table takes no other file's place`() {
        for (name in damaged + foreign + "other_file.bin") {
            val data = put(name)
            assertEquals("unwritable", faultOf { writeTable(file, learned().table()) })
            assertArrayEquals(data, file.readBytes())
        }
    }

    @Test
    fun `only a file is replaced`() {
        for (place in listOf(folder, File(folder, "no/file"), File(folder, "x".repeat(250)))) {
            assertEquals("unwritable", faultOf { writeCache(place, learned()) })
        }
        assertEquals(listOf<String>(), names())
    }

    @Test
    fun `a link is written through`() {
        val link = File(folder, "link")
        Files.createSymbolicLink(link.toPath(), file.toPath())
        writeCache(link, learned())
        writeCache(link, learned())
        assertTrue(Files.isSymbolicLink(link.toPath()) && file.isFile)
    }

    @Test
    fun `a file that no reader takes is not written`() {
        val table = learned().table()
        val many = object : IntTable() {
            override val size = 1 shl 25

            override fun get(index: Int): Int = -1 // in 4 bytes
        }
        val large = CacheTable(
            table.draftFingerprint, table.targetFingerprint, 1, many, table.spellings, many, many, many,
        )
        assertEquals("limits", faultOf { encode(large) })
    }

    private companion object {
        const val FLAKE = 5
        const val FO = 6
    }
}
