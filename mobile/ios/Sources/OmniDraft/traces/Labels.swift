// The probability that each decision of a round was accepted with: the labels that a trace keeps.

/// Makes labels; it holds memory of the size of the drafter's vocabulary, which each round uses again.
final class RoundLabels {
    private var trie: ActiveTrie?
    private var buffers: OptionBuffers?

    /// The labels of a round, before anything is learned from it.
    func of(_ proposer: any Proposer, _ outcome: Outcome, _ probs: any Probs) throws -> [DecisionLabel] {
        guard outcome.draft.copied.isEmpty, let trie = proposer.trie else { return [] }
        switch proposer.rule {
        case .match: return try labelMatch(outcome, probs)
        case .decisions: return try labelDecisions(outcome, probs, trie, buffers(of: trie))
        }
    }

    private func buffers(of trie: ActiveTrie) -> OptionBuffers {
        let kept = trie === self.trie ? buffers : nil
        let buffers = kept ?? OptionBuffers(trie)
        self.trie = trie
        self.buffers = buffers
        buffers.refresh()  // the trie may have changed since the last round
        return buffers
    }
}

/// min(1, P/Q) of each decision up to the refused one (`verifyTokens`, `verifyBlock`).
func labelDecisions(
    _ outcome: Outcome, _ probs: any Probs, _ trie: ActiveTrie, _ buffers: OptionBuffers
) throws -> [DecisionLabel] {
    let verdict = outcome.verdict
    var labels: [DecisionLabel] = []
    for decision in outcome.proposal.decisions {
        if decision.row > verdict.accepted || decision.draft >= verdict.evaluated { break }
        let q = outcome.draft.distributions[decision.draft]
        let decided = decisionProbs(decision, q: q, p: try probs(decision.row), trie: trie, buffers: buffers)
        labels.append(DecisionLabel(kind: kindOf(decision.step), draft: decision.draft, label: share(decided.ratio)))
    }
    return labels
}

/// The target's probability of each proposed token (`verifyMatch`); 1 or 0 at temperature 0.
func labelMatch(_ outcome: Outcome, _ probs: any Probs) throws -> [DecisionLabel] {
    let (proposal, verdict) = (outcome.proposal, outcome.verdict)
    // Proposed tokens that were verified: the accepted ones, and the refused one.
    let evaluated = min(verdict.accepted + (verdict.isBonus ? 0 : 1), proposal.tokens.count)
    return try (0..<evaluated).map { index in
        let probability = try probs(index).probability(proposal.tokens[index])
        return DecisionLabel(kind: .whole, draft: proposal.ends[index] - 1, label: share(probability))
    }
}

private func kindOf(_ step: Step) -> DecisionKind {
    switch step {
    case .begin: return .begin
    case .goOn: return .goOn
    case .end: return .end
    case .deadEnd: return .deadEnd
    case .expand: return .expand
    }
}

private func share(_ ratio: Double) -> Double { min(max(ratio, 0), 1) }
