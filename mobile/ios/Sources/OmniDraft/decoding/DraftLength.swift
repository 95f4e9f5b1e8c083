// How many tokens the next round proposes, and from which source: as many as pay, or none (spec/07-draft-length.md).

private let priorRounds = Defaults.draftLengthPriorRounds
private let longestDraft = Defaults.draftLengthLongest

/// Where the tokens of a round come from; the raw value is the name in vectors.
enum Source: String, Sendable {
    case none, draft, copy
}

/// What the next round proposes.
struct Plan: Sendable, Equatable {
    var source = Source.none
    /// Draft tokens, or copied target tokens; 0 where the source is none.
    var count = 0
    /// Whether the drafter forgets its context but for the last `mostUnread` tokens: more of it were not read, and reading
    /// them would take longer than it gains.
    var fresh = false
}

/// What a draft length learns from a round.
struct RoundCounts: Sendable, Equatable {
    let drafted: Int
    let evaluated: Int
    let accepted: Int
    /// Target tokens.
    let emitted: Int
    /// Tokens of the context's match before the round; 0 for none.
    var match = 0
    /// Emitted tokens from the first one on that a copy would have had right, proposed or not.
    var agreed = 0
}

/// Chooses what each round proposes.
protocol DraftLength: AnyObject {
    /// The plan of the next round.
    ///
    /// - Parameter match: tokens of the context's match; 0 where nothing can be copied.
    func next(_ match: Int) -> Plan
    func record(_ counts: RoundCounts)
}

/// The same number in every round.
final class FixedLength: DraftLength {
    private let plan: Plan

    /// - Throws: ``OmniDraftError/setting(_:)``: the number is outside its range.
    init(_ numDraftTokens: Int, source: Source = .draft) throws {
        if numDraftTokens < 0 || numDraftTokens > Defaults.maxDraftTokens {
            throw settingError(
                "numDraftTokens \(numDraftTokens) is outside 0..\(Defaults.maxDraftTokens)", "4 is usual")
        }
        plan = numDraftTokens > 0 ? Plan(source: source, count: numDraftTokens) : Plan()
    }

    func next(_ match: Int) -> Plan { plan }
    /// A fixed length has nothing to learn.
    func record(_ counts: RoundCounts) {}
}

/// One way to propose tokens in the next round: as in ``Plan``, with the tokens and seconds expected of the round.
struct ProposalOption: Sendable {
    let source: Source
    let count: Int
    let tokens: Double
    let seconds: Double

    /// Expected target tokens a second.
    var speed: Double { tokens / seconds }
}

/// Maximises expected tokens a second, from measured costs and running acceptance.
///
/// While the drafter does not pay it drafts a little now and then, to notice when the text changes. Such a probe waits until
/// it costs a small share of the time that passed without one. Each probe that changes nothing halves the share, so a
/// drafter that never helps costs a few percent at first and soon almost nothing. Copies need no probes: every match of the
/// context is compared with what was emitted.
class MeasuredLength: DraftLength {
    let costs: Costs
    var state: LengthState
    private let longest: Int
    private let drafts: Bool
    private let copies: Bool

    /// - Parameter longest: tokens of a round at most.
    init(
        _ costs: Costs, _ state: LengthState = LengthState(), drafts: Bool = true, copies: Bool = false,
        longest: Int = longestDraft
    ) {
        self.costs = costs
        self.state = state
        self.drafts = drafts
        self.copies = copies
        self.longest = longest
    }

    /// Expected tokens a second where the context has no match.
    var speed: Double { max(fastest(otherOptions(0)).speed, fastest(draftOptions()).speed) }

    func next(_ match: Int) -> Plan {
        let best = fastest(otherOptions(match))
        if !drafts { return Plan(source: best.source, count: best.count) }
        let draft = fastest(draftOptions())
        if draft.speed > (1 + Defaults.draftLengthMargin) * best.speed {
            state.idle = 0
            state.share = Defaults.draftLengthFirstShare
            return drafting(draft.count)
        }
        if isProbeDue(best) {
            state.idle = 0
            state.share = max(state.share / 2, Defaults.draftLengthLastShare)
            return drafting(min(Defaults.draftLengthProbe, longest))
        }
        state.idle += 1
        return Plan(source: best.source, count: best.count)
    }

    private func drafting(_ count: Int) -> Plan {
        Plan(source: .draft, count: count, fresh: state.unread > Defaults.draftLengthMostUnread)
    }

