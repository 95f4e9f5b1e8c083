package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.grammar.Constraint
import io.omnidraft.vocab.IntList

/* The loop: draft, translate, score, verify, learn, repeat (spec/04-speculation.md). */

internal const val PREFILL_CHUNK: Int = 64 // tokens of a prompt in one pass; a cancellation waits for one pass

/** Called with each verified round before anything is learned from it. */
internal typealias Observer = (Outcome, TargetProbs) -> Unit

/** Seconds of a round by its parts; see `Stopwatch` in session/Decode.kt. */
internal data class Seconds(
    val draft: Double = 0.0,
    val translate: Double = 0.0,
    val target: Double = 0.0,
    val verify: Double = 0.0,
    val learn: Double = 0.0,
) {
    operator fun plus(other: Seconds): Seconds = Seconds(
        draft + other.draft, translate + other.translate, target + other.target, verify + other.verify,
        learn + other.learn,
    )
}

/** What the target read before a round: the prompt, or text that its KV cache lacked; see `Stopwatch`. */
internal data class TextRead(val tokens: Int = 0, val seconds: Double = 0.0) {
    operator fun plus(other: TextRead): TextRead = TextRead(tokens + other.tokens, seconds + other.seconds)
}

/**
 * One target pass: what was drafted, proposed, accepted and emitted.
 *
 * @property logprobs natural log-probabilities of the emitted ids under the distribution that they were sampled from,
 *   after penalty, temperature and truncation; at temperature 0 under the softmax of the penalised logits. Empty
 *   unless asked for.
 */
internal data class Round(
    val draft: IntArray, // draft ids; none where the context was copied from
    val proposed: IntArray, // target ids
    val accepted: Int, // number of proposed ids among the emitted
    val emitted: IntArray, // target ids that are output, cut at the end of the text
    val evaluated: Int, // draft tokens up to the one that ended the round
    val acceptedDrafts: Int, // accepted draft tokens
    val learned: Int = 0, // number of n-grams that are new in the cache
    val copied: Boolean = false, // whether the proposed ids were copied from the context
    val unsound: Boolean = false, // whether the drafter gave NaN or infinity, so that the draft ended there
    val logprobs: DoubleArray = DoubleArray(0),
    val seconds: Seconds = Seconds(), // where the time went; zeros unless measured
    val read: TextRead = TextRead(), // what the target read before; zeros unless measured
) {
    companion object {
        /** The plain values of a round; nothing of the size of a vocabulary is kept. */
        fun of(outcome: Outcome, learned: Int): Round {
            val verdict = outcome.verdict
            return Round(
                outcome.draft.tokens.toArray(),
                outcome.proposal.tokens.toArray(),
                minOf(verdict.accepted, outcome.emitted.size),
                outcome.emitted,
                verdict.evaluated,
                verdict.acceptedDrafts,
                learned,
                outcome.draft.copied.isNotEmpty(),
                outcome.draft.unsound,
            )
        }
    }
}

/** A text while it is decoded, in both vocabularies. */
internal class DecoderState {
    /** Target ids, prompt and output; [speculate] extends them. */
    var tokens: IntList = IntList()
        private set

    /** The same text in draft ids, which the proposer extends; empty in modes plain and lookup. */
    var context: IntList = IntList()

    /** Target tokens that may still be emitted. */
    var remaining: Int = 0

    /** Says which of a round's tokens are output, and whether the text ends there. */
    var cut: Cut = cutAtEos(emptySet())

    /** Keeps the output in a grammar; [remaining] then says when it must be whole. */
    var constraint: Constraint? = null
        private set

    /** Target ids that the target's KV cache holds. */
    val cached: IntList = IntList()

    /** The memory of the target's distributions, for all texts of a session. */
    val workspace: Workspace = Workspace()

    /** Begin another text, and keep what the KV cache shares with it. */
    fun restart(tokens: IntArray, context: IntArray, remaining: Int, cut: Cut, constraint: Constraint? = null) {
        this.tokens = IntList().apply { addAll(tokens) }
        this.context = IntList().apply { addAll(context) }
        this.remaining = remaining
        this.cut = cut
        this.constraint = constraint
        cached.truncate(commonLength(cached, tokens.copyOf(maxOf(0, tokens.size - 1))))
    }

    /**
     * Target tokens that may be proposed in the next pass; negative at the end of the text.
     *
     * A pass emits one token more than it accepts, so with one token remaining nothing may be proposed.
     */
    fun room(target: Model): Int = minOf(Defaults.MAX_PROPOSED_TOKENS, target.maxLength - tokens.size, remaining - 1)

    /** Whether the target's KV cache holds the text up to its last token. */
    val isRead: Boolean get() = cached.size >= tokens.size - 1

