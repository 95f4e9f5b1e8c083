package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.Defaults.PROMPT_LOOKUP_LONGEST as LONGEST
import io.omnidraft.Defaults.PROMPT_LOOKUP_SHORTEST as SHORTEST
import io.omnidraft.grammar.Constraint
import io.omnidraft.vocab.IntList

/* Copying: the text so far suggests how it continues, without a drafter (spec/04-speculation.md, section 3). */

/**
 * A [Proposer] that copies what followed the context's last tokens before.
 *
 * The longest suffix of 4, 3 or 2 tokens that occurred earlier decides; of several occurrences the latest. The copy
 * may run into itself, so a text that repeats continues to repeat.
 */
internal open class PromptLookup : Proposer {
    private val followed = Array(LONGEST - SHORTEST + 1) { Followers(SHORTEST + it) }
    private var seen = 0

    override fun find(tokens: IntList): Copy {
        index(tokens)
        val position = follower(tokens)
        if (position < 0) return NO_COPY
        val copied = IntArray(Defaults.MAX_DRAFT_TOKENS)
        for (i in copied.indices) {
            val at = position + i
            copied[i] = if (at < tokens.size) tokens[at] else copied[at - tokens.size]
        }
        return Copy(copied, matchLength(tokens, position))
    }

    override fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft =
        Draft(copied = copy.tokens.copyOf(minOf(plan.count, copy.tokens.size)))

    override fun translate(draft: Draft, room: Int): Proposal {
        val proposal = Proposal()
        for (i in 0 until minOf(room, draft.copied.size)) proposal.emit(draft.copied[i], 0) // no draft token is used
        return proposal
    }

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict =
        verifyMatch(proposal, probs, random)

    override fun learn(outcome: Outcome, context: IntList): Int = 0

    /** Note every n-gram that has a follower, later ones over earlier ones. */
    private fun index(tokens: IntList) {
        for (end in seen until tokens.size) {
            for (table in followed) if (table.length <= end) table.put(tokens, end)
        }
        seen = tokens.size
    }

    /** The position after the latest occurrence of the longest suffix that occurred before; -1 where none did. */
    private fun follower(tokens: IntList): Int {
        for (table in followed.reversed()) {
            val position = if (table.length <= tokens.size) table.get(tokens, tokens.size) else -1
            if (position >= 0) return position
        }
        return -1
    }
}

/** Plain decoding: a [Proposer] that proposes nothing, so that each round is one sample of the target. */
internal class PlainProposer : PromptLookup() {
    override fun find(tokens: IntList): Copy = NO_COPY
}

/**
 * The latest follower of each n-gram of a text: an open hash table of positions in the text, which holds the n-grams.
 */
private class Followers(val length: Int) {
    private var slots = IntArray(256) { -1 }
    private var used = 0

    /** Note that the n-gram that ends before [end] is followed by the token at [end]. */
    fun put(tokens: IntList, end: Int) {
        if (2 * (used + 1) > slots.size) grow(tokens)
        val slot = slot(tokens, end)
        if (slots[slot] < 0) used++
        slots[slot] = end
    }

    /** The position of the latest follower of the n-gram that ends before [end]; -1 where there is none. */
    fun get(tokens: IntList, end: Int): Int = slots[slot(tokens, end)]

    /** The slot of an n-gram, or the free one where it belongs. */
    private fun slot(tokens: IntList, end: Int): Int {
        var hash = 0
        for (i in end - length until end) hash = (hash xor tokens[i]) * -0x61c88647
        var slot = (hash ushr 7) and (slots.size - 1)
        while (slots[slot] >= 0 && !isSame(tokens, slots[slot], end)) slot = (slot + 1) and (slots.size - 1)
        return slot
    }

    private fun isSame(tokens: IntList, a: Int, b: Int): Boolean {
        for (i in 1..length) if (tokens[a - i] != tokens[b - i]) return false
        return true
    }

    private fun grow(tokens: IntList) {
        val old = slots
        slots = IntArray(2 * old.size) { -1 }
        for (position in old) if (position >= 0) slots[slot(tokens, position)] = position
    }
}

/** A [Proposer] with two sources: a drafter, and the context where the draft length prefers it. */
internal class CopyingProposer(private val drafting: TrieProposer) : Proposer {
    private val copying = PromptLookup()