    private func draftOptions() -> [ProposalOption] {
        let (ratio, read) = (ratio(), reading() / Defaults.draftLengthRepaid)
        return expected(Array(chances().prefix(longest))).enumerated().map { index, tokens in
            let seconds = costs.roundSeconds(index + 1) + read
            return ProposalOption(source: .draft, count: index + 1, tokens: 1 + ratio * tokens, seconds: seconds)
        }
    }

    /// Plain decoding and all copies; of equal speeds the first one counts.
    private func otherOptions(_ match: Int) -> [ProposalOption] {
        var options = [ProposalOption(source: .none, count: 0, tokens: 1, seconds: costs.passSeconds(1))]
        if copies && match > 0 {
            let byLength = running(Defaults.draftLengthCopyAcceptance, state.agreed, state.compared)
            for (index, tokens) in expected((0..<longest).map { byLength[matchClass(match + $0)] }).enumerated() {
                let seconds = costs.copySeconds(index + 1)
                options.append(ProposalOption(source: .copy, count: index + 1, tokens: 1 + tokens, seconds: seconds))
            }
        }
        return options
    }

    /// The probability that each draft token is accepted, given those before it; `longestDraft` numbers.
    func chances() -> [Double] { running(costs.acceptance, state.accepted, state.evaluated) }

    /// Target tokens for each accepted draft token: n-grams give less than one, expansions more.
    func ratio() -> Double { min(1.5, (state.targets + priorRounds) / (state.drafts + priorRounds)) }

    func record(_ counts: RoundCounts) {
        state.unread = counts.drafted > 0 ? 0 : state.unread + counts.emitted
        if counts.drafted > 0 { recordDraft(counts) }
        if counts.match > 0 {
            for index in 0..<min(counts.emitted, counts.agreed + 1, longestDraft) {
                state.countCopy(matchClass(counts.match + index), isRight: index < counts.agreed)
            }
        }
    }

    private func recordDraft(_ counts: RoundCounts) {
        // What was not tried becomes like the depth before.
        for depth in min(counts.drafted, longestDraft)..<longestDraft {
            state.evaluated[depth] *= Defaults.draftLengthDecay
            state.accepted[depth] *= Defaults.draftLengthDecay
        }
        // Of a refused target token only the first piece counts: a_j is the probability of draft token j given that those
        // before it were accepted.
        for depth in 0..<min(counts.evaluated, counts.accepted + 1, longestDraft) {
            state.countDraft(depth, isRight: depth < counts.accepted)
        }
        state.drafts = state.drafts * Defaults.draftLengthDecay + Double(counts.accepted)
        state.targets = state.targets * Defaults.draftLengthDecay + Double(counts.emitted - 1)
    }

    /// Whether a probe that gives one token costs little beside the rounds since the last draft.
    private func isProbeDue(_ best: ProposalOption) -> Bool {
        let seconds = costs.roundSeconds(min(Defaults.draftLengthProbe, longest)) + reading()
        return state.share * Double(state.idle) * costs.target[0] >= seconds - 1 / best.speed
    }

    /// Seconds that the drafter needs for what it did not read yet.
    private func reading() -> Double {
        Double(min(state.unread, Defaults.draftLengthMostUnread)) * Defaults.draftLengthRead * costs.draft
    }
}

/// The index of a match's length in the lists of ``LengthState``.
func matchClass(_ match: Int) -> Int {
    min(match, Defaults.draftLengthLongestMatch) - Defaults.draftLengthShortestMatch
}

/// Shares of success; each is the assumption for the next, with a weight that falls with the trials.
func running(_ prior: Double, _ successes: [Double], _ trials: [Double]) -> [Double] {
    var assumed = prior
    return zip(successes, trials).map { success, trial in
        let weight = priorRounds * priorRounds / (priorRounds + trial)
        assumed = (success + weight * assumed) / (trial + weight)
        return assumed
    }
}

/// The first of the options of the largest speed.
private func fastest(_ options: [ProposalOption]) -> ProposalOption {
    var best = options[0]
    for option in options where option.speed > best.speed { best = option }
    return best
}

/// Expected accepted tokens of 1, 2, ... proposed ones: c_0, c_0 + c_0 x c_1, ...
private func expected(_ chances: [Double]) -> [Double] {
    var (product, sum) = (1.0, 0.0)
    return chances.map {
        product *= $0
        sum += product
        return sum
    }
}
