package io.omnidraft.models

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtLoraAdapter
import ai.onnxruntime.OrtSession
import io.omnidraft.bundle.KvShape
import io.omnidraft.bundle.LoraSites
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.SessionModel
import io.omnidraft.disk.Tensor
import java.io.File
import java.nio.ByteBuffer
import java.nio.FloatBuffer
import java.nio.IntBuffer
import java.nio.LongBuffer

/*
 * A model in onnxruntime on the CPU: shared-buffer KV, one binding for each block length.
 *
 * The keys and values are tensors of the engine. The same ones are bound as past and as present, so onnxruntime writes new
 * keys and values in place, and a rewind only lowers a counter. Contract of the graph: spec/03-bundle.md.
 */

private const val PREFILL_CHUNK = 128 // positions of a long prompt in one pass
private const val MOST_ROWS = 65 // rows of logits of the longest usual pass, a verification of 64 proposed tokens
private const val USUAL_ROWS = 13 // of a verification of the longest draft that the length auto asks for

/** The loaded weights of a model: any number of models may run them, each from its own thread. */
internal interface Weights : AutoCloseable {
    /** Checks that the graphs take the adapters of a manifest, and nothing else. */
    fun checkAdapters(lora: LoraSites?)

    fun newModel(): OwnModel
}

/** A model of a session, with what the engine holds for it. */
internal interface OwnModel : SessionModel, AutoCloseable

/** The weights of a graph whose keys and values are in shared buffers. */
internal class Graph(
    val path: File, // the graph; weights in a file beside it are mapped into memory, not read
    val kv: KvShape, // shape of its KV buffers
    val vocabSize: Int, // width of its logits
    threads: Int = 1, // of one pass; a drafter is fastest on one
    xnnpack: Boolean = false, // whether kernels of XNNPACK are used where it has them
) : Weights {
    val session: OrtSession = cpuSession(path, threads, xnnpack)
    private var adapters: Map<String, Value> = emptyMap() // inputs that must be fed

    init {
        try {
            checkValues(path, session, sharedValues(kv, vocabSize))
        } catch (error: Throwable) {
            session.close()
            throw error
        }
    }

    override fun checkAdapters(lora: LoraSites?) {
        val fed = sharedValues(kv, vocabSize).inputs.keys
        checkAdapters(path, session, fed, adapterValues(lora))
        if (lora?.rank != null) adapters = adapterValues(lora)
    }

    /** What is fed for no adapter: zeros, where adapters must be fed. */
    fun zeros(): Map<String, OnnxTensor> =
        adapters.mapValues { (_, value) -> tensor(floats(value.sizes.fold(1L) { n, size -> n * size }), value.sizes) }

    override fun newModel(): OrtModel = OrtModel(this)

    /** Frees the weights; no model may run them any more. */
    override fun close() = session.close()
}

/** Inputs and outputs of passes over n tokens: what they read and write. */
private class Block(
    val inputs: Map<String, OnnxTensor>,
    val outputs: Map<String, OnnxTensor>,
    val inputIds: LongBuffer,
    val logits: Logits,
    private val owned: List<OnnxTensor>,
) {
    fun close() = owned.forEach { it.close() }
}

