package io.omnidraft.decoding

import io.omnidraft.disk.Tensor
import java.nio.FloatBuffer

/*
 * The interface of a language model, as the loop and a session use it.
 */

/**
 * Rows of logits in the memory of a model: they are read in place, and the next pass may overwrite them.
 *
 * @property values at least [rows] x [width] numbers from index 0 on, row after row; neither its position nor its
 *   limit is used.
 * @property rows number of rows.
 * @property width ids of the vocabulary.
 */
internal class Logits(val values: FloatBuffer, val rows: Int, val width: Int) {
    // Its own position: the buffer of the model keeps the position that the model gave it.
    private val view: FloatBuffer = values.duplicate().apply { clear() }

    operator fun get(row: Int, id: Int): Float = view.get(row * width + id)

    /** Copy [count] logits of a row, from id [from] on, to the beginning of an array. */
    fun read(row: Int, from: Int, count: Int, into: FloatArray) {
        require(row in 0 until rows && from >= 0 && from + count <= width) { "ids $from + $count of row $row" }
        view.position(row * width + from)
        view.get(into, 0, count)
    }

    companion object {
        fun of(values: FloatArray, width: Int): Logits = Logits(FloatBuffer.wrap(values), values.size / width, width)
    }
}

/** A pass was not run because the generation was cancelled; the model's context is unchanged. */
internal class Cancelled : Exception("the generation was cancelled")

/** A causal language model with a context that grows by scoring and shrinks by rewinding. */
internal interface Model {
    /** Width of the logits; may exceed the tokenizer. */
    val vocabSize: Int

    /** Number of positions that the context can hold. */
    val maxLength: Int

    /** Number of positions that the context holds now. */
    val length: Int

    /**
     * Append tokens to the context and give the logits of the last positions.
     *
     * @param tokens n >= 1 ids.
     * @param numLogits how many of the last rows to give; all n when null.
     */
    fun score(tokens: IntArray, numLogits: Int? = null): Logits

    /** Forget every position from [length] on. */
    fun rewind(length: Int)
}

/** A model as a session uses it: cancelled between its passes, and adapted. */
internal interface SessionModel : Model {
    /**
     * Asked before each run of a graph, and after each that was interrupted; where it answers true, [Cancelled] is
     * thrown.
     */
    var cancelled: () -> Boolean

    /** End the run of a graph that is going on, from any thread; [cancelled] decides what comes then. */
    fun interrupt()

    /**
     * Use an adapter's tensors (float32), by the names of the graph's inputs; with none, the model itself.
     *
     * The context was computed with the old weights: rewind to 0 and read it again.
     */
    fun useAdapter(tensors: Map<String, Tensor>)
}