    /** See [TrieProposer.allow]. */
    fun allow(allowed: Allowed) = drafting.allow(allowed)

    override fun find(tokens: IntList): Copy = copying.find(tokens)

    override fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft {
        val source = if (plan.source == Source.COPY) copying else drafting
        return source.propose(plan, copy, context, random)
    }

    override fun translate(draft: Draft, room: Int): Proposal = sourceOf(draft).translate(draft, room)

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict =
        sourceOf(draft).verify(draft, proposal, probs, random)

    override fun learn(outcome: Outcome, context: IntList): Int = drafting.learn(outcome, context)

    private fun sourceOf(draft: Draft): Proposer = if (draft.copied.isEmpty()) drafting else copying
}

// Fixed tokens that were proposed, and right, before any was.
private const val USUAL_TRIED = 10
private const val USUAL_AGREED = 9

/**
 * A [Proposer], and its [DraftLength], for a text in a grammar.
 *
 * What the grammar fixes is proposed before anything else, as much of it as the measured costs repay; of such a round
 * the draft length learns only what the drafter has not read. Copies end where they leave the grammar.
 */
internal class InGrammar(
    private val inner: Proposer,
    private val length: DraftLength,
    private val constraint: Constraint,
) : Proposer by inner, DraftLength {
    private val fixing = PromptLookup()
    private var fixed = 0 // tokens that are fixed and proposed in this round
    private var certain = 0 // how many of them nothing else may replace
    private var tried = USUAL_TRIED
    private var agreed = USUAL_AGREED
    private var fixingRounds = 0
    private var otherRounds = 0

    private val source: Proposer get() = if (fixed > 0) fixing else inner

    init {
        if (constraint.masksDrafts) {
            if (inner is TrieProposer) inner.allow(constraint::draftAllowed)
            if (inner is CopyingProposer) inner.allow(constraint::draftAllowed)
        }
    }

    override fun find(tokens: IntList): Copy {
        val copy = inner.find(tokens)
        val (ids, count) = constraint.fixed(Defaults.MAX_PROPOSED_TOKENS)
        certain = count
        fixed = worth(ids.size)
        if (fixed > 0) return Copy(ids.copyOf(fixed))
        val valid = constraint.validStart(copy.tokens)
        return if (valid.isEmpty()) NO_COPY else Copy(valid, copy.match)
    }

    override fun next(match: Int): Plan {
        if (fixed > 0) {
            fixingRounds++
            return Plan(Source.COPY, fixed)
        }
        otherRounds++
        // What the drafter reads is of use up to the next fixed bytes, which it has to read too.
        if (fixingRounds > 0) length.repay(otherRounds.toDouble() / fixingRounds)
        return length.next(match)
    }

    override fun record(counts: RoundCounts) {
        if (fixed == 0) return length.record(counts)
        length.record(RoundCounts(NO_IDS, 0, 0, counts.emitted))
        agreed += maxOf(0, counts.agreed - certain)
        tried += maxOf(0, minOf(counts.agreed + 1, fixed) - certain)
    }

    override fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft =
        source.propose(plan, copy, context, random)

    override fun translate(draft: Draft, room: Int): Proposal = source.translate(draft, room)

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict =
        source.verify(draft, proposal, probs, random)

    /** How many of [most] fixed tokens give the most tokens a second; all of them where no costs are known. */
    private fun worth(most: Int): Int {
        val costs = length.costs ?: return most
        val share = minOf(1.0, agreed.toDouble() / tried)
        var best = certain
        var tokens = 1.0 + certain
        var speed = tokens / if (certain > 0) costs.copySeconds(certain) else costs.passSeconds(1)
        var each = 1.0
        for (count in certain + 1..most) {
            each *= share
            tokens += each
            if (tokens / costs.copySeconds(count) <= speed) continue
            best = count
            speed = tokens / costs.copySeconds(count)
        }
        return best
    }
}

/** How many tokens before a position are the last tokens too; [Defaults.DRAFT_LENGTH_LONGEST_MATCH] at most. */
private fun matchLength(tokens: IntList, position: Int): Int {
    val most = minOf(Defaults.DRAFT_LENGTH_LONGEST_MATCH, position)
    var length = 0
    while (length < most && tokens[position - 1 - length] == tokens[tokens.size - 1 - length]) length++
    return length
}
