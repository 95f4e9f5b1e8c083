package io.omnidraft.learning.step

import io.omnidraft.SettingException
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.Batch
import io.omnidraft.learning.positions.Distributions
import io.omnidraft.learning.positions.collate

/*
 * Inputs of the training step's graph, and its objectives (spec/14-train-step.md).
 */

private const val FLOOR = 1e-8 // mass below which a distribution is all OTHER
private const val LEAST_COUNT = 1e-6

/** The factor of each term in the loss of each objective. */
internal val OBJECTIVES: Map<String, Map<String, Double>> = mapOf(
    "trie-kl" to mapOf("trie" to 1.0),
    "omnidraft" to mapOf("direct" to 1.0, "ngram" to 0.2),
)

/**
 * The responses of one call of the graph.
 *
 * @property inputs of the graph, by name.
 * @property counts number of positions in each term's sum; the loss of a step is the sum over terms of
 *   factor * sum / count.
 */
internal class StepBatch(val inputs: Arrays, val counts: Map<String, Double>)

/** Inputs of one call of the graph; positions of terms without a factor are left out. */
internal fun stepBatch(responses: List<Aligned>, factors: Map<String, Double>): StepBatch {
    val batch = collate(responses)
    val trie = if ("trie" in factors) batch.trie else chosen(batch.trie) { false }
    val direct = if ("direct" in factors) onIntersection(batch) else chosen(batch.direct) { false }
    val labels = batch.labels
    val inside = labels.rows.indices.filter { "ngram" in factors && batch.tokens.lengths[labels.tokens[it]] > 1 }
    val inputs = LinkedHashMap<String, TypedArray>()
    inputs["input_ids"] = LongValues(batch.inputIds, intArrayOf(responses.size, batch.longest))
    inputs["rows"] = LongValues(
        LongArray(batch.sequences.size) { batch.sequences[it] * batch.longest + batch.positions[it] },
    )
    put(inputs, "trie", trie)
    inputs["trie.weights"] = FloatValues(trie.weights)
    put(inputs, "direct", direct)
    inputs["ngram.rows"] = LongValues(LongArray(inside.size) { labels.rows[inside[it]] })
    inputs["ngram.ids"] = LongValues(LongArray(inside.size) { labels.ids[inside[it]] })
    val counts = mapOf(
        "trie" to trie.weights.sumOf { it.toDouble() },
        "direct" to direct.size.toDouble(),
        "ngram" to inside.size.toDouble(),
    )
    return StepBatch(inputs, counts)
}

/**
 * The scales of a step, and what they are made of.
 *
 * @property scales of each term in every call of a step, factor / count.
 */
internal class StepScales(val scales: FloatArray, val counts: Map<String, Double>)

/** The scale of each term in every call of a step. */
internal fun stepScales(
    parts: List<Map<String, Double>>, // the counts of all calls of the step
    factors: Map<String, Double>,
    terms: List<String>, // of the graph, in its order
): StepScales {
    val counts = factors.keys.associateWith { name -> maxOf(parts.sumOf { it.getValue(name) }, LEAST_COUNT) }
    val scales = FloatArray(terms.size) { i ->
        counts[terms[i]]?.let { (factors.getValue(terms[i]) / it).toFloat() } ?: 0.0f
    }
    return StepScales(scales, counts)
}

/** The factors of an objective. */
internal fun factorsOf(objective: String): Map<String, Double> = OBJECTIVES[objective] ?: throw SettingException(
    "objective \"$objective\" is not in the training step",
    "use ${OBJECTIVES.keys.joinToString(" or ")}, or train with torch",
    setting = "objective",
)

/** The distributions at tokens with a direct partner; mass outside the intersection is in OTHER. */
private fun onIntersection(batch: Batch): Distributions {
    val chosen = chosen(batch.direct) { batch.tokens.direct[it] }
    for (n in 0 until chosen.size) {
        val row = n * chosen.width until (n + 1) * chosen.width
        val other = chosen.other[n] + maxOf(1.0 - chosen.weights[n], 0.0)
        val total = row.sumOf { chosen.probabilities[it].toDouble() } + other
        val safe = maxOf(total, FLOOR)
        for (i in row) chosen.probabilities[i] = (chosen.probabilities[i] / safe).toFloat()
        chosen.other[n] = if (total > FLOOR) (other / safe).toFloat() else 1.0f
    }
    return chosen
}

private inline fun chosen(all: Distributions, takes: (Int) -> Boolean): Distributions {
    val taken = (0 until all.size).filter { takes(it) }
    val width = all.width
    val some = Distributions(
        rows = LongArray(taken.size) { all.rows[taken[it]] },
        width = width,
        ids = LongArray(taken.size * width),
        probabilities = FloatArray(taken.size * width),
        other = FloatArray(taken.size) { all.other[taken[it]] },
        weights = FloatArray(taken.size) { all.weights[taken[it]] },
    )
    for ((n, from) in taken.withIndex()) {
        all.ids.copyInto(some.ids, n * width, from * width, (from + 1) * width)
        all.probabilities.copyInto(some.probabilities, n * width, from * width, (from + 1) * width)
    }
    return some
}

private fun put(inputs: MutableMap<String, TypedArray>, name: String, distributions: Distributions) {
    val table = intArrayOf(distributions.size, distributions.width)
    inputs["$name.rows"] = LongValues(distributions.rows)
    inputs["$name.ids"] = LongValues(distributions.ids, table)
    inputs["$name.probabilities"] = FloatValues(distributions.probabilities, table)
    inputs["$name.other"] = FloatValues(distributions.other)
}
