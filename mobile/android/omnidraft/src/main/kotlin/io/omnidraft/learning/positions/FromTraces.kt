package io.omnidraft.learning.positions

import io.omnidraft.Defaults.LEARNER_OPEN_GENERATIONS as OPEN
import io.omnidraft.SettingException
import io.omnidraft.traces.Traced
import io.omnidraft.traces.TracedToken
import io.omnidraft.traces.concatenated
import io.omnidraft.vocab.VocabMap
import kotlin.math.exp
import kotlin.math.max
import kotlin.math.min

/* Recorded generations as training positions of the drafter, without a pass of either model (spec/13-learner.md). */

private const val NOTHING = 1e-9 // mass at the root below which no draft token can be written

/** Options of aligning recorded generations. */
internal class TraceAligner(
    val aligner: Aligner, // of the pair that the generations were recorded with
    val start: IntArray = IntArray(0), // ids at the start of every context of the drafter (bos)
    val targetAdapter: String? = null, // digest of the target's adapter in every record; null for no adapter
) {
    /** Refuse a record of another target. */
    fun check(traced: Traced) {
        if (traced.start.targetAdapter != targetAdapter) {
            throw SettingException(
                "a record is of the target with ${named(traced.start.targetAdapter)} and not with ${named(targetAdapter)}",
                "learn from each target alone",
            )
        }
    }

    /** Whether [align] gives a response: text comes before the first token, and both fit `maxLength`. */
    fun takes(traced: Traced): Boolean = takes(traced, prompt(traced))

    /**
     * The positions of one generation; null where no token fits `aligner.maxLength` or no text comes before it.
     *
     * Every token has the spelling of the vocabulary map, so that each has draft positions. The text before the first
     * token is cut from the left if necessary, to no less than half of `maxLength`. Tokens beyond `maxLength` are left out.
     */
    fun align(traced: Traced): Aligned? {
        check(traced)
        val prompt = prompt(traced)
        if (!takes(traced, prompt)) return null
        val tokens = traced.tokens
        val roots = if (aligner.trie.active.all { it }) tokens.map { root(it) } else null
        val ids = IntArray(tokens.size) { tokens[it].tokenId }
        return aligner.align(prompt, ids, rowsOf(tokens), roots = roots)
    }

    private fun takes(traced: Traced, prompt: IntArray): Boolean {
        val first = spellingLength(traced.rounds[0].tokens[0])
        return prompt.isNotEmpty() && prompt.size + first <= aligner.maxLength
    }

    /** The start ids, and as much of the text before the first token as fits. */
    private fun prompt(traced: Traced): IntArray {
        val most = aligner.maxLength - start.size
        val response = traced.rounds.sumOf { round -> round.tokens.sumOf { spellingLength(it) } }
        val room = maxOf(most - response, aligner.maxLength / 2 - start.size, 0)
        val context = traced.start.context
        return start + context.copyOfRange(context.size - min(room, context.size), context.size)
    }

    private fun spellingLength(token: TracedToken): Int = aligner.trie.map.spellings.length(token.tokenId)
}

/**
 * The positions of recorded generations; the records of one generation are joined to one response. The sequence throws
 * a [SettingException] as [TraceAligner.align] does.
 */
internal fun fromTraces(traces: Sequence<Traced>, aligner: TraceAligner): Sequence<Aligned> =
    joined(traces, aligner.aligner.trie.map).mapNotNull { aligner.align(it) }

/**
 * Join the records that continue one another to whole generations.
 *
 * A record ends where a segment is full or the drafter's adapter changes. A record after a pause continues a text that
 * was not recorded, so it stays alone. At most [OPEN] generations are in memory.
 */
internal fun joined(traces: Sequence<Traced>, map: VocabMap): Sequence<Traced> = sequence {
    val waiting = ArrayList<Traced>()
    for (traced in traces) {
        val at = waiting.indexOfFirst { goesOn(it, traced, map) }
        if (at >= 0) {
            waiting[at] = Traced(waiting[at].start, waiting[at].rounds + traced.rounds)
            continue
        }
        waiting.add(traced)
        if (waiting.size > OPEN) yield(waiting.removeAt(0))
    }
    yieldAll(waiting)
}

/** The recorded distributions. Each lists the emitted token with its exact probability. */
internal fun rowsOf(tokens: List<TracedToken>): TargetRows {
    val ids = ArrayList<IntArray>(tokens.size)
    val probabilities = ArrayList<DoubleArray>(tokens.size)
    val rest = DoubleArray(tokens.size)
    tokens.forEachIndexed { i, token ->
        val listed = token.distribution
        val others = listed.ids.indices.filter { listed.ids[it] != token.tokenId }
        val emitted = exp(-token.surprisal)
        // If the row does not list the emitted token, its probability is part of the rest.
        val left = if (others.size == listed.ids.size) max(0.0, listed.rest - emitted) else listed.rest
        val total = others.sumOf { listed.probabilities[it].toDouble() } + left
        // float16 sums to 1 within 1/2000.
        val share = if (total > NOTHING) (1.0 - emitted) / total else 0.0
        ids.add(IntArray(others.size + 1) { if (it < others.size) listed.ids[others[it]] else token.tokenId })
        probabilities.add(
            DoubleArray(others.size + 1) {
                if (it < others.size) listed.probabilities[others[it]] * share else emitted
            },
        )
        rest[i] = if (total > NOTHING) left * share else 1.0 - emitted
    }
    return TargetRows(ids.toTypedArray(), probabilities.toTypedArray(), rest)
}

/** The distribution at the root of the trie with all spellings active. */
private fun root(token: TracedToken): DraftDistribution? {
    val roots = token.roots
    val total = roots.probabilities.sumOf { it.toDouble() } + roots.rest
    if (total <= NOTHING) return null
    val probabilities = DoubleArray(roots.ids.size) { roots.probabilities[it] / total }
    return DraftDistribution(roots.ids, probabilities, roots.rest / total, max(0.0, 1.0 - token.unspelled))
}

/** Whether a record begins where another ends, with the same target and the same text. */
private fun goesOn(earlier: Traced, later: Traced, map: VocabMap): Boolean {
    val start = later.start
    if (!start.continues || start.targetAdapter != earlier.start.targetAdapter) return false
    val text = earlier.start.context + earlier.tokens.concatenated { map.spell(it.tokenId) }
    if (earlier.start.skipped + text.size != start.skipped + start.context.size) return false
    val shared = min(text.size, start.context.size)
    return (1..shared).all { text[text.size - it] == start.context[start.context.size - it] }
}

private fun named(adapter: String?): String = if (adapter == null) "no adapter" else "adapter ${adapter.take(12)}"
