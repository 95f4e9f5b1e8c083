package io.omnidraft.learning.positions

import io.omnidraft.Defaults
import io.omnidraft.SettingException
import io.omnidraft.traces.concatenated
import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.VocabMap

/* Align a response of the target with the drafter's positions (spec/13-learner.md, Places). */

/**
 * Some distributions over draft tokens, each with its listed ids.
 *
 * @property rows the row of the response that each distribution belongs to. Two distributions may belong to one row.
 */
internal class SparseDistributions(
    val rows: IntArray,
    val ids: Array<IntArray>, // draft ids of each distribution
    val probabilities: Array<DoubleArray>, // of these ids
    val other: DoubleArray, // probability of all ids that are not listed
    val weights: DoubleArray,
) {
    val size: Int get() = rows.size
}

/**
 * One response.
 *
 * @property trieDistributions the target's distribution in the drafter's vocabulary, at each position that has one.
 */
internal class Aligned(
    val draftIds: IntArray, // prompt and response in draft tokens
    val promptLength: Int, // draft tokens of the prompt, 1 or more
    val tokens: IntArray, // target ids
    val rows: IntArray, // the row of the response where the spelling of each target token begins
    val trieDistributions: SparseDistributions,
    val vocabMap: VocabMap,
) {
    /** Rows of logits: one after the prompt, and one after each draft token of the response. */
    val numRows: Int get() = draftIds.size - promptLength + 1
}

/**
 * Options of the alignment.
 *
 * @property trie its active spellings are taught; [fullTrie] for all spellings.
 * @property maxLength draft tokens of prompt and response together; later target tokens are dropped.
 * @property keep draft ids in a distribution at most.
 */
internal class Aligner(val trie: ActiveTrie, val maxLength: Int, val keep: Int = Defaults.LEARNER_KEEP) {
    private val map: VocabMap get() = trie.map

    /**
     * The training positions of one response.
     *
     * @param roots the distribution of each row at the root of this trie, computed from the whole row; null computes it
     *     from [rows].
     * @throws SettingException there is no prompt, rows and tokens differ in number, a row is not a distribution, or ids
     *     outside a vocabulary.
     */
    fun align(
        draftPrompt: IntArray, // the prompt in draft ids, with the start token; at least one id
        tokens: IntArray, // the emitted target ids
        rows: TargetRows, // the target's distribution before each of them
        roots: List<DraftDistribution?>? = null,
    ): Aligned {
        check(draftPrompt, tokens, rows)
        val known = roots ?: List(rows.size) { rootDistribution(trie, rows, it) }
        val spellings = fitting(tokens, maxLength - draftPrompt.size)
        val kept = tokens.copyOf(spellings.size)
        val starts = starts(IntArray(spellings.size) { spellings[it].size })
        return Aligned(
            draftIds = draftPrompt + spellings.concatenated { it },
            promptLength = draftPrompt.size,
            tokens = kept,
            rows = starts,
            trieDistributions = trieDistributions(kept, starts, spellings, rows, known),
            vocabMap = map,
        )
    }

    /** The spellings of the first tokens, as many as fit. */
    private fun fitting(tokens: IntArray, room: Int): List<IntArray> {
        val spellings = ArrayList<IntArray>(tokens.size)
        var length = 0
        for (token in tokens) {
            val spelling = map.spell(token)
            length += spelling.size
            if (length > room) break
            spellings.add(spelling)
        }
        return spellings
    }

    private fun check(draftPrompt: IntArray, tokens: IntArray, rows: TargetRows) {
        if (draftPrompt.isEmpty()) {
            throw SettingException("the draft prompt is empty", "give it the drafter's start token at least")
        }
        if (tokens.size != rows.size) {
            throw SettingException("a response of ${tokens.size} tokens has ${rows.size} target rows", "give one each")
        }
        if (!rows.finite) {
            throw SettingException(
                "a target row is not a distribution (finite, not negative, of sum 1)",
                "leave the response out",
            )
        }
        checkIds("draft prompt", draftPrompt, map.draftSize)
        checkIds("response", tokens, map.targetSize)
        for (ids in rows.ids) checkIds("target rows", ids, map.targetSize)
    }

    private fun checkIds(name: String, ids: IntArray, size: Int) {
        if (ids.any { it < 0 || it >= size }) {
            throw SettingException(
                "the $name hold an id outside 0..${size - 1}",
                "use the vocabulary map of this pair",
            )
        }
    }

    /** One distribution at the start of each token, and one at each position inside a spelling. */
    private fun trieDistributions(
        tokens: IntArray,
        starts: IntArray,
        spellings: List<IntArray>,
        rows: TargetRows,
        roots: List<DraftDistribution?>,
    ): SparseDistributions {
        val placed = ArrayList<Pair<Int, DraftDistribution>>()
        fun place(row: Int, distribution: DraftDistribution?) {
            if (distribution != null) placed.add(row to distribution.top(keep))
        }
        for (i in tokens.indices) {
            val row = starts[i]
            val node = if (i > 0 && isActive(tokens[i - 1])) nodeOf(trie, spellings[i - 1]) else null
            if (node != null && hasChildren(trie, node)) {
                place(row, afterDistribution(trie, rows, i - 1, node, roots[i]))
            } else {
                place(row, roots[i])
            }
            if (!isActive(tokens[i])) continue
            for (depth in 1 until spellings[i].size) {
                val inside = checkNotNull(nodeOf(trie, spellings[i], depth)) { "an active spelling has no node" }
                place(row + depth, insideDistribution(trie, rows, i, inside))
            }
        }
        return sparse(placed)
    }

    /** Whether the spelling of a token is active in the trie; false for aliases and for inactive tokens. */
    private fun isActive(token: Int): Boolean {
        val leaf = map.leafOf[token]
        return leaf >= 0 && trie.active[leaf]
    }
}

private fun sparse(placed: List<Pair<Int, DraftDistribution>>): SparseDistributions = SparseDistributions(
    rows = IntArray(placed.size) { placed[it].first },
    ids = Array(placed.size) { placed[it].second.ids },
    probabilities = Array(placed.size) { placed[it].second.probabilities },
    other = DoubleArray(placed.size) { placed[it].second.other },
    weights = DoubleArray(placed.size) { placed[it].second.weight },
)

/** Where parts of these sizes begin, one after another. */
private fun starts(sizes: IntArray): IntArray {
    var at = 0
    return IntArray(sizes.size) { i -> at.also { at += sizes[i] } }
}
