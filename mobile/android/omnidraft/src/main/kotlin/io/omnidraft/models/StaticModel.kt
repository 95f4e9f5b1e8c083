package io.omnidraft.models

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtSession
import io.omnidraft.bundle.KvShape
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.Provider
import io.omnidraft.decoding.Cancelled
import io.omnidraft.decoding.Logits
import io.omnidraft.disk.Tensor
import java.io.File
import java.nio.FloatBuffer
import java.util.TreeMap

/*
 * A model of static graphs, which accelerators require: the host keeps the keys and values.
 *
 * Each graph takes blocks of one length. A shorter block is padded with unused rows: they come last, so no other row
 * attends to them, and their keys and values are not kept. Contract: spec/03-bundle.md.
 */

/** The static graphs of a model, all of one form. */
internal class StaticForm(
    val graphs: Map<Int, File>, // by the number of tokens of a block
    val host: File, // the file of embeddings [vocab, hidden] and rotary tables cos, sin [max_length, head_dim]
    val kv: KvShape, // shape of the keys and values on the host; its maxLength is the past that the graphs take
    val vocabSize: Int, // width of the logits
    val mask: Double, // added to the score of a hidden position, so low that its weight rounds to zero
)

/** Loaded static graphs: any number of [StaticModel]s may run them, each from its own thread. */
internal class StaticGraphs(
    val form: StaticForm,
    provider: Provider,
    threads: Int,
    compiled: CompiledGraphs,
) : Weights {
    /** By the number of tokens of a block, ascending. */
    val sessions = TreeMap<Int, OrtSession>()

    /** Inputs for adapters, which are the same for every block; of a fixed rank. */
    var adapters: Map<String, Value> = emptyMap()
        private set

    val tables: HostTables

    init {
        try {
            for ((block, path) in form.graphs) sessions[block] = openGraph(path, provider, threads, compiled)
            tables = HostTables.read(form.host, form.kv, form.vocabSize)
            for ((block, session) in sessions) checkValues(form.graphs.getValue(block), session, values(block))
        } catch (error: Throwable) {
            close()
            throw error
        }
    }

    override fun checkAdapters(lora: LoraSites?) {
        adapters = adapterValues(lora)
        for ((block, session) in sessions) {
            checkAdapters(form.graphs.getValue(block), session, values(block).inputs.keys, adapters)
        }
    }

    /** What the graph for blocks of some tokens takes and gives, without adapters. */
    fun values(block: Int): SharedValues = staticValues(form.kv, form.vocabSize, block, tables.hidden)

    override fun newModel(): StaticModel = StaticModel(this)

    /** Frees the weights; no model may run them any more. */
    override fun close() = sessions.values.forEach { it.close() }
}

/** What a pass over up to [rows] tokens reads and writes: direct buffers, and tensors over them. */
private class StaticBlock(values: SharedValues, val rows: Int, kept: Map<String, OnnxTensor>) {
    private val buffers = HashMap<String, FloatBuffer>()
    private val owned = ArrayList<OnnxTensor>()
    val inputs: Map<String, OnnxTensor> = kept + values.inputs.filterKeys { it !in kept }.mapValues { own(it.key, it.value) }
    val outputs: Map<String, OnnxTensor> = values.outputs.mapValues { own(it.key, it.value) }

    private fun own(name: String, value: Value): OnnxTensor {
        val buffer = floats(value.sizes.fold(1L) { product, size -> product * size })
        buffers[name] = buffer
        return tensor(buffer, value.sizes).also { owned.add(it) }
    }

    /** The numbers of an input or output that is this block's own. */
    fun buffer(name: String): FloatBuffer = buffers.getValue(name)

    fun close() = owned.forEach { it.close() }
}

/** A decoder of static graphs with a context of its own. */
internal class StaticModel(private val graphs: StaticGraphs) : OwnModel {
    private val kv = graphs.form.kv
    private val keysAndValues: Map<String, FloatBuffer> = kvBuffers(kv)
    private val lora = HashMap<String, FloatBuffer>() // zeros: no adapter
    private val widths = HashMap<String, Int>() // of the rows of an adapter's input
    private val kept = HashMap<String, OnnxTensor>()
    private val blocks = TreeMap<Int, StaticBlock>()
    private val engines = HashMap<Int, EngineRun>()
    private val row = FloatArray(kv.maxLength) // of a mask
    private var joined: FloatBuffer = floats(0) // rows of logits of several blocks

    override val vocabSize: Int get() = graphs.form.vocabSize
    override val maxLength: Int get() = kv.maxLength
    override var length: Int = 0
        private set
    override var cancelled: () -> Boolean = ::never

    init {
        for ((name, buffer) in keysAndValues) kept["past_key_values.$name"] = tensor(buffer, kvShape(kv))
        for ((name, value) in graphs.adapters) {
            val buffer = floats(value.sizes[0] * value.sizes[1])
            lora[name] = buffer
            kept[name] = tensor(buffer, value.sizes)
            widths[name] = value.sizes[1].toInt()
        }
        for ((size, session) in graphs.sessions) {
            blocks[size] = StaticBlock(graphs.values(size), size, kept).also { maskBlock(it) }
            engines[size] = EngineRun(session, graphs.form.graphs.getValue(size).path)
        }
    }

