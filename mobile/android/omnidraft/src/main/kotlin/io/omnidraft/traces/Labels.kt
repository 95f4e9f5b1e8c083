package io.omnidraft.traces

import io.omnidraft.decoding.OptionBuffers
import io.omnidraft.decoding.Outcome
import io.omnidraft.decoding.Probs
import io.omnidraft.decoding.Proposal
import io.omnidraft.decoding.Proposer
import io.omnidraft.decoding.Rule
import io.omnidraft.decoding.Step
import io.omnidraft.decoding.Verdict
import io.omnidraft.decoding.decisionProbs
import io.omnidraft.vocab.ActiveTrie

/*
 * The probability that each decision of a round was accepted with: the labels that a trace keeps.
 *
 * Computed after the verdict from the same distributions, so that no verifier has to keep them. There is one function
 * for each rule of verification.
 */

/** Makes labels; it holds memory of the size of the drafter's vocabulary, which each round uses again. */
internal class Labels {
    private var trie: ActiveTrie? = null
    private var buffers: OptionBuffers? = null

    /** The labels of a round, before anything is learned from it. */
    fun of(proposer: Proposer, outcome: Outcome, probs: Probs): List<DecisionLabel> {
        val trie = proposer.trie
        if (outcome.draft.copied.isNotEmpty() || trie == null) return emptyList()
        return when (proposer.rule) {
            Rule.MATCH -> labelMatch(outcome, probs)
            Rule.DECISIONS -> labelDecisions(outcome, probs, trie, buffersOf(trie))
        }
    }

    private fun buffersOf(trie: ActiveTrie): OptionBuffers {
        val kept = if (trie === this.trie) buffers else null
        val buffers = kept ?: OptionBuffers(trie)
        this.trie = trie
        this.buffers = buffers
        buffers.refresh() // the trie may have changed since the last round
        return buffers
    }
}

/** min(1, P/Q) of each decision up to the refused one (`verifyTokens`, `verifyBlock`). */
internal fun labelDecisions(
    outcome: Outcome,
    probs: Probs,
    trie: ActiveTrie,
    buffers: OptionBuffers = OptionBuffers(trie),
): List<DecisionLabel> {
    val verdict = outcome.verdict
    val draft = outcome.draft.distributions
    val labels = ArrayList<DecisionLabel>()
    for (decision in outcome.proposal.decisions) {
        if (decision.row > verdict.accepted || decision.draft >= verdict.evaluated) break
        val decided = decisionProbs(decision, draft[decision.draft], probs(decision.row), trie, buffers)
        labels.add(DecisionLabel(kindOf(decision.step), decision.draft, label(decided.ratio)))
    }
    return labels
}

/** The target's probability of each proposed token (`verifyMatch`); 1 or 0 at temperature 0. */
internal fun labelMatch(outcome: Outcome, probs: Probs): List<DecisionLabel> {
    val proposal = outcome.proposal
    return evaluated(proposal, outcome.verdict).map { i ->
        val probability = probs(i).probability(proposal.tokens[i])
        DecisionLabel(Kind.WHOLE, proposal.ends[i] - 1, label(probability))
    }
}

private fun kindOf(step: Step): Kind = when (step) {
    Step.BEGIN -> Kind.BEGIN
    Step.GO_ON -> Kind.GO_ON
    Step.END -> Kind.END
    Step.DEAD_END -> Kind.DEAD_END
    Step.EXPAND -> Kind.EXPAND
}

/** Proposed tokens that were verified: the accepted ones, and the refused one. */
private fun evaluated(proposal: Proposal, verdict: Verdict): IntRange =
    0 until minOf(verdict.accepted + (if (verdict.isBonus) 0 else 1), proposal.tokens.size)

private fun label(ratio: Double): Double = ratio.coerceIn(0.0, 1.0)
