// Copying: the text so far suggests how it continues, without a drafter (spec/04-speculation.md, section 3).

// Fixed tokens that were proposed, and right, before any was.
private let (usualTried, usualAgreed) = (10, 9)

/// A ``Proposer`` that copies what followed the context's last tokens before.
///
/// The longest suffix of 4, 3 or 2 tokens that occurred earlier decides; of several occurrences the latest. The copy may run
/// into itself, so a text that repeats continues to repeat.
class PromptLookup: Proposer {
    // For each length of a suffix, the position of the latest follower of each n-gram.
    private var followed = [[[Int32]: Int]](
        repeating: [:], count: Defaults.promptLookupLongest - Defaults.promptLookupShortest + 1)
    private var seen = 0

    func find(_ tokens: [Int32]) -> Copy {
        index(tokens)
        guard let position = follower(tokens) else { return Copy() }
        var copied = Array(tokens[position...].prefix(Defaults.maxDraftTokens))
        while copied.count < Defaults.maxDraftTokens { copied.append(copied[position + copied.count - tokens.count]) }
        return Copy(tokens: copied, match: matchLength(tokens, position))
    }

    func propose(_ plan: Plan, copy: Copy, context: [Int32], random: any RandomSource) throws -> Draft {
        Draft(copied: Array(copy.tokens.prefix(plan.count)))
    }

    func translate(_ draft: Draft, room: Int) -> Proposal {
        var proposal = Proposal()
        for token in draft.copied.prefix(room) { proposal.emit(token, 0) }  // no draft token is used
        return proposal
    }

    func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict {
        try verifyMatch(proposal, probs: probs, random: random)
    }

    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int { 0 }

    /// Note every n-gram that has a follower, later ones over earlier ones.
    private func index(_ tokens: [Int32]) {
        for end in seen..<max(seen, tokens.count) {
            for size in Defaults.promptLookupShortest...Defaults.promptLookupLongest where size <= end {
                followed[size - Defaults.promptLookupShortest][Array(tokens[(end - size)..<end])] = end
            }
        }
        seen = tokens.count
    }

    /// The position after the latest occurrence of the longest suffix that occurred before; nil where none did.
    private func follower(_ tokens: [Int32]) -> Int? {
        for size in stride(from: Defaults.promptLookupLongest, through: Defaults.promptLookupShortest, by: -1)
        where size <= tokens.count {
            if let position = followed[size - Defaults.promptLookupShortest][Array(tokens.suffix(size))] {
                return position
            }
        }
        return nil
    }
}

/// Plain decoding: a ``Proposer`` that proposes nothing, so that each round is one sample of the target.
final class PlainProposer: PromptLookup {
    override func find(_ tokens: [Int32]) -> Copy { Copy() }
}

/// A ``Proposer`` with two sources: a drafter, and the context where the draft length prefers it.
final class CopyingProposer: Proposer {
    private let drafting: TrieProposer
    private let copying = PromptLookup()

    init(_ drafting: TrieProposer) { self.drafting = drafting }

    /// See ``TrieProposer/allow(_:)``.
    func allow(_ allowed: @escaping Allowed) { drafting.allow(allowed) }

    func find(_ tokens: [Int32]) -> Copy { copying.find(tokens) }

    func propose(_ plan: Plan, copy: Copy, context: [Int32], random: any RandomSource) throws -> Draft {
        let source: any Proposer = plan.source == .copy ? copying : drafting
        return try source.propose(plan, copy: copy, context: context, random: random)
    }

    func translate(_ draft: Draft, room: Int) -> Proposal { source(of: draft).translate(draft, room: room) }

    func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict {
        try source(of: draft).verify(draft, as: proposal, against: probs, random: random)
    }

    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int { drafting.learn(outcome, &context) }

    private func source(of draft: Draft) -> any Proposer { draft.copied.isEmpty ? drafting : copying }
}

