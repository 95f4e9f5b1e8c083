package io.omnidraft.learning.positions

/*
 * Aligned responses as one batch of arrays, with the types that graphs take.
 *
 * The rows of logits of all responses form one list. Every distribution has the index of its row in that list, so the
 * loss needs no sequences, padding or prompts.
 */

/** Distributions over draft tokens. */
internal class Distributions(
    val rows: LongArray, // row of logits of each distribution
    val width: Int, // columns of the tables ids and probabilities, at least 1, which a graph's input needs
    val ids: LongArray, // draft ids, row by row, padded with -1
    val probabilities: FloatArray, // of the ids, 0 at padding
    val other: FloatArray, // mass of the draft ids that are not listed
    val weights: FloatArray,
) {
    val size: Int get() = rows.size
}

/**
 * Responses for one step.
 *
 * @property inputIds draft ids of each response, row by row, padded with 0 on the right to [longest]; no earlier
 *     position attends to the padding.
 */
internal class Batch(
    val inputIds: LongArray,
    val longest: Int, // draft ids of the longest response
    val sequences: LongArray, // the response of each row of logits
    val positions: LongArray, // the position of each row in its response
    val trie: Distributions, // the target's distributions in the drafter's vocabulary
)

/** One batch of the responses, at least one; its numbers are float32. */
internal fun collate(responses: List<Aligned>): Batch {
    val longest = responses.maxOf { it.draftIds.size }
    val inputIds = LongArray(responses.size * longest)
    responses.forEachIndexed { b, response ->
        for (i in response.draftIds.indices) inputIds[b * longest + i] = response.draftIds[i].toLong()
    }
    val rowStarts = startsOf(responses) { it.numRows }
    return Batch(
        inputIds = inputIds,
        longest = longest,
        sequences = joined(responses, { it.numRows }) { b, _ -> b.toLong() },
        positions = joined(responses, { it.numRows }) { b, i -> responses[b].promptLength - 1L + i },
        trie = distributions(responses.map { it.trieDistributions }, rowStarts),
    )
}

private fun distributions(parts: List<SparseDistributions>, rowStarts: IntArray): Distributions {
    val count = parts.sumOf { it.size }
    val width = maxOf(1, parts.maxOf { part -> part.ids.maxOfOrNull { it.size } ?: 0 })
    val ids = LongArray(count * width) { -1L }
    val probabilities = FloatArray(count * width)
    val rows = LongArray(count)
    val other = FloatArray(count)
    val weights = FloatArray(count)
    var n = 0
    parts.forEachIndexed { b, part ->
        for (i in 0 until part.size) {
            rows[n] = rowStarts[b].toLong() + part.rows[i]
            other[n] = part.other[i].toFloat()
            weights[n] = part.weights[i].toFloat()
            for (k in part.ids[i].indices) {
                ids[n * width + k] = part.ids[i][k].toLong()
                probabilities[n * width + k] = part.probabilities[i][k].toFloat()
            }
            n += 1
        }
    }
    return Distributions(rows, width, ids, probabilities, other, weights)
}

/** The index of the first element of each response in a list of the elements of all. */
private inline fun startsOf(responses: List<Aligned>, size: (Aligned) -> Int): IntArray {
    val starts = IntArray(responses.size)
    for (b in 1 until responses.size) starts[b] = starts[b - 1] + size(responses[b - 1])
    return starts
}

/** One number for each element of each response, by the response and the index in it. */
private inline fun joined(responses: List<Aligned>, size: (Aligned) -> Int, value: (Int, Int) -> Long): LongArray {
    val all = LongArray(responses.sumOf { size(it) })
    var at = 0
    for (b in responses.indices) {
        for (i in 0 until size(responses[b])) all[at++] = value(b, i)
    }
    return all
}
