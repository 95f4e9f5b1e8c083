package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.vocab.ActiveTrie

/*
 * Verification: accept as much of a proposal as leaves the output's distribution exactly the target's
 * (spec/04-speculation.md, section 7).
 */

internal data class Verdict(
    val accepted: Int, // number of proposed target tokens that are accepted
    val token: Int, // the target token after them: a correction, or the bonus when all are accepted
    val isBonus: Boolean, // whether every decision was accepted
    val evaluated: Int, // number of draft tokens that were verified
    val acceptedDrafts: Int, // number of those that were accepted
) {
    /** The target tokens of the round: the accepted ones, and the one after them. */
    fun tokens(proposal: Proposal): IntArray =
        IntArray(accepted + 1) { if (it < accepted) proposal.tokens[it] else token }
}

/** A rule that verifies the decisions of a proposal. */
internal fun interface Verifier {
    fun verify(
        proposal: Proposal,
        draft: List<Distribution>, // the drafter's distributions, one for each draft token, as they were sampled from
        probs: Probs, // the target's distribution at each proposed position and after the last
        trie: ActiveTrie, // the active trie that the proposal was translated with, unchanged since
        random: RandomSource,
        buffers: OptionBuffers,
    ): Verdict
}

/** Speculative sampling on trie decisions, one after another: exact at every temperature. */
internal fun verifyTokens(
    proposal: Proposal,
    draft: List<Distribution>,
    probs: Probs,
    trie: ActiveTrie,
    random: RandomSource,
    buffers: OptionBuffers = OptionBuffers(trie),
): Verdict {
    for (decision in proposal.decisions) {
        val decided = decisionProbs(decision, draft[decision.draft], probs(decision.row), trie, buffers)
        if (random.bernoulli(decided.ratio)) continue
        val token = resampleOrSkip(decided, 1.0, random)
        checkNotNull(token) { "with reach 1 a refused decision is always replaced" }
        return Verdict(decision.row, token, false, decision.draft + 1, decision.draft)
    }
    return bonus(proposal, probs, trie, random)
}

/**
 * Block verification on trie decisions (Sun et al., ICLR 2025).
 *
 * It is optimal for a single path: a decision that the target likes better than the drafter makes up for one that it
 * likes less, where token-level verification would cap every ratio at 1. It is exact by the same enumeration.
 *
 * reach[i] = b_i is the probability that the decisions before i are accepted, given them: b_0 = 1 and
 * b_{i+1} = min(1, b_i P_i / Q_i). From the end backwards: all are accepted with b_N; else the round ends at decision i
 * with h_i, replaced by a draw from max(0, b_i P_i - Q_i); else one step back. Decision 0 always ends the round.
 *
 * The chain spans splits: given what the drafter alone decides, b_i is still the probability that the decisions before
 * i are accepted. So h_i may use the distribution given the split, and the end of the draft is a split too.
 *
 * The parameters are those of [Verifier.verify]; every row up to a decision of ratio 0 is asked for.
 */
internal fun verifyBlock(
    proposal: Proposal,
    draft: List<Distribution>,
    probs: Probs,
    trie: ActiveTrie,
    random: RandomSource,
    buffers: OptionBuffers = OptionBuffers(trie),
): Verdict {
    val decided = ArrayList<DecisionProbs>()
    val reach = DoubleArray(proposal.decisions.size + 1)
    reach[0] = 1.0
    for (decision in proposal.decisions) {
        val probsOf = decisionProbs(decision, draft[decision.draft], probs(decision.row), trie, buffers)
        decided.add(probsOf)
        reach[decided.size] = minOf(1.0, reach[decided.size - 1] * probsOf.ratio)
        if (reach[decided.size] == 0.0) break // no later decision can be accepted
    }
    if (random.bernoulli(reach[decided.size])) return bonus(proposal, probs, trie, random)
    for (i in decided.indices.reversed()) {
        val token = resampleOrSkip(decided[i], reach[i], random) ?: continue
        val decision = proposal.decisions[i]
        return Verdict(decision.row, token, false, decision.draft + 1, decision.draft)
    }
    error("b_0 is 1, so the walk back ends at decision 0")
}

/** Whether a round is long enough for the gain of block verification to outweigh its host work. */
internal fun blockPays(roundSeconds: Double, vocabSize: Int): Boolean =
    with(Defaults) { BLOCK_GAIN * roundSeconds > BLOCK_EXTRA_SECONDS + BLOCK_EXTRA_SECONDS_PER_TOKEN * vocabSize }

/** Everything accepted: sample the bonus token, restricted to the subtree of the tail if there is one. */
private fun bonus(proposal: Proposal, probs: Probs, trie: ActiveTrie, random: RandomSource): Verdict {
    val below = proposal.tail?.let { trie.targets(it) }
    val token = random.sample(probs(proposal.tokens.size), below)
    return Verdict(proposal.tokens.size, token, true, proposal.used, proposal.used)
}

/** Sample from the target and accept while the sample is what was proposed: exact for any translator. */
internal fun verifyMatch(proposal: Proposal, probs: Probs, random: RandomSource): Verdict {
    var used = 0
    for (i in 0 until proposal.tokens.size) {
        val token = random.sample(probs(i))
        if (token != proposal.tokens[i]) return Verdict(i, token, false, proposal.ends[i], used)
        used = proposal.ends[i]
    }
    val token = random.sample(probs(proposal.tokens.size))
    return Verdict(proposal.tokens.size, token, true, used, used)
}