/// A ``Proposer``, and its ``DraftLength``, for a text in a grammar.
///
/// What the grammar fixes is proposed before anything else, as much of it as the measured costs repay; of such a round the
/// draft length learns only what the drafter has not read. Copies end where they leave the grammar.
final class InGrammar: Proposer, DraftLength {
    private let inner: any Proposer
    private let length: any DraftLength
    private let constraint: Constraint
    private let fixing = PromptLookup()
    private var (fixed, certain) = (0, 0)  // tokens of this round that the grammar fixes
    private var (tried, agreed) = (usualTried, usualAgreed)
    private var (fixingRounds, otherRounds) = (0, 0)

    init(_ inner: any Proposer, _ length: any DraftLength, _ constraint: Constraint) {
        self.inner = inner
        self.length = length
        self.constraint = constraint
        if !constraint.masksDrafts { return }
        if let drafting = inner as? TrieProposer { drafting.allow(constraint.draftMask) }
        if let drafting = inner as? CopyingProposer { drafting.allow(constraint.draftMask) }
    }

    func find(_ tokens: [Int32]) -> Copy {
        let copy = inner.find(tokens)
        let ids: [Int32]
        (ids, certain) = constraint.fixed(Defaults.maxProposedTokens)
        fixed = worth(ids.count)
        if fixed > 0 { return Copy(tokens: Array(ids.prefix(fixed))) }
        let valid = constraint.validStart(copy.tokens)
        return valid.isEmpty ? Copy() : Copy(tokens: valid, match: copy.match)
    }

    func next(_ match: Int) -> Plan {
        if fixed > 0 {
            fixingRounds += 1
            return Plan(source: .copy, count: fixed)
        }
        otherRounds += 1
        if fixingRounds > 0, let measured = length as? MeasuredLength {
            // What the drafter reads is of use up to the next fixed bytes, which it has to read too.
            measured.repaid = Double(otherRounds) / Double(fixingRounds)
        }
        return length.next(match)
    }

    func record(_ counts: RoundCounts) {
        if fixed == 0 { return length.record(counts) }
        length.record(RoundCounts(classes: [], evaluated: 0, accepted: 0, emitted: counts.emitted))
        agreed += max(0, counts.agreed - certain)
        tried += max(0, min(counts.agreed + 1, fixed) - certain)
    }

    func propose(_ plan: Plan, copy: Copy, context: [Int32], random: any RandomSource) throws -> Draft {
        try source.propose(plan, copy: copy, context: context, random: random)
    }

    func translate(_ draft: Draft, room: Int) -> Proposal { source.translate(draft, room: room) }

    func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict {
        try source.verify(draft, as: proposal, against: probs, random: random)
    }

    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int { inner.learn(outcome, &context) }

    private var source: any Proposer { fixed > 0 ? fixing : inner }

    /// How many fixed tokens give the most tokens a second; all of them where no costs are known.
    private func worth(_ most: Int) -> Int {
        guard most > 0, let costs = (length as? MeasuredLength)?.costs else { return most }
        let share = min(1, Double(agreed) / Double(tried))
        var (best, tokens, each) = (certain, 1.0 + Double(certain), 1.0)
        var speed = tokens / (certain > 0 ? costs.copySeconds(certain) : costs.passSeconds(1))
        for count in best + 1..<most + 1 {
            each *= share
            tokens += each
            let reached = tokens / costs.copySeconds(count)
            if reached > speed { (best, speed) = (count, reached) }
        }
        return best
    }
}

/// How many tokens before a position are the last tokens too; `Defaults.draftLengthLongestMatch` at most.
private func matchLength(_ tokens: [Int32], _ position: Int) -> Int {
    let most = min(Defaults.draftLengthLongestMatch, position)
    var length = 0
    while length < most && tokens[position - 1 - length] == tokens[tokens.count - 1 - length] { length += 1 }
    return length
}
