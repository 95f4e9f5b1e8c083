package io.omnidraft.learning.positions

/*
 * Aligned responses as one batch of arrays, with the types that graphs take.
 *
 * The rows of logits of all responses form one list. Every distribution, token and label has the index of its row in
 * that list, so objectives need no sequences, padding or prompts. Fields of Python's batch that only objectives of the
 * training side read are left out.
 */

/**
 * Distributions over draft tokens.
 *
 * @property rows row of logits of each distribution.
 * @property width columns of the tables [ids] and [probabilities], at least 1, which a graph's input needs.
 * @property ids draft ids, row by row, padded with -1.
 * @property probabilities of the ids, 0 at padding.
 * @property other mass of the draft ids that are not listed.
 * @property weights see [SparseDistributions].
 */
internal class Distributions(
    val rows: LongArray,
    val width: Int,
    val ids: LongArray,
    val probabilities: FloatArray,
    val other: FloatArray,
    val weights: FloatArray,
) {
    /** Number of distributions. */
    val size: Int get() = rows.size
}

/**
 * Draft tokens of the responses.
 *
 * @property rows row of logits that predicts each token.
 * @property ids draft ids.
 * @property tokens the target token that each draft token helps to write, by its index in [Tokens].
 */
internal class Labels(val rows: LongArray, val ids: LongArray, val tokens: IntArray)

/**
 * Target tokens of the responses.
 *
 * @property ids target ids.
 * @property before the target id in front of each token; -1 where it is unknown.
 * @property sequences the response that each token is in.
 * @property rows see [TargetTokens].
 * @property lengths see [TargetTokens].
 * @property direct see [TargetTokens].
 * @property probabilities see [TargetTokens].
 */
internal class Tokens(
    val ids: LongArray,
    val before: LongArray,
    val sequences: LongArray,
    val rows: LongArray,
    val lengths: IntArray,
    val direct: BooleanArray,
    val probabilities: FloatArray,
)

/**
 * Responses for one step.
 *
 * @property inputIds draft ids of each response, row by row, padded with 0 on the right to [longest]; no earlier
 *     position attends to the padding.
 * @property longest draft ids of the longest response.
 * @property first the first position whose logits are needed.
 * @property sequences the response of each row of logits.
 * @property positions the position of each row in its response.
 * @property trie the target's distributions in the drafter's vocabulary.
 * @property direct the target's distributions on the intersection of the vocabularies.
 * @property labels the draft tokens of the responses.
 * @property tokens the target tokens of the responses.
 */
internal class Batch(
    val inputIds: LongArray,
    val longest: Int,
    val first: Int,
    val sequences: LongArray,
    val positions: LongArray,
    val trie: Distributions,
    val direct: Distributions,
    val labels: Labels,
    val tokens: Tokens,
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
        first = responses.minOf { it.promptLength } - 1,
        sequences = joined(responses, { it.numRows }) { b, _ -> b.toLong() },
        positions = joined(responses, { it.numRows }) { b, i -> responses[b].promptLength - 1L + i },
        trie = distributions(responses.map { it.trieDistributions }, rowStarts),
        direct = distributions(responses.map { it.directDistributions }, rowStarts),
        labels = labels(responses, rowStarts),
        tokens = tokens(responses, rowStarts),
    )
}

private fun labels(responses: List<Aligned>, rowStarts: IntArray): Labels {
    val tokenStarts = startsOf(responses) { it.tokens.size }
    val sizes = { response: Aligned -> response.owners.size }
    val owners = joined(responses, sizes) { b, i -> tokenStarts[b].toLong() + responses[b].owners[i] }
    return Labels(
        rows = joined(responses, sizes) { b, i -> rowStarts[b].toLong() + i },
        ids = joined(responses, sizes) { b, i -> responses[b].draftIds[responses[b].promptLength + i].toLong() },
        tokens = IntArray(owners.size) { owners[it].toInt() },
    )
}

private fun tokens(responses: List<Aligned>, rowStarts: IntArray): Tokens {
    val all = responses.map { it.tokens }
    val sizes = { response: Aligned -> response.tokens.size }
    val lengths = joined(responses, sizes) { b, i -> all[b].lengths[i].toLong() }
    val probabilities = DoubleArray(lengths.size)
    val direct = BooleanArray(lengths.size)
    var at = 0
    for (tokens in all) {
        tokens.probabilities.copyInto(probabilities, at)
        tokens.direct.copyInto(direct, at)
        at += tokens.size
    }
    return Tokens(
        ids = joined(responses, sizes) { b, i -> all[b].ids[i].toLong() },
        before = joined(responses, sizes) { b, i -> all[b].before[i].toLong() },
        sequences = joined(responses, sizes) { b, _ -> b.toLong() },
        rows = joined(responses, sizes) { b, i -> rowStarts[b].toLong() + all[b].rows[i] },
        lengths = IntArray(lengths.size) { lengths[it].toInt() },
        direct = direct,
        probabilities = FloatArray(probabilities.size) { probabilities[it].toFloat() },
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