    /** Append tokens and give the logits of the last positions (see [io.omnidraft.decoding.Model]). */
    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        val count = numLogits ?: tokens.size
        check(count in 1..tokens.size && tokens.size <= maxLength - length) { "${tokens.size} tokens after $length" }
        val before = length
        val longest = blocks.lastKey()
        try {
            if (tokens.size <= longest) return run(tokens, 0, tokens.size, count)
            val all = joined(count)
            for (begin in tokens.indices step longest) {
                val end = minOf(begin + longest, tokens.size)
                val wanted = minOf(end - begin, end - (tokens.size - count))
                val rows = run(tokens, begin, end, maxOf(wanted, 1))
                if (wanted > 0) all.put(part(rows.values, 0, wanted * vocabSize))
            }
            return Logits(joined, count, vocabSize)
        } catch (cancel: Cancelled) {
            length = before
            throw cancel
        }
    }

    override fun interrupt() = engines.values.forEach { it.interrupt() }

    /** Forget every position from [length] on: the mask hides them until they are overwritten. */
    override fun rewind(length: Int) {
        check(length in 0..this.length) { "$length of ${this.length} positions" }
        this.length = length
    }

    /**
     * Feeds these LoRA tensors by name, filled up with zeros to the graphs' rank; none runs the base.
     *
     * The keys and values in the context stay those of the old adapter: rewind and read the text again.
     */
    override fun useAdapter(tensors: Map<String, Tensor>) {
        check(lora.keys.containsAll(tensors.keys)) { "${tensors.keys - lora.keys} are no inputs" }
        for ((name, buffer) in lora) { // in place: the blocks are bound to this buffer
            for (at in 0 until buffer.capacity()) buffer.put(at, 0f)
            val given = tensors[name] ?: continue
            val values = given.data.asFloatBuffer()
            val (rows, columns) = given.shape[0].toInt() to given.shape[1].toInt()
            val width = widths.getValue(name)
            for (line in 0 until rows) copy(values, line * columns, buffer, line * width, columns)
        }
    }

    /** Frees what the engine holds for this model; the weights stay. */
    override fun close() {
        blocks.values.forEach { it.close() }
        engines.values.forEach { it.close() }
        kept.values.forEach { it.close() }
    }

    /** The tokens of a block: each row attends to those up to itself. */
    private fun maskBlock(block: StaticBlock) {
        val mask = block.buffer("attention_mask")
        val width = maxLength + block.rows
        for (line in 0 until block.rows) {
            for (at in line + 1 until block.rows) mask.put(line * width + maxLength + at, graphs.form.mask.toFloat())
        }
    }

    /** One pass over a block: the logits of its last [count] tokens. */
    private fun run(tokens: IntArray, from: Int, until: Int, count: Int): Logits {
        val n = until - from
        val block = fill(tokens, from, n)
        engines.getValue(block.rows).run(block.inputs, block.outputs, cancelled)
        for ((name, kept) in keysAndValues) keep(block.buffer("new.$name"), block.rows, kept, n)
        length += n
        return Logits(part(block.buffer("logits"), (n - count) * vocabSize, n * vocabSize), count, vocabSize)
    }

    /** Copies the keys or values of the first [n] rows of a block behind the past, head by head. */
    private fun keep(new: FloatBuffer, rows: Int, past: FloatBuffer, n: Int) {
        val width = kv.headDim
        for (head in 0 until kv.numKvHeads) {
            copy(new, head * rows * width, past, (head * maxLength + length) * width, n * width)
        }
    }

    /** The smallest block that takes [n] tokens, with its inputs filled. */
    private fun fill(tokens: IntArray, from: Int, n: Int): StaticBlock {
        val block = blocks.ceilingEntry(n).value
        val tables = graphs.tables
        val embedded = block.buffer("inputs_embeds")
        for (line in 0 until n) tables.embed(tokens[from + line], embedded, line * tables.hidden)
        row.fill(0f, 0, length)
        row.fill(graphs.form.mask.toFloat(), length, maxLength)
        val mask = view(block.buffer("attention_mask"))
        val (cos, sin) = block.buffer("cos") to block.buffer("sin")
        for (line in 0 until block.rows) {
            (mask as java.nio.Buffer).position(line * (maxLength + block.rows))
            mask.put(row, 0, maxLength)
            val position = minOf(length + line, maxLength - 1)
            copy(tables.cos, position * kv.headDim, cos, line * kv.headDim, kv.headDim)
            copy(tables.sin, position * kv.headDim, sin, line * kv.headDim, kv.headDim)
        }
        return block
    }

    /** Room for the logits of several blocks, to be written from its beginning on. */
    private fun joined(count: Int): FloatBuffer {
        if (count * vocabSize.toLong() > joined.capacity()) joined = floats(count * vocabSize.toLong())
        return view(joined)
    }
}