    /** Read the text up to its last token, as far as the target's KV cache lacks it. */
    fun prefill(target: Model) {
        target.rewind(cached.size)
        while (!isRead) {
            val chunk = tokens.toArray(cached.size, minOf(cached.size + PREFILL_CHUNK, tokens.size - 1))
            target.score(chunk, 1)
            cached.addAll(chunk)
        }
    }

    /**
     * The logits of a pass over the last token and proposed ones.
     *
     * There are none for the first tokens that are the only ones that a grammar allows.
     */
    fun score(target: Model, proposed: IntArray): Logits {
        val certain = constraint?.certain(proposed, remaining) ?: 0
        return target.score(intArrayOf(last()) + proposed, proposed.size + 1 - certain)
    }

    /** The target's distributions of a pass that [score] ran; they take the place of the last ones. */
    fun probs(logits: Logits, sampling: SamplingConfig, proposed: IntArray): TargetProbs {
        workspace.reset()
        val context = if (sampling.repetitionPenalty == 1.0) NO_IDS else tokens.toArray() + proposed
        val allowed = constraint?.rows(proposed, remaining) ?: { null }
        val certain = proposed.copyOf(proposed.size + 1 - logits.rows)
        return TargetProbs(logits, sampling, context, workspace, allowed, certain)
    }

    /** Append the tokens of a round; return those that are output, and whether the text ends. */
    fun extend(tokens: IntArray): Emitted {
        val valid = constraint?.advance(tokens, remaining) ?: Emitted(tokens, false)
        val emitted = cut.cut(valid.tokens).let { Emitted(it.tokens, it.ended || valid.ended) }
        cached.add(last())
        cached.addAll(emitted.tokens, 0, emitted.tokens.size - 1)
        this.tokens.addAll(emitted.tokens)
        remaining -= emitted.tokens.size
        return emitted
    }

    fun last(): Int = tokens[tokens.size - 1]
}

/** Rounds whose emitted tokens follow the target's own distribution; drafting only saves time. */
internal fun speculate(
    target: Model, // the model that writes the text; its KV cache is rewritten where it differs from the text
    proposer: Proposer, // guesses the next tokens and verifies its guesses
    text: DecoderState, // at least one token; grows by what each round emits
    sampling: SamplingConfig, // how the target's logits become distributions
    draftLength: DraftLength, // what each round proposes, and how many tokens
    random: RandomSource,
    observe: Observer = { _, _ -> }, // called with each verified round before anything is learned from it
): Iterator<Round> = iterator {
    while (true) {
        val room = text.room(target)
        if (room < 0) return@iterator
        val copy = if (room > 0) proposer.find(text.tokens) else NO_COPY
        val plan = if (room > 0) draftLength.next(copy.match) else Plan()
        val scored = score(target, proposer, text, plan, copy, room, draftLength, random)
        val probs = text.probs(scored.logits, sampling, scored.proposed)
        val verdict = proposer.verify(scored.draft, scored.proposal, probs, random)
        val emitted = text.extend(verdict.tokens(scored.proposal))
        target.rewind(text.tokens.size - 1)
        val outcome = Outcome(scored.draft, scored.proposal, verdict, emitted.tokens)
        observe(outcome, probs)
        val learned = proposer.learn(outcome, text.context) // also extends the draft context
        draftLength.record(counts(outcome, copy))
        yield(Round.of(outcome, learned))
        if (emitted.ended) return@iterator
    }
}

/** A draft, its proposal, and the rows of the target's pass over it. */
private class Scored(val draft: Draft, val proposal: Proposal, val proposed: IntArray, val logits: Logits)

/** Draft, translate and score. */
private fun score(
    target: Model,
    proposer: Proposer,
    text: DecoderState,
    plan: Plan,
    copy: Copy,
    room: Int,
    draftLength: DraftLength,
    random: RandomSource,
): Scored {
    if (plan.fresh) text.context.removeFirst(maxOf(0, text.context.size - Defaults.DRAFT_LENGTH_MOST_UNREAD))
    text.prefill(target)
    val draft = proposer.propose(plan, copy, text.context, random)
    val proposal = proposer.translate(draft, room)
    val proposed = proposal.tokens.toArray()
    return Scored(draft, proposal, proposed, text.score(target, proposed))
}

/** What the draft length learns from a round. */
private fun counts(outcome: Outcome, copy: Copy): RoundCounts {
    val verdict = outcome.verdict
    val emitted = outcome.emitted
    val most = minOf(copy.tokens.size, emitted.size)
    val agreed = (0 until most).firstOrNull { copy.tokens[it] != emitted[it] } ?: most
    val classes = outcome.draft.classes.toArray()
    return RoundCounts(classes, verdict.evaluated, verdict.acceptedDrafts, emitted.size, copy.match, agreed)
}
