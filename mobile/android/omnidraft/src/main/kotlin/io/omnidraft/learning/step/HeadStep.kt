package io.omnidraft.learning.step

import io.omnidraft.bundle.FloatTensor
import io.omnidraft.bundle.Head
import io.omnidraft.bundle.HeadShape
import io.omnidraft.bundle.StepLayout
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.HeadExample
import io.omnidraft.learning.positions.headExample

/*
 * Inputs of the training graph of the adaptive head, and its vector as a head (spec/14-train-step.md, head.onnx).
 */

/**
 * Inputs of the graph, padded to the longest response.
 *
 * @param responses at least one draw in total.
 */
internal fun headBatch(responses: List<Aligned>): Arrays {
    val examples = responses.map { headExample(it) }
    return mapOf(
        "input_ids" to stacked(examples.map { it.draftIds }, 0),
        "positions" to stacked(examples.map { it.positions }, 0),
        "known" to known(examples),
        "said" to stacked(examples.map { it.nextIds }, -1),
        "longer" to longer(examples),
    )
}

/** The head in a vector. */
internal fun headOf(vector: FloatArray, layout: StepLayout, shape: HeadShape): Head {
    val sizes = shape.sizes()
    return Head(
        layout.spans().associate { span ->
            span.name to FloatTensor(sizes.getValue(span.name), vector.copyOfRange(span.begin, span.end))
        },
    )
}

/** The vector of a head; zeros where there is no head, which means undecided and not "never stop". */
internal fun headVector(head: Head?, layout: StepLayout): FloatArray {
    val vector = FloatArray(layout.size.toInt())
    if (head == null) return vector
    for (span in layout.spans()) head.tensors.getValue(span.name).values.copyInto(vector, span.begin)
    return vector
}

/** Rows as one table, each filled up to the longest, which is 1 at least. */
private fun stacked(rows: List<IntArray>, fill: Int): TypedArray {
    val widest = maxOf(1, rows.maxOf { it.size })
    val values = LongArray(rows.size * widest) { fill.toLong() }
    for ((b, row) in rows.withIndex()) for (i in row.indices) values[b * widest + i] = row[i].toLong()
    return LongValues(values, intArrayOf(rows.size, widest))
}

private fun known(examples: List<HeadExample>): TypedArray {
    val widest = maxOf(1, examples.maxOf { it.positions.size })
    val values = BooleanArray(examples.size * widest)
    for ((b, example) in examples.withIndex()) values.fill(true, b * widest, b * widest + example.positions.size)
    return BooleanValues(values, intArrayOf(examples.size, widest))
}

/** The longer draft tokens of each draw, [B, A, W]. */
private fun longer(examples: List<HeadExample>): TypedArray {
    val draws = maxOf(1, examples.maxOf { it.longer.size })
    val widest = maxOf(1, examples.maxOf { example -> example.longer.maxOfOrNull { it.size } ?: 0 })
    val values = LongArray(examples.size * draws * widest) { -1L }
    for ((b, example) in examples.withIndex()) {
        for ((a, ids) in example.longer.withIndex()) {
            for (i in ids.indices) values[(b * draws + a) * widest + i] = ids[i].toLong()
        }
    }
    return LongValues(values, intArrayOf(examples.size, draws, widest))
}
