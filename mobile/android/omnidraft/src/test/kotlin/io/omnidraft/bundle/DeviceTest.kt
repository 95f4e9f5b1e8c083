package io.omnidraft.bundle

import io.omnidraft.decoding.Costs
import io.omnidraft.device.CostsSource
import io.omnidraft.device.MOST_RECORDS
import io.omnidraft.device.MOST_RECORD_BYTES
import io.omnidraft.device.Measure
import io.omnidraft.device.StateDirectory
import io.omnidraft.device.deviceCosts
import io.omnidraft.device.keepCosts
import io.omnidraft.device.keptCosts
import io.omnidraft.device.readMachine
import io.omnidraft.device.rememberCheck
import io.omnidraft.device.stampOf
import io.omnidraft.device.thisMachine
import io.omnidraft.device.wasChecked
import io.omnidraft.session.CostsWatch
import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.FileTime
import java.nio.file.attribute.PosixFilePermissions
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** What a device remembers: records, stamps and costs. */
class DeviceTest {
    private val seal = "5e".repeat(32)
    private val here = thisMachine("1.23.0", 2, "cpu", "cpu")
    private val later = (System.currentTimeMillis() + 60_000) * 1_000_000

    @Test
    fun `a record comes back and a directory of others is not used`() = inDirectory { place ->
        val state = StateDirectory(File(place, "state"))
        assertNull(state.readRecord("kind", "key"))
        assertTrue(state.writeRecord("kind", "key", byteArrayOf(1, 2)))
        assertArrayEquals(byteArrayOf(1, 2), state.readRecord("kind", "key"))
        assertFalse(state.writeRecord("kind", "large", ByteArray(MOST_RECORD_BYTES + 1)))
        val kind = File(place, "state/kind").toPath()
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(kind)))
        Files.setPosixFilePermissions(kind, PosixFilePermissions.fromString("rwxr-x---"))
        assertNull(state.readRecord("kind", "key"))
        assertFalse(state.writeRecord("kind", "key", byteArrayOf(3)))
    }

    @Test
    fun `a directory behind a link, or that others can write, is not used`() = inDirectory { place ->
        val root = File(place, "state").toPath()
        val (state, elsewhere) = StateDirectory(root.toFile()) to File(place, "private").toPath()
        assertTrue(state.writeRecord("kind", "key", byteArrayOf(1)))
        fun assertUnused() {
            assertNull(state.readRecord("kind", "key"))
            assertFalse(state.writeRecord("kind", "key", byteArrayOf(2)))
        }
        Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwxrwx---"))
        assertUnused()
        Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwx------"))
        for (path in listOf(root.resolve("kind"), root)) {
            Files.move(path, elsewhere)
            Files.createSymbolicLink(path, elsewhere)
            assertUnused()
            Files.delete(path)
            Files.move(elsewhere, path)
        }
        assertArrayEquals(byteArrayOf(1), state.readRecord("kind", "key"))
    }

    @Test
    fun `nothing is remembered where there is no place`() = inDirectory { place ->
        assertFalse(StateDirectory.NONE.writeRecord("kind", "key", ByteArray(1)))
        assertNull(StateDirectory.NONE.readRecord("kind", "key"))
        val file = File(place, "file").also { it.writeText("x") }
        assertFalse(StateDirectory(File(file, "state")).writeRecord("kind", "key", ByteArray(1)))
    }

    @Test
    fun `the oldest records are deleted`() = inDirectory { place ->
        val state = StateDirectory(place)
        fun key(number: Int) = number.toString(16).padStart(32, '0')
        for (i in 0..MOST_RECORDS) {
            assertTrue(state.writeRecord("kind", key(i), ByteArray(1)))
            File(place, "kind/${key(i)}.json").setLastModified(1_000L * (i + 1))
        }
        File(place, "kind/mine.json").also { it.writeText("mine") }.setLastModified(1)
        assertTrue(state.writeRecord("kind", key(MOST_RECORDS + 1), ByteArray(1)))
        assertEquals(MOST_RECORDS + 1, File(place, "kind").list()!!.size)
        assertEquals("mine", File(place, "kind/mine.json").readText())
        assertNull(state.readRecord("kind", key(0)))
        assertEquals(1, state.readRecord("kind", key(MOST_RECORDS + 1))!!.size)
    }

    @Test
    fun `a file that changed is not the one that was checked`() = inDirectory { place ->
        val state = StateDirectory(File(place, "state"))
        val file = File(place, "file").also { it.writeText("content") }
        val stamps = mapOf("file" to stampOf(file))
        assertTrue(stamps.getValue("file").isComplete)
        assertFalse(wasChecked(state, place, seal, stamps))
        assertTrue(rememberCheck(state, place, seal, stamps, later))
        assertTrue(wasChecked(state, place, seal, mapOf("file" to stampOf(file))))
        assertFalse(wasChecked(state, place, "0".repeat(64), stamps))
        assertFalse(wasChecked(state, File(place, "state"), seal, stamps))
        val modified = Files.getLastModifiedTime(file.toPath())
        file.writeText("CONTENT")
        Files.setLastModifiedTime(file.toPath(), modified) // as a copy that keeps times; ctime tells
        assertFalse(wasChecked(state, place, seal, mapOf("file" to stampOf(file))))
        Files.setLastModifiedTime(file.toPath(), FileTime.fromMillis(0))
        assertFalse(wasChecked(state, place, seal, mapOf("file" to stampOf(file))))
    }

    @Test
    fun `a file that changed a moment ago is not remembered`() = inDirectory { place ->
        val state = StateDirectory(File(place, "state"))
        val stamp = stampOf(File(place, "file").also { it.writeText("content") })
        assertFalse(rememberCheck(state, place, seal, mapOf("file" to stamp), stamp.changed + 2_999_999_999))
        assertTrue(rememberCheck(state, place, seal, mapOf("file" to stamp), stamp.changed + 3_000_000_000))
        val coarse = stamp.copy(changed = 0, inode = 0, device = 0) // a file system without them: hashed in full
        assertFalse(rememberCheck(state, place, seal, mapOf("file" to coarse), later))
    }

    @Test
    fun `costs are measured once and kept`() = inDirectory { place ->
        val state = StateDirectory(place)
        val manifest = Costs(doubleArrayOf(1.0), 0.5, 0.0, 0.25)
        val measured = Costs(doubleArrayOf(0.1, 0.2), 0.01, 0.001, 0.9)
        var times = 0
        fun costs(measure: Measure) =
            deviceCosts(state, seal, manifest, null, here, measure) { measured.also { times++ } }
        assertEquals(CostsSource.MANIFEST, costs(Measure.NEVER).source)
        assertEquals(CostsSource.MEASURED, costs(Measure.AUTO).source)
        val kept = costs(Measure.AUTO)
        assertEquals(CostsSource.KEPT, kept.source)
        // Acceptance is the pair's.
        assertEquals(Costs(measured.target, measured.draft, measured.host, 0.25), kept.costs)
        assertEquals(1, times)
        assertEquals(CostsSource.MEASURED, costs(Measure.ALWAYS).source)
        val none = deviceCosts(StateDirectory.NONE, seal, manifest, null, here, Measure.AUTO) { null }
        assertEquals(CostsSource.MANIFEST, none.source)
    }

    @Test
    fun `kept costs are outdated where passes take twice as long`() = inDirectory { place ->
        val state = StateDirectory(place)
        val measured = Costs(doubleArrayOf(0.1, 0.2), 0.01, 0.001)
        for ((factor, length, outdated) in listOf(Triple(2.01, 512, true), Triple(1.99, 512, false), Triple(2.01, 513, false))) {
            keepCosts(state, seal, here, measured)
            val kept = deviceCosts(state, seal, measured, null, here, Measure.AUTO) { null }
            assertEquals(CostsSource.KEPT, kept.source)
            val watch = CostsWatch(kept.costs)
            val passes = List(9) { 1 + it % 3 }.map { it to factor * measured.passSeconds(it) } + List(7) { 1 to 0.0 }
            val found = passes.map { (tokens, seconds) -> watch.areOutdated(tokens, seconds, length) }
            assertEquals(List(15) { false } + outdated, found)
            assertFalse(watch.areOutdated(1, 1e9, 0), "asked once")
            if (outdated) kept.forget()
            assertEquals(outdated, keptCosts(state, seal, here) == null)
        }
    }

    @Test
    fun `this machine is one that a manifest can hold`() {
        val fields = here.asJson().mapValues { (_, value) -> if (value is Int) value.toLong() else value }
        assertEquals(here, readMachine(fields))
        val long = thisMachine("v\u0000" + "\u00e9".repeat(200), 1, "cpu", "cpu").onnxruntime
        assertEquals("v " + "\u00e9".repeat(31), long)
    }
}
