package io.omnidraft.session

import io.omnidraft.BundleException
import io.omnidraft.SettingException
import io.omnidraft.bundle.NPU
import io.omnidraft.bundle.openBundle
import io.omnidraft.bundle.placed
import io.omnidraft.decoding.Cancelled
import io.omnidraft.decoding.Logits
import io.omnidraft.models.HostTables
import io.omnidraft.support.StarterBundles
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import java.io.File

/** Static graphs on the CPU beside the dynamic graph of the same weights. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
internal class StaticModelTest {
    private val plain = StarterBundles.load("b")
    private val static = StarterBundles.load("b", NPU)
    private val ids = plain.targetTokenizer.encode("How many legs do 3 cats have? ".repeat(20)).copyOf(150)

    @AfterAll
    fun close() = listOf(plain, static).forEach { it.close() }

    @Test
    fun `blocks of any lengths give the logits of the dynamic graph`() {
        val (expected, model) = plain.target.acquire() to static.target.acquire()
        try {
            val whole = rows(expected.score(ids))
            assertClose(whole, rows(model.score(ids))) // three blocks
            model.rewind(20)
            assertClose(part(whole, 20, 21), rows(model.score(ids.copyOfRange(20, 21)))) // the graph of one token
            model.rewind(10)
            assertClose(part(whole, 10, 13), rows(model.score(ids.copyOfRange(10, 13)))) // filled up
            assertClose(part(whole, 148, 150), rows(model.score(ids.copyOfRange(13, 150), 2)))
            assertEquals(150, model.length)
        } finally {
            plain.target.release(expected, free = false)
            static.target.release(model, free = false)
        }
    }

    @Test
    fun `a text that was cancelled between two blocks is forgotten`() {
        val model = static.target.acquire()
        try {
            var passes = 0
            model.cancelled = { passes++ == 1 }
            assertThrows(Cancelled::class.java) { model.score(ids) }
            assertEquals(0, model.length)
        } finally {
            static.target.release(model, free = false)
        }
    }

    @Test
    fun `a place that is not there is refused`() {
        for (place in listOf("qnn", "gpu", "cpu:threads=2", "nnapi:fast")) {
            assertThrows(SettingException::class.java) { placed(openBundle(StarterBundles.directory("b")), place) }
        }
    }

    @Test
    fun `tables of other shapes are refused by name`() {
        val entry = static.bundle.target
        val host = static.bundle.file(checkNotNull(entry.place).host)
        val file = File.createTempFile("host", ".safetensors")
        val whole = host.readBytes()
        val header = String(whole, 0, 2000, Charsets.ISO_8859_1)
        val damaged = listOf(whole.copyOf(100), whole.copyOf(whole.size - 1), ByteArray(0)) +
            listOf("cos" to "cis", "F32" to "I32", "embeddings" to "embeddingz").map { (from, to) ->
                whole.copyOf().also { to.toByteArray().copyInto(it, header.indexOf(from)) }
            }
        for (data in damaged) {
            file.writeBytes(data)
            val refused = assertThrows(BundleException::class.java) { HostTables.read(file, entry.kv, entry.vocabSize) }
            assertEquals("graph", refused.fault)
        }
        file.delete()
    }

    private fun rows(logits: Logits): FloatArray = FloatArray(logits.rows * logits.width) { logits.values.get(it) }

    private fun part(rows: FloatArray, from: Int, until: Int): FloatArray =
        rows.copyOfRange(from * plain.bundle.target.vocabSize, until * plain.bundle.target.vocabSize)

    private fun assertClose(expected: FloatArray, actual: FloatArray) = assertArrayEquals(expected, actual, 1e-2f)
}
