package io.omnidraft.session

import ai.onnxruntime.OnnxJavaType
import io.omnidraft.BundleException
import io.omnidraft.bundle.KvShape
import io.omnidraft.bundle.KvType
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.Part
import io.omnidraft.bundle.Site
import io.omnidraft.conformance.ROOT
import io.omnidraft.decoding.Cancelled
import io.omnidraft.models.Graph
import io.omnidraft.models.OrtModel
import io.omnidraft.models.Value
import io.omnidraft.models.adapterValues
import io.omnidraft.models.declaredInputs
import io.omnidraft.models.floats
import io.omnidraft.inHeap
import io.omnidraft.models.kvBuffers
import io.omnidraft.models.kvTensors
import io.omnidraft.models.noAdapter
import io.omnidraft.support.StarterBundles
import java.io.File
import java.nio.ByteBuffer
import java.util.Random
import java.util.concurrent.atomic.AtomicInteger
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Graphs against their manifest, and runs of graphs. */
internal class GraphContractTest {
    private val file = File(ROOT, "generate/target.onnx")
    private val kv = KvShape(1, 1, 1, 64)
    private val width = 13

    /** A pass that needs more than the heap or the system gives is refused, as keys and values are: no app ends by it. */
    @Test
    fun memoryThatThereIsNotIsRefused() {
        val large = KvShape(1, 1, 1 shl 20, 1 shl 30) // 2^52 bytes, more than a process can address
        val asked = listOf(
            { kvTensors(large) }, { kvBuffers(large) }, { floats(Int.MAX_VALUE / 4) }, { floats(1L shl 40) },
            { inHeap { List(1000) { LongArray(Int.MAX_VALUE / 4) } } },
        )
        for (ask in asked) assertEquals("memory", assertThrows(BundleException::class.java) { ask() }.fault)
    }

    @Test
    fun keysAndValuesAreZerosOfTheirType() {
        for ((type, kind) in listOf(KvType.FLOAT32 to OnnxJavaType.FLOAT, KvType.FLOAT16 to OnnxJavaType.FLOAT16)) {
            val made = kvTensors(KvShape(2, 3, 4, 5, type))
            assertEquals(setOf("0.key", "0.value", "1.key", "1.value"), made.keys)
            for (tensor in made.values) {
                assertEquals(kind, tensor.info.type)
                assertArrayEquals(longArrayOf(1, 3, 5, 4), tensor.info.shape)
                val bytes = tensor.byteBuffer
                assertEquals(60 * type.bytes, bytes.remaining())
                while (bytes.hasRemaining()) assertEquals(0, bytes.get().toInt())
                tensor.close()
            }
        }
    }

    @Test
    fun aGraphThatDoesNotFitIsRefused() {
        Graph(file, kv, width).close()
        val wrong = listOf(
            kv.copy(numLayers = 2) to width, kv.copy(numKvHeads = 2) to width, kv.copy(headDim = 2) to width, kv to 14,
            kv.copy(type = KvType.FLOAT16) to width,
        )
        for ((shape, size) in wrong) {
            val refused = assertThrows(BundleException::class.java) { Graph(file, shape, size) }
            assertEquals("graph", refused.fault, refused.toString())
        }
        val noGraph = assertThrows(BundleException::class.java) { Graph(File(ROOT, "manifest.json"), kv, width) }
        assertEquals("graph", noGraph.fault)
    }

    @Test
    fun adaptersOfTheManifestMustBeInTheGraph() {
        val sites = LoraSites(null, mapOf("layers.0.o" to Site(2, listOf(Part("o", 1)))))
        Graph(file, kv, width).use { graph ->
            graph.checkAdapters(null)
            val refused = assertThrows(BundleException::class.java) { graph.checkAdapters(sites) }
            assertEquals("graph", refused.fault)
        }
    }

