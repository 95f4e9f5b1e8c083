// How many tokens the next round proposes, and from which source: as many as pay, or none (spec/07-draft-length.md).

private let priorRounds = Defaults.draftLengthPriorRounds
private let longestDraft = Defaults.draftLengthLongest
private let leastGain = 1e-9  // target tokens that a draft token gives; a divisor

/// Where the tokens of a round come from; the raw value is the name in vectors.
enum Source: String, Sendable {
    case none, draft, copy
}

/// What the next round proposes.
struct Plan: Sendable, Equatable {
    var source = Source.none
    /// Draft tokens at most, or copied target tokens; 0 where the source is none.
    var count = 0
    /// Whether the drafter forgets its context but for the last `mostUnread` tokens: more of it were not read, and reading
    /// them would take longer than it gains.
    var fresh = false
    /// The probability that a draft token is accepted, by the class of its confidence; none where the draft has the whole
    /// count.
    var chances: [Double] = []
    /// The first, second, ... draft token is proposed if it is accepted, with those before it, with at least this
    /// probability; otherwise the draft ends before it. None where the draft has a token in any case.
    var worth: [Double] = []
    /// The draft goes on after its first, second, ... token if it is accepted so far with at least this probability;
    /// `longestDraft - 1` numbers, none where the draft has one token.
    var least: [Double] = []
}

/// What a draft length learns from a round.
struct RoundCounts: Sendable, Equatable {
    /// Of the confidence of each draft token, and of the one that was not worth proposing.
    let classes: [Int]
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
    /// Rounds that the time of reading is spread over.
    var repaid = Defaults.draftLengthRepaid
    private let longest: Int
    private let drafts: Bool
    private let copies: Bool
    private let more: [Double]  // seconds of one more draft token after the first, the second, ...
    private let verified: [Double]  // seconds of verifying the first, the second, ... token when it is drafted already

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
        let steps = (0..<longestDraft).map { costs.roundSeconds($0 + 1) - costs.roundSeconds($0) }
        more = Array(steps.dropFirst())
        verified = steps.map { $0 - costs.draft }
    }

    /// Expected tokens a second where the context has no match.
    var speed: Double {
        let best = fastest(otherOptions(0)).speed
        return max(best, draft(best).speed)
    }

    func next(_ match: Int) -> Plan {
        let best = fastest(otherOptions(match))
        if !drafts { return Plan(source: best.source, count: best.count) }
        var (speed, plan) = draft(best.speed)
        // A text that ends at once does not wait for the drafter, which reads as long as its tokens took.
        let isPaid = Double(state.written) * costs.passSeconds(1) >= reading()
        if isPaid && speed > best.speed {
            state.idle = 0
            state.share = Defaults.draftLengthFirstShare
            return plan
        }
        if isPaid && isProbeDue(best) {
            state.idle = 0
            state.share = max(state.share / 2, Defaults.draftLengthLastShare)
            (plan.count, plan.worth, plan.least) = (min(Defaults.draftLengthProbe, longest), [], [])
            return plan
        }
        state.idle += 1
        return Plan(source: best.source, count: best.count)
    }

    /// The expected speed of a draft, and its plan.
    ///
    /// A draft token is worth its time if it brings as many tokens a second as the text has on average: when it is drafted,
    /// that of verifying it, and before, that of drafting it too. Of a token that is not drafted yet, the chance is the mean
    /// over the classes.
    ///
    /// - Parameter other: speed of the best round without a drafter.
    private func draft(_ other: Double) -> (speed: Double, plan: Plan) {
        let chances = chances()
        let (ratio, seen) = (ratio(), state.seen.reduce(0, +))
        let shares = state.seen.map { ($0 + weight(seen) / Double(chances.count)) / (seen + weight(seen)) }
        let gain = ratio * zip(shares, chances).reduce(0) { $0 + $1.0 * $1.1 }
        var (tokens, seconds) = (1 + gain, costs.roundSeconds(1) + reading() / repaid)
        let first = max(other, tokens / seconds) * verified[0]
        for (share, chance) in zip(shares, chances) where ratio * chance < first {
            tokens -= share * ratio * chance
            seconds -= share * verified[0]
        }
        let second = max(other, tokens / seconds) * more[0]
        for (share, chance) in zip(shares, chances) where chance * gain >= second {
            tokens += share * chance * gain
            seconds += share * more[0]
        }
        let speed = tokens / seconds
        let plan = Plan(
            source: .draft, count: longest, fresh: state.unread > Defaults.draftLengthMostUnread, chances: chances,
            worth: verified.map { speed / ratio * $0 }, least: more.map { speed / max(gain, leastGain) * $0 })
        return (speed, plan)
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

    /// The probability that a draft token is accepted, by the class of its confidence.
    func chances() -> [Double] {
        let scale = min(1, costs.acceptance / Defaults.draftLengthPriorAcceptance)
        return Defaults.draftLengthChances.enumerated().map { each, chance in
            share(scale * chance, state.accepted[each], state.evaluated[each])
        }
    }

    /// Target tokens for each accepted draft token: n-grams give less than one, expansions more.
    func ratio() -> Double { min(1.5, (state.targets + priorRounds) / (state.drafts + priorRounds)) }

    func record(_ counts: RoundCounts) {
        state.unread = counts.classes.isEmpty ? state.unread + counts.emitted : 0
        state.written += counts.emitted
        if counts.classes.isEmpty { state.fade() } else { recordDraft(counts) }
        if counts.match > 0 {
            for index in 0..<min(counts.emitted, counts.agreed + 1, longestDraft) {
                state.countCopy(matchClass(counts.match + index), isRight: index < counts.agreed)
            }
        }
    }

    private func recordDraft(_ counts: RoundCounts) {
        for each in counts.classes { state.countSeen(each) }
        // Of a refused target token only the first piece counts.
        for (index, each) in counts.classes.prefix(min(counts.evaluated, counts.accepted + 1)).enumerated() {
            state.countDraft(each, isRight: index < counts.accepted)
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

/// The index of a confidence in the lists of ``LengthState``.
func confidenceClass(_ confidence: Double) -> Int {
    Defaults.draftLengthConfidences.firstIndex { confidence < $0 } ?? confidenceClasses - 1
}

/// The index of a match's length in the lists of ``LengthState``.
func matchClass(_ match: Int) -> Int {
    min(match, Defaults.draftLengthLongestMatch) - Defaults.draftLengthShortestMatch
}

/// Shares of success; each is the assumption for the next, with a weight that falls with the trials.
func running(_ prior: Double, _ successes: [Double], _ trials: [Double]) -> [Double] {
    var assumed = prior
    return zip(successes, trials).map { success, trial in
        assumed = share(assumed, success, trial)
        return assumed
    }
}

/// The share of success, with an assumption.
private func share(_ assumed: Double, _ success: Double, _ trial: Double) -> Double {
    let weight = weight(trial)
    return (success + weight * assumed) / (trial + weight)
}

/// The weight of an assumption beside trials, in trials; it falls with them.
private func weight(_ trial: Double) -> Double { priorRounds * priorRounds / (priorRounds + trial) }

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
