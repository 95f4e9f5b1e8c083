package io.omnidraft.learning.step

import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.collate

/* Inputs of the training step's graph (spec/14-train-step.md). */

private const val LEAST_WEIGHT = 1e-6

/**
 * The responses of one call of the graph.
 *
 * @property inputs of the graph, by name.
 * @property weight the sum of the weights of their distributions.
 */
internal class StepBatch(val inputs: Arrays, val weight: Double)

/** Inputs of one call of the graph. */
internal fun stepBatch(responses: List<Aligned>): StepBatch {
    val batch = collate(responses)
    val trie = batch.trie
    val table = intArrayOf(trie.size, trie.width)
    val inputs = mapOf(
        "input_ids" to LongValues(batch.inputIds, intArrayOf(responses.size, batch.longest)),
        "rows" to LongValues(
            LongArray(batch.sequences.size) { batch.sequences[it] * batch.longest + batch.positions[it] },
        ),
        "trie.rows" to LongValues(trie.rows),
        "trie.ids" to LongValues(trie.ids, table),
        "trie.probabilities" to FloatValues(trie.probabilities, table),
        "trie.other" to FloatValues(trie.other),
        "trie.weights" to FloatValues(trie.weights),
    )
    return StepBatch(inputs, trie.weights.sumOf { it.toDouble() })
}

/** The scale of the loss in every call of a step: 1 / the sum of the [weights] of its calls. */
internal fun stepScale(weights: List<Double>): Double = 1.0 / maxOf(weights.sum(), LEAST_WEIGHT)