    /** A model begins without an adapter, and is fed its zeros. */
    @Test
    fun aGraphOfAFixedRankRunsWithoutAnAdapter() {
        val lora = LoraSites(4, mapOf("layers.0.o" to Site(9, listOf(Part("o", 9)))))
        fun scored(model: OrtModel) = rows(model.also { it.rewind(0) }.score(intArrayOf(1, 2, 3)))
        val plain = Graph(File(ROOT, "generate/drafter.onnx"), kv, 9).use { graph -> graph.newModel().use(::scored) }
        Graph(File(ROOT, "generate/fixed_rank.onnx"), kv, 9).use { graph ->
            graph.checkAdapters(lora)
            graph.newModel().use { model ->
                val ones = noAdapter(lora).mapValues { tensorOf(it.value.also { each -> each.values.fill(1f) }) }
                assertEquals(lists(plain), lists(scored(model)))
                model.useAdapter(ones)
                assertNotEquals(lists(plain), lists(scored(model)))
                model.useAdapter(noAdapter(lora).mapValues { tensorOf(it.value) })
                assertEquals(lists(plain), lists(scored(model)))
            }
        }
    }

    private fun lists(rows: List<FloatArray>) = rows.map { it.asList() }

    @Test
    fun inputsWithADefaultAreReadFromTheFile() {
        val bundle = StarterBundles.load("a").use { it.bundle }
        val graph = bundle.file(bundle.drafter.graph)
        val declared = declaredInputs(ByteBuffer.wrap(graph.readBytes()))
        val named = adapterValues(bundle.drafter.lora)
        assertEquals(16, named.size) // two of each of the eight places
        for ((name, value) in named) assertArrayEquals(sizes(value), declared.getValue(name).sizes) { name }
        assertTrue("input_ids" in declared)
    }

    private fun sizes(value: Value): LongArray = value.sizes.also { assertEquals(OnnxJavaType.FLOAT, value.kind) }

    @Test
    fun noBytesMakeTheReaderOfInputsFail() {
        val data = file.readBytes()
        val random = Random(3)
        repeat(5000) {
            val changed = data.copyOf(if (it % 3 == 0) random.nextInt(data.size) else data.size)
            repeat(1 + random.nextInt(4)) {
                if (changed.isNotEmpty()) changed[random.nextInt(changed.size)] = random.nextInt().toByte()
            }
            declaredInputs(ByteBuffer.wrap(changed))
        }
    }

    @Test
    fun aRunThatNobodyCancelledIsRepeated() {
        Graph(file, kv, width).use { graph ->
            OrtModel(graph).use { model ->
                val row = FloatArray(width)
                model.score(intArrayOf(1, 2, 3), 1).read(0, 0, width, row)
                model.rewind(0)
                model.interrupt() // the next run ends, and is repeated
                val asked = AtomicInteger()
                model.cancelled = { asked.incrementAndGet() > 100 }
                val again = FloatArray(width)
                model.score(intArrayOf(1, 2, 3), 1).read(0, 0, width, again)
                assertArrayEquals(row, again)
                assertTrue(asked.get() >= 1)
                model.cancelled = { true }
                assertThrows(Cancelled::class.java) { model.score(intArrayOf(4)) }
                assertEquals(3, model.length)
            }
        }
    }

    @Test
    fun logitsOfLongPassesAreThoseOfShortOnes() {
        Graph(file, KvShape(1, 1, 1, 200), width).use { graph ->
            val ids = IntArray(150) { it * 7 % width }
            val whole = OrtModel(graph).use { rows(it.score(ids)) }
            OrtModel(graph).use { model ->
                for ((number, id) in ids.withIndex()) {
                    assertArrayEquals(whole[number], rows(model.score(intArrayOf(id)))[0]) { "row $number" }
                }
                model.rewind(0)
                assertArrayEquals(whole.last(), rows(model.score(ids, 1))[0])
                assertEquals(150, model.length)
            }
        }
    }

    private fun rows(logits: io.omnidraft.decoding.Logits): List<FloatArray> =
        List(logits.rows) { row -> FloatArray(logits.width).also { logits.read(row, 0, logits.width, it) } }
}