/** A decoder graph with shared-buffer KV of its own on the CPU provider. */
internal open class OrtModel(private val graph: Graph, newKv: (KvShape) -> Map<String, OnnxTensor> = ::kvTensors) :
    OwnModel {
    private var rows: FloatBuffer = floats(graph.vocabSize) // of logits: memory grows with the passes that ask for it
    private val keysAndValues: Map<String, OnnxTensor> = newKv(graph.kv)
    private val engine = EngineRun(graph.session, graph.path.path)
    private val seqlens: IntBuffer = direct(4).asIntBuffer()
    private val total: IntBuffer = direct(4).asIntBuffer()
    private val numLogits: LongBuffer = direct(8).asLongBuffer()
    private val counts: Map<String, OnnxTensor> = mapOf(
        "seqlens_k" to OnnxTensor.createTensor(Engine.environment, seqlens, longArrayOf(1)),
        "total_sequence_length" to OnnxTensor.createTensor(Engine.environment, total, longArrayOf(1)),
        "num_logits" to OnnxTensor.createTensor(Engine.environment, numLogits, longArrayOf(1)),
    )
    private val blocks = HashMap<Long, Block>()
    private var fed: Map<String, OnnxTensor> = graph.zeros() // an adapter's tensors that are inputs of the graph
    private var adapter: OrtLoraAdapter? = null // its other tensors
    private var adapterBytes: ByteBuffer? = null // which the engine reads in place

    override val vocabSize: Int get() = graph.vocabSize
    override val maxLength: Int get() = graph.kv.maxLength
    final override var length: Int = 0
        private set
    override var cancelled: () -> Boolean = ::never

    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        val count = numLogits ?: tokens.size
        check(count in 1..tokens.size && tokens.size <= maxLength - length) { "${tokens.size} tokens after $length" }
        // Positions whose logits are not needed go first, in chunks of one row of logits each.
        var start = 0
        while (tokens.size - count - start > PREFILL_CHUNK) {
            run(tokens, start, start + PREFILL_CHUNK, 1)
            start += PREFILL_CHUNK
        }
        return run(tokens, start, tokens.size, count)
    }

    override fun interrupt() = engine.interrupt()

    override fun rewind(length: Int) {
        check(length in 0..this.length) { "$length of ${this.length} positions" }
        this.length = length
    }

    override fun useAdapter(tensors: Map<String, Tensor>) {
        val names = graph.session.inputNames
        closeBlocks() // their inputs name the tensors of the adapter before
        val before = fed.values.toList()
        val old = adapter
        fed = tensors.filterKeys { it in names }.mapValues { tensor(copied(it.value), it.value.shape) }
        val others = tensors.filterKeys { it !in names }
        adapterBytes = if (others.isEmpty()) null else engineAdapter(others)
        adapter = adapterBytes?.let { OrtLoraAdapter.create(it) }
        engine.use(adapter)
        before.forEach { it.close() }
        old?.close()
    }

    /** Frees what the engine holds for this model; the weights stay. */
    override fun close() {
        closeBlocks()
        engine.close()
        (keysAndValues.values + counts.values + fed.values).forEach { it.close() }
        adapter?.close()
    }

    private fun run(tokens: IntArray, from: Int, until: Int, count: Int): Logits {
        val block = block(until - from, count)
        for (i in from until until) block.inputIds.put(i - from, tokens[i].toLong())
        val total = length + until - from
        seqlens.put(0, total - 1)
        this.total.put(0, total)
        numLogits.put(0, count.toLong())
        try {
            engine.run(block.inputs, block.outputs, cancelled)
            length = total
        } finally {
            if (until - from > MOST_ROWS) block.close() // prompts have many lengths: their bindings are not kept
        }
        return block.logits
    }

    /** The binding for n tokens, made once (single steps and verifications reuse theirs). */
    private fun block(n: Int, count: Int): Block {
        growRows(count)
        if (n > MOST_ROWS) return newBlock(n, count)
        return blocks.getOrPut(n.toLong() shl 32 or count.toLong()) { newBlock(n, count) }
    }

    private fun newBlock(n: Int, count: Int): Block {
        val ids = direct(8 * n).asLongBuffer()
        val width = graph.vocabSize
        val own = HashMap<String, OnnxTensor>()
        val logits = tensor(part(rows, 0, count * width), longArrayOf(1, count.toLong(), width.toLong()))
        own["logits"] = logits
        val input = OnnxTensor.createTensor(Engine.environment, ids, longArrayOf(1, n.toLong()))
        val inputs = HashMap<String, OnnxTensor>(counts)
        inputs["input_ids"] = input
        inputs.putAll(fed)
        val outputs = HashMap<String, OnnxTensor>(own)
        for ((name, value) in keysAndValues) {
            inputs["past_key_values.$name"] = value
            outputs["present.$name"] = value
        }
        return Block(inputs, outputs, ids, Logits(rows, count, width), own.values + input)
    }

    /** Makes room for the logits of a pass; all passes share one buffer. */
    private fun growRows(count: Int) {
        val width = graph.vocabSize
        if (count * width.toLong() <= rows.capacity()) return
        closeBlocks()
        rows = floats((if (count <= USUAL_ROWS) USUAL_ROWS else maxOf(count, MOST_ROWS)).toLong() * width)
    }

    private fun closeBlocks() {
        blocks.values.forEach { it.close() }
        blocks.clear()
    }
}

internal fun never(): Boolean = false

/** The values of a tensor in a direct buffer, as the engine needs them. */
private fun copied(tensor: Tensor): FloatBuffer {
    val values = tensor.data.asFloatBuffer()
    val copy = floats(values.remaining())
    copy.duplicate().put(values)
    return copy
}
