package io.omnidraft.decoding

import io.omnidraft.vocab.ActiveTrie
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap

/*
 * Where proposals come from: the interface between the loop and a drafter, or another source of guesses.
 *
 * A mode is a Proposer. Each proposer verifies its own guesses, so that the output's distribution is the target's.
 */

/** How the context suggests that a text continues. */
internal class Copy(val tokens: IntArray = NO_IDS, val match: Int = 0)

internal val NO_COPY: Copy = Copy()

/** A verified round before anything was learned from it. */
internal class Outcome(val draft: Draft, val proposal: Proposal, val verdict: Verdict, val emitted: IntArray)

/** Guesses how a text continues, and verifies its own guesses. */
internal interface Proposer {
    /**
     * What could be copied from the context; [NO_COPY] where this proposer copies nothing.
     *
     * @param tokens all target ids so far; from round to round they only grow.
     */
    fun find(tokens: IntList): Copy

    /** Tokens that may follow, as planned. */
    fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft

    /** The draft in target tokens, at most [room] of them. */
    fun translate(draft: Draft, room: Int): Proposal

    fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict

    /** Append the round's output to the draft context and learn from it. */
    fun learn(outcome: Outcome, context: IntList): Int
}

/**
 * Asks the drafter and translates its tokens by the trie of active spellings.
 *
 * @param temperature of the drafter's distribution. Truncation and penalties are not applied to it: the output is
 *   exact with any distribution q, if the verifier gets the same q.
 */
internal open class TrieProposer(
    val drafter: Drafter, // the small model; its KV cache is rewritten
    val cache: NgramCache,
    private val temperature: Double,
    private val verifier: Verifier = Verifier(::verifyTokens), // verifyTokens or verifyBlock
) : Proposer {
    protected val trie: ActiveTrie = cache.trie
    private val buffers by lazy(LazyThreadSafetyMode.NONE) { OptionBuffers(trie) }
    private val banned: IntArray = bannedIds(cache.map)
    private var allowed: Allowed? = null

    /** Draft only ids that may follow the drafted ones, as in a grammar; see [Drafter.propose]. */
    fun allow(allowed: Allowed) {
        this.allowed = allowed
    }

    override fun find(tokens: IntList): Copy = NO_COPY

    override fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft =
        if (plan.count == 0) Draft() else drafter.propose(context, plan, temperature, banned, random, allowed)

    override fun translate(draft: Draft, room: Int): Proposal = translate(draft.tokens, trie, room)

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict {
        buffers.refresh()
        return verifier.verify(proposal, draft.distributions, probs, trie, random, buffers)
    }

    override fun learn(outcome: Outcome, context: IntList): Int {
        val tokens = outcome.verdict.tokens(outcome.proposal)
        context.addAll(respell(outcome.draft, outcome.proposal, tokens, cache.map))
        return cache.learn(outcome.emitted, minOf(outcome.verdict.accepted, outcome.emitted.size))
    }
}

private fun bannedIds(map: VocabMap): IntArray {
    val banned = IntList()
    for (id in 0 until map.draftSize) if (!map.draftAllowed[id]) banned.add(id)
    return banned.toArray()
}

/** Translates by the longest spelling and accepts what the target samples: used at temperature 0. */
internal class MatchProposer(
    drafter: Drafter,
    cache: NgramCache,
    temperature: Double = 0.0,
) : TrieProposer(drafter, cache, temperature) {
    override fun translate(draft: Draft, room: Int): Proposal = translateLongest(draft.tokens, trie, room)

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict =
        verifyMatch(proposal, probs, random)
}

/**
 * A round's output in draft tokens: the draft as far as it was accepted, then the spelling of the rest.
 *
 * Example: the draft token "sfo" stands for the target tokens S, F, O. If all three are accepted, the draft token
 * stays. If only S and F are accepted, both are spelled again: "s", "f".
 *
 * @param tokens accepted proposed tokens, and the one after them.
 */
internal fun respell(draft: Draft, proposal: Proposal, tokens: IntArray, map: VocabMap): IntArray {
    val ends = proposal.ends
    var whole = 0
    if (draft.copied.isEmpty()) { // else no drafter spelled them
        whole = minOf(tokens.size - 1, ends.size)
        // A long draft token that was accepted in part only is spelled again.
        while (whole in 1 until ends.size && ends[whole] == ends[whole - 1]) whole--
    }
    val context = IntList()
    if (whole > 0) context.addAll(draft.tokens.toArray(0, ends[whole - 1]))
    for (i in whole until tokens.size) context.addAll(map.spell(tokens[i]))
    return context.toArray()
}
