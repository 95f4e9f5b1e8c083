package io.omnidraft.traces

import io.omnidraft.Defaults
import io.omnidraft.TraceFileException
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.VocabMap
import kotlin.math.max

/*
 * A recorded generation as values: its rounds, and at each token the distribution of the target (spec/12-trace.md).
 * Training computes from these alone, without a second pass of the target.
 */

/** The pair of vocabularies of the ids of a trace. */
internal data class Vocabularies(
    val draftFingerprint: String, // of the drafter's tokenizer, 64 hexadecimal digits
    val targetFingerprint: String,
    val draftSize: Long, // width of the drafter's logits, 1 to 2^31
    val targetSize: Long, // width of the target's logits, 1 to 2^31
) {
    fun check(vocabularies: Vocabularies) {
        val other = vocabularies
        same("drafter tokenizer", draftFingerprint, other.draftFingerprint)
        same("target tokenizer", targetFingerprint, other.targetFingerprint)
        same("number of draft ids", draftSize, other.draftSize)
        same("number of target ids", targetSize, other.targetSize)
    }

    private fun same(who: String, ours: Any, theirs: Any) {
        if (ours == theirs) return
        val (shownOurs, shownTheirs) = "$ours".take(SHOWN) to "$theirs".take(SHOWN)
        throw TraceFileException("foreign_vocabulary", "its $who is $shownTheirs, that of these models is $shownOurs")
    }

    companion object {
        private const val SHOWN = 12 // digits of a fingerprint

        fun of(vocabMap: VocabMap): Vocabularies = Vocabularies(
            vocabMap.draftFingerprint,
            vocabMap.targetFingerprint,
            vocabMap.draftSize.toLong(),
            vocabMap.targetSize.toLong(),
        )
    }
}

/**
 * The largest probabilities of a distribution.
 *
 * @property ids ascending, [Defaults.TRACE_TOP] at most.
 * @property probabilities of these ids, each a number that float16 holds exactly, none below [Defaults.TRACE_FLOOR].
 * @property rest the mass of all other ids.
 */
internal class Masses(val ids: IntArray, val probabilities: FloatArray, val rest: Double)

/** An emitted target token, and the target's distribution before it: at temperature 1, without penalty and truncation. */
internal class TracedToken(
    val tokenId: Int, // the target id
    val surprisal: Double, // -ln of its probability in the distribution, in nats
    val accepted: Boolean, // whether it was proposed
    val distribution: Masses, // over target ids
    val roots: Masses, // over the first draft ids of all spellings, active or not: P at the root of the whole trie
    val unspelled: Double, // the mass of the target tokens without a spelling in the trie; roots does not hold it
)

/** What an entry of a trace's file holds: the beginning of a record, or a round of it. */
internal sealed interface Content

/** The tokens that one target pass emitted, one at least. */
internal class TracedRound(val tokens: List<TracedToken>) : Content

internal class Start(
    val drafterAdapter: String?, // digest of the drafter's adapter in use, 64 hexadecimal digits; null for none
    val targetAdapter: String?, // digest of the target's adapter in use; null for none
    val mode: String,
    val continues: Boolean, // whether it continues a generation, after a pause, another adapter or a full segment
    val skipped: Long, // number of draft ids of the text before context
    val context: IntArray, // the latest draft ids of the text, Defaults.TRACE_WINDOW at most; emitted tokens as spelled
) : Content {
    /** The same beginning, of a record that continues a generation. */
    fun continuing(): Start = Start(drafterAdapter, targetAdapter, mode, true, skipped, context)
}

/** A generation, or a part of one. */
internal class Traced(val start: Start, val rounds: List<TracedRound>) {
    val tokens: List<TracedToken> get() = rounds.flatMap { it.tokens }
}

/** The number of draft ids of a text that a record leaves out, and the ids that it keeps. */
internal fun window(text: IntList): Pair<Long, IntArray> {
    val skipped = max(0, text.size - Defaults.TRACE_WINDOW)
    return Pair(skipped.toLong(), text.toArray(skipped))
}

internal inline fun <T> List<T>.concatenated(idsOf: (T) -> IntArray): IntArray {
    val whole = IntArray(sumOf { idsOf(it).size })
    var at = 0
    for (each in this) {
        val ids = idsOf(each)
        ids.copyInto(whole, at)
        at += ids.size
    }
    return whole
}
