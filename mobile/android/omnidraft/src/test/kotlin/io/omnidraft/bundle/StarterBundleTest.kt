package io.omnidraft.bundle

import io.omnidraft.BundleException
import io.omnidraft.BundleSource
import io.omnidraft.archive.install
import io.omnidraft.archive.openArchive
import io.omnidraft.device.StateDirectory
import io.omnidraft.parts.INDEX
import io.omnidraft.support.StarterBundles
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import java.io.RandomAccessFile

/** Bundles and archives that Python made of the starter models. */
class StarterBundleTest {
    @Test
    fun `a bundle of Python opens and every file is verified`() {
        for (name in listOf("a", "b", "learning")) {
            val bundle = openBundle(StarterBundles.directory(name))
            assertEquals(bundle.files.keys, bundle.stamps.keys)
            assertTrue(bundle.vocabMap in bundle.files && bundle.costs.target.isNotEmpty())
            for (entry in listOf(bundle.target, bundle.drafter)) {
                assertEquals(bundle.file(entry.graph), checkedGraph(bundle, entry.graph))
                assertNotNull(entry.compiledTokenizer)
            }
            checkUnchanged(bundle.places, bundle.stamps)
            val need = memoryNeed(bundle)
            assertTrue(need.total > memoryNeed(bundle, drafter = false).total && need.target > 0)
        }
    }

    @Test
    fun `the training step of a bundle is read and its weights are in listed files`() {
        val bundle = openBundle(StarterBundles.directory("learning"))
        val step = bundle.drafter.train!!
        assertEquals(layoutOf(bundle.drafter.lora!!, step.rank), step.layout)
        val data = checkedStep(bundle, step.graph, step.folder)
        assertEquals(bundle.files.getValue(step.graph).bytes, data.size.toLong())
        assertEquals(step.layout.size, step.layout.spans().last().end.toLong())
        assertThrows(BundleException::class.java) { checkedStep(bundle, step.graph, "../elsewhere") }
    }

    @Test
    fun `a changed byte of any file is found`() = inDirectory { place ->
        val copy = File(place, "b")
        StarterBundles.directory("b").copyRecursively(copy)
        for (name in openBundle(copy).files.keys) {
            val at = File(copy, name).length() / 2
            flip(File(copy, name), at)
            assertEquals("checksum", assertThrows(BundleException::class.java) { openBundle(copy) }.fault, name)
            flip(File(copy, name), at)
        }
        openBundle(copy)
        flip(File(copy, MANIFEST), File(copy, MANIFEST).length() - 8)
        assertTrue(assertThrows(BundleException::class.java) { openBundle(copy) }.fault in setOf("seal", "unreadable"))
    }

    private fun flip(file: File, at: Long) = RandomAccessFile(file, "rw").use {
        it.seek(at)
        val byte = it.read()
        it.seek(at)
        it.write(byte xor 1)
    }

    @Test
    fun `an archive of Python is unpacked as Python does`() = inDirectory { place ->
        val archive = StarterBundles.directory("starter-a.zip")
        val expected = StarterBundles.directory("unpacked")
        val out = install(BundleSource.Archive(archive), File(place, "file"))
        val ofStream = install(BundleSource.Stream(archive.inputStream()), File(place, "stream"))
        for (each in listOf(out, ofStream)) assertSameTree(expected, each)
        assertEquals(listOf("file", "stream"), place.list()!!.sorted(), "something else was left")
        val bundle = openBundle(out)
        assertEquals(openArchive(archive).index, bundle.places.index)
        assertNull(openBundle(StarterBundles.directory("a")).places.index)
        assertTrue(File(out, INDEX).isFile)
    }

    @Test
    fun `stamps of a bundle that was checked in full are known again`() = inDirectory { place ->
        val state = StateDirectory(File(place, "state"))
        val bundle = StarterBundles.directory("b")
        val full = openBundle(bundle, state = state)
        val records = File(place, "state/checked").list()!!
        assertEquals(1, records.size, "the bundle was made less than 3 s ago, or the file system has no stamps")
        assertEquals(full.stamps, openBundle(bundle, verify = Verify.STAMP, state = state).stamps)
        assertEquals(full.stamps, openBundle(bundle, verify = Verify.AUTO, state = state).stamps)
    }
}

/** Fails unless two directories hold the same files with the same bytes. */
internal fun assertSameTree(expected: File, actual: File) {
    fun files(root: File) = root.walkTopDown().filter { it.isFile }.map { it.relativeTo(root).path }.sorted().toList()
    assertEquals(files(expected), files(actual))
    for (name in files(expected)) {
        assertEquals(fileSha256(File(expected, name)), fileSha256(File(actual, name)), name) // a file may be large
    }
}
