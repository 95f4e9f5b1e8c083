// Verification: accept as much of a proposal as leaves the output's distribution exactly the target's
// (spec/04-speculation.md, section 7).

// Measured by benchmarks/block_verification.py of commit 8a60be2: what block verification adds to the tokens of a
// round, and to its host work, which grows with the target's vocabulary because every row is asked for.

struct Verdict: Sendable, Equatable {
    /// Number of proposed target tokens that are accepted.
    let accepted: Int
    /// The target token after them: a correction, or the bonus when all are accepted.
    let token: Int32
    /// Whether every decision was accepted.
    let isBonus: Bool
    /// Number of draft tokens that were verified.
    let evaluated: Int
    /// Number of those that were accepted.
    let acceptedDrafts: Int

    /// The target tokens of the round: the accepted ones, and the one after them.
    func tokens(_ proposal: Proposal) -> [Int32] { proposal.tokens.prefix(accepted) + [token] }
}

/// A rule that verifies the decisions of a proposal: the translated draft, the drafter's distributions (one for each draft
/// token, as they were sampled from), the target's distributions, the active trie that the proposal was translated with,
/// the source of randomness, and the buffers of this round.
typealias Verifier = (
    Proposal, [any Distribution], any Probs, ActiveTrie, any RandomSource, OptionBuffers
) throws -> Verdict

/// Speculative sampling on trie decisions, one after another: exact at every temperature.
func verifyTokens(
    _ proposal: Proposal, _ draft: [any Distribution], _ probs: any Probs, _ trie: ActiveTrie,
    _ random: any RandomSource, _ buffers: OptionBuffers
) throws -> Verdict {
    for decision in proposal.decisions {
        let decided = decisionProbs(
            decision, q: draft[decision.draft], p: try probs(decision.row), trie: trie, buffers: buffers)
        if random.bernoulli(decided.ratio) { continue }
        guard let token = resampleOrSkip(decided, 1, random) else {
            preconditionFailure("with reach 1 a refused decision is always replaced")
        }
        return Verdict(
            accepted: decision.row, token: token, isBonus: false, evaluated: decision.draft + 1,
            acceptedDrafts: decision.draft)
    }
    return try bonus(proposal, probs, trie, random)
}

/// Block verification on trie decisions (Sun et al., ICLR 2025).
///
/// It is optimal for a single path: a decision that the target likes better than the drafter makes up for one that it
/// likes less, where token-level verification would cap every ratio at 1. It is exact by the same enumeration.
///
/// reach[i] = b_i is the probability that the decisions before i are accepted, given them: b_0 = 1 and
/// b_{i+1} = min(1, b_i P_i / Q_i). From the end backwards: all are accepted with b_N; else the round ends at decision i
/// with h_i, replaced by a draw from max(0, b_i P_i - Q_i); else one step back. Decision 0 always ends the round.
///
/// The chain spans splits: given what the drafter alone decides, b_i is still the probability that the decisions before i
/// are accepted. So h_i may use the distribution given the split, and the end of the draft is a split too.
func verifyBlock(
    _ proposal: Proposal, _ draft: [any Distribution], _ probs: any Probs, _ trie: ActiveTrie,
    _ random: any RandomSource, _ buffers: OptionBuffers
) throws -> Verdict {
    var decided: [any DecisionProbs] = []
    var reach = [1.0]
    for decision in proposal.decisions {
        let each = decisionProbs(
            decision, q: draft[decision.draft], p: try probs(decision.row), trie: trie, buffers: buffers)
        decided.append(each)
        reach.append(min(1, reach[reach.count - 1] * each.ratio))
        if reach[reach.count - 1] == 0 { break }  // no later decision can be accepted
    }
    if random.bernoulli(reach[decided.count]) { return try bonus(proposal, probs, trie, random) }
    for index in decided.indices.reversed() {
        guard let token = resampleOrSkip(decided[index], reach[index], random) else { continue }
        let decision = proposal.decisions[index]
        return Verdict(
            accepted: decision.row, token: token, isBonus: false, evaluated: decision.draft + 1,
            acceptedDrafts: decision.draft)
    }
    preconditionFailure("b_0 is 1, so the walk back ends at decision 0")
}

/// Whether a round is long enough for the gain of block verification to outweigh its host work.
func blockPays(roundSeconds: Double, vocabSize: Int) -> Bool {
    Defaults.blockGain * roundSeconds > Defaults.blockExtraSeconds + Defaults.blockExtraSecondsPerToken
        * Double(vocabSize)
}

/// Everything accepted: sample the bonus token, restricted to the subtree of the tail if there is one.
private func bonus(
    _ proposal: Proposal, _ probs: any Probs, _ trie: ActiveTrie, _ random: any RandomSource
) throws -> Verdict {
    let below = proposal.tail.map { trie.targets($0) }
    let token = random.sample(try probs(proposal.tokens.count), among: below)
    return Verdict(
        accepted: proposal.tokens.count, token: token, isBonus: true, evaluated: proposal.used,
        acceptedDrafts: proposal.used)
}

/// Sample from the target and accept while the sample is what was proposed: exact for any translator.
func verifyMatch(_ proposal: Proposal, probs: any Probs, random: any RandomSource) throws -> Verdict {
    var used = 0
    for (index, proposed) in proposal.tokens.enumerated() {
        let token = random.sample(try probs(index))
        if token != proposed {
            return Verdict(
                accepted: index, token: token, isBonus: false, evaluated: proposal.ends[index], acceptedDrafts: used)
        }
        used = proposal.ends[index]
    }
    let token = random.sample(try probs(proposal.tokens.count))
    return Verdict(
        accepted: proposal.tokens.count, token: token, isBonus: true, evaluated: used, acceptedDrafts: used)
}
