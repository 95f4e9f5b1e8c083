package io.omnidraft.bundle

import io.omnidraft.ArchiveException
import io.omnidraft.BundleSource
import io.omnidraft.archive.checkSpace
import io.omnidraft.archive.install
import io.omnidraft.archive.openArchive
import io.omnidraft.archive.unpack
import io.omnidraft.conformance.archiveOf
import io.omnidraft.conformance.vectorsOf
import io.omnidraft.parts.SHARED
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.ByteArrayInputStream
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.nio.file.Files

/** Unpacking from a file and from a stream. */
class InstallTest {
    private val whole = phoneArchive()

    private fun stream(data: ByteArray = whole) = BundleSource.Stream(ByteArrayInputStream(data))

    private fun file(place: File, data: ByteArray = whole): BundleSource =
        BundleSource.Archive(File(place, "archive.zip").also { it.writeBytes(data) })

    @Test
    fun `a file and a stream give the same bundle, and tell each byte`() = inDirectory { place ->
        for (source in listOf(file(place), stream())) {
            val out = File(place, source.javaClass.simpleName)
            var last = 0L
            var all = 0L
            assertEquals(out, install(source, out) { done, total ->
                assertTrue(done > last && done <= total)
                last = done
                all = total
            })
            val bundle = openBundle(out)
            assertEquals(all, last)
            assertEquals(all, bundle.places.present(bundle.files).sumOf { bundle.files.getValue(it).bytes })
        }
        assertSameTree(File(place, "Archive"), File(place, "Stream"))
        assertEquals(setOf("Archive", "Stream", "archive.zip"), place.list()!!.toSet())
    }

    @Test
    fun `an equal directory is used as it is, and only the first entries are read`() = inDirectory { place ->
        val out = install(stream(), File(place, "out"))
        val mark = File(out, "vocab_map.safetensors")
        mark.setLastModified(1_000_000)
        install(file(place), out)
        val input = ByteArrayInputStream(whole)
        install(BundleSource.Stream(input), out)
        assertTrue(input.available() > whole.size / 2)
        assertEquals(1_000_000, mark.lastModified())
    }

    @Test
    fun `a signature arrives where the same bundle is unsigned, and stays`() = inDirectory { place ->
        val signed = archiveOf(vectorsOf("archive/valid").single { it.name == "signed" }.input)
        val out = install(stream(), File(place, "out"))
        install(stream(signed), out)
        val signature = File(out, SIGNATURE).readBytes()
        for (source in listOf(stream(signed), stream())) {
            File(out, SIGNATURE).setLastModified(1_000_000)
            install(source, out)
            assertEquals(1_000_000, File(out, SIGNATURE).lastModified())
        }
        File(out, SIGNATURE).writeText("of another key")
        install(file(place, signed), out)
        assertArrayEquals(signature, File(out, SIGNATURE).readBytes())
    }

    @Test
    fun `a bundle that lost a file, or a part of one, is written again`() = inDirectory { place ->
        val out = install(stream(), File(place, "out"))
        val map = File(out, "vocab_map.safetensors")
        val bytes = map.readBytes()
        for (source in listOf(file(place), stream())) {
            map.writeBytes(bytes.copyOf(100))
            install(source, out)
            assertArrayEquals(bytes, map.readBytes())
        }
        map.delete()
        install(stream(), out)
        openBundle(out)
    }

    @Test
    fun `another directory is not replaced, unless a bundle is to be`() = inDirectory { place ->
        val out = File(place, "out").also { it.mkdirs() }
        File(out, "note").writeText("mine")
        assertEquals("unwritable", faultOf { install(stream(), out) })
        val archive = openArchive(File(place, "archive.zip").also { it.writeBytes(whole) })
        assertEquals("unwritable", faultOf { unpack(archive, out, overwrite = true) })
        File(out, MANIFEST).writeText("{\"manifest_version\":3}") // of a browser's extension
        assertEquals("unwritable", faultOf { unpack(archive, out, overwrite = true) })
        assertEquals("mine", File(out, "note").readText())
        out.deleteRecursively()
        unpack(archive, out, overwrite = true)
        openBundle(out)
        assertEquals(out, install(stream(), out, overwrite = true))
        openBundle(out)
        File(out, "note").writeText("mine")
        assertEquals("unwritable", faultOf { unpack(archive, out, overwrite = true) })
        assertEquals("mine", File(out, "note").readText())
        assertEquals(setOf("out", "archive.zip"), place.list()!!.toSet())
        assertEquals("unwritable", faultOf { install(stream(), File(place, "archive.zip/out")) })
        Files.createSymbolicLink(File(place, "link").toPath(), out.toPath())
        assertEquals("unwritable", faultOf { install(stream(), File(place, "link")) })
    }

    @Test
    fun `nothing is left of an archive that is refused, cut or stopped`() = inDirectory { place ->
        val into = File(place, "out")
        val changed = whole.copyOf().also { it[65536] = 0 } // of target/cpu/model.onnx
        assertEquals("checksum", faultOf { install(stream(changed), into) })
        assertEquals("checksum", faultOf { install(file(place, changed), into) })
        assertEquals("truncated", faultOf { install(stream(whole.copyOf(whole.size - 1)), into) })
        assertEquals("truncated", faultOf { install(stream(whole.copyOf(65540)), into) })
        assertEquals("trailing_bytes", faultOf { install(stream(whole + 0), into) })
        assertEquals("unreadable", faultOf { install(BundleSource.Stream(Broken(whole.copyOf(70000))), into) })
        assertThrows(IllegalStateException::class.java) { install(stream(), into) { _, _ -> error("stopped") } }
        assertEquals(listOf("archive.zip"), place.list()!!.toList())
    }

    /** A stream that fails at its end. */
    private class Broken(data: ByteArray) : InputStream() {
        private val stream = ByteArrayInputStream(data)

        override fun read(): Int = stream.read().also { if (it < 0) throw IOException("the asset is gone") }
    }

    @Test
    fun `what killed writers left is removed`() = inDirectory { place ->
        val left = File(place, ".out.0123456789abcdef.tmp/target").also { it.mkdirs() }
        File(left, "half").writeText("x")
        install(stream(), File(place, "out"))
        assertEquals(listOf("out"), place.list()!!.toList())
    }

    @Test
    fun `a disk without room is named`() {
        val fault = assertThrows(ArchiveException::class.java) { checkSpace(File("/"), Long.MAX_VALUE, "it") }.fault
        assertEquals("space", fault)
    }

    @Test
    fun `two archives share a drafter, which is completed where it is damaged`() = inDirectory { place ->
        val vectors = vectorsOf("archive/valid").associateBy { it.expected["drafter"] }
        val drafter = archiveOf(vectors.getValue("only").input)
        val bundle = install(stream(archiveOf(vectors.getValue("without").input)), File(place, "bundle"))
        assertEquals("missing", faultOf { openBundle(bundle) })
        val shared = install(stream(drafter), place)
        assertEquals(File(place, SHARED), shared.parentFile)
        val opened = openBundle(bundle)
        val graph = opened.file(opened.drafter.graph)
        val content = graph.readBytes()
        graph.writeText("damaged")
        for (source in listOf(stream(drafter), file(place, drafter))) {
            graph.writeText("damaged")
            assertTrue(File(shared, "train/step.onnx").delete())
            assertEquals(shared, install(source, place))
            assertArrayEquals(content, graph.readBytes())
            openBundle(bundle)
        }
        assertEquals(listOf(shared.name), File(place, SHARED).list()!!.toList())
    }
}
