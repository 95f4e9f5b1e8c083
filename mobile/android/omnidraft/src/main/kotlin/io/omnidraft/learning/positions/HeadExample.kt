package io.omnidraft.learning.positions

import kotlin.math.min

/*
 * A response as training example of the adaptive head (spec/13-learner.md, "For head.onnx").
 *
 * At every row of a response the current drafter draws a token, as at run time after an accepted prefix. The label is
 * the probability that this token is accepted. No draft of an earlier drafter is needed, so a response can be used again
 * while the drafter changes.
 */

/**
 * One response with its draws. The chances that Python's example has too are read by the training side alone.
 *
 * @property draftIds prompt and response in draft tokens.
 * @property positions of the last token before each draw.
 * @property nextIds the draft token that continues the response at each draw; -1 where the target's token is not active,
 *     so that no draft is correct.
 * @property longer draft ids that write the next two or more target tokens at once, of each draw.
 */
internal class HeadExample(
    val draftIds: IntArray,
    val positions: IntArray,
    val nextIds: IntArray,
    val longer: Array<IntArray>,
)

/** The example of one response, with a draw at each of its draft tokens that has a distribution. */
internal fun headExample(response: Aligned): HeadExample {
    val count = response.owners.size
    val known = BooleanArray(count)
    for (row in response.trieDistributions.rows) if (row < count) known[row] = true
    val rows = known.indices.filter { known[it] }
    val active = active(response)
    val longer = longer(response)
    return HeadExample(
        draftIds = response.draftIds,
        positions = IntArray(rows.size) { response.promptLength - 1 + rows[it] },
        nextIds = IntArray(rows.size) {
            val row = rows[it]
            if (active[response.owners[row]]) response.draftIds[response.promptLength + row] else -1
        },
        longer = Array(rows.size) { longer[rows[it]] },
    )
}

/** Which target tokens are active in the aligner's trie: their spelling has a distribution inside. */
private fun active(response: Aligned): BooleanArray {
    val tokens = response.tokens
    val known = BooleanArray(response.numRows + 1)
    for (row in response.trieDistributions.rows) known[row] = true
    return BooleanArray(tokens.size) {
        if (tokens.lengths[it] == 1) tokens.direct[it] else known[min(tokens.rows[it] + 1, response.numRows)]
    }
}

/** The draft tokens whose expansion is the next target tokens, by row. */
private fun longer(response: Aligned): List<IntArray> {
    val map = response.vocabMap
    val emitted = response.tokens.ids
    val drafts = List(response.numRows) { ArrayList<Int>() }
    for (i in emitted.indices) {
        for (draft in map.longerFrom[emitted[i]] ?: continue) {
            if (continuesWith(emitted, i, map.expansions.row(draft))) drafts[response.tokens.rows[i]].add(draft)
        }
    }
    return drafts.map { it.toIntArray() }
}

private fun continuesWith(emitted: IntArray, at: Int, expansion: IntArray): Boolean =
    at + expansion.size <= emitted.size && expansion.indices.all { emitted[at + it] == expansion[it] }
