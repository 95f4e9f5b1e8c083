// What the draft length is computed from: costs, and what was learned (spec/07-draft-length.md). A session file holds both.

/// Classes of the confidence of a draft token.
let confidenceClasses = Defaults.draftLengthConfidences.count + 1
private let matchClasses = Defaults.draftLengthLongestMatch - Defaults.draftLengthShortestMatch + 1

/// Seconds on one device.
struct Costs: Sendable, Equatable {
    /// One target pass over n = 1, 2, ... tokens.
    let target: [Double]
    /// One draft token.
    let draft: Double
    /// The round's own work (translate, verify, learn, rewind).
    let host: Double
    /// Not seconds: accepted draft tokens over evaluated ones, when the pair was exported.
    var acceptance = Defaults.draftLengthPriorAcceptance

    /// Seconds of a target pass over n tokens; longer ones than measured continue at the mean slope.
    ///
    /// Passes whose times fall do not go on falling: they would take no time, or less.
    func passSeconds(_ n: Int) -> Double {
        if n <= target.count { return target[n - 1] }
        let last = target[target.count - 1]
        let slope = max(0, (last - target[0]) / Double(max(1, target.count - 1)))
        return last + slope * Double(n - target.count)
    }

    /// Seconds of a round with this number of draft tokens; 0 is plain decoding, without host work.
    func roundSeconds(_ numDraftTokens: Int) -> Double {
        passSeconds(numDraftTokens + 1) + Double(numDraftTokens) * draft + (numDraftTokens > 0 ? host : 0)
    }

    func copySeconds(_ numTokens: Int) -> Double { passSeconds(numTokens + 1) + host }
}

/// All that a measured draft length learned, as decayed counts; a session file holds it.
struct LengthState: Sendable, Equatable {
    /// Draft tokens, proposed or not worth it, by the class of their confidence.
    var seen = [Double](repeating: 0, count: confidenceClasses)
    /// Those of them that were verified.
    var evaluated = [Double](repeating: 0, count: confidenceClasses)
    /// Those of them that were accepted.
    var accepted = [Double](repeating: 0, count: confidenceClasses)
    var drafts = 0.0
    /// The target tokens that they gave.
    var targets = 0.0
    /// Tokens that a copy would have proposed, by the length of the match before the token, from the shortest on.
    var compared = [Double](repeating: 0, count: matchClasses)
    /// Those of them that were right.
    var agreed = [Double](repeating: 0, count: matchClasses)
    /// Rounds since the last draft.
    var idle = 0
    /// Tokens of the text that the drafter has not read.
    var unread = 0
    /// Tokens that were emitted since the text began.
    var written = 0
    /// Of their time, what a probe may cost.
    var share = Defaults.draftLengthFirstShare

    /// Probe again at the start of a text, and count what the drafter has not read of it.
    ///
    /// - Parameters:
    ///   - length: of the drafter's context.
    ///   - shared: tokens that it has in common with the context of the text before, from the first one on.
    mutating func beginText(_ length: Int, shared: Int) {
        unread = min(length, unread + length - shared)
        written = 0
        share = min(2 * share, Defaults.draftLengthFirstShare)
    }

    /// Count a round without a draft: the text goes on, and says less and less of what a draft would be.
    mutating func fade() {
        for index in seen.indices {
            seen[index] *= Defaults.draftLengthPlainDecay
            evaluated[index] *= Defaults.draftLengthPlainDecay
            accepted[index] *= Defaults.draftLengthPlainDecay
        }
    }

    /// Count one draft token of a class; all before it fade.
    mutating func countSeen(_ each: Int) {
        for index in seen.indices { seen[index] *= Defaults.draftLengthSeenDecay }
        seen[each] += 1
    }

    /// Count one draft token of a class that was verified; all before it fade.
    mutating func countDraft(_ each: Int, isRight: Bool) {
        for index in evaluated.indices {
            evaluated[index] *= Defaults.draftLengthSeenDecay
            accepted[index] *= Defaults.draftLengthSeenDecay
        }
        evaluated[each] += 1
        if isRight { accepted[each] += 1 }
    }

    /// Count one token that a copy would have proposed, behind a match of a class.
    mutating func countCopy(_ each: Int, isRight: Bool) {
        compared[each] = compared[each] * Defaults.draftLengthDecay + 1
        agreed[each] = agreed[each] * Defaults.draftLengthDecay + (isRight ? 1 : 0)
    }
}
