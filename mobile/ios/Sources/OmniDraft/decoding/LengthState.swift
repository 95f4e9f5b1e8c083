// What the draft length is computed from: costs, and what was learned (spec/07-draft-length.md). A session file holds both.

private let longest = Defaults.draftLengthLongest
private let classes = Defaults.draftLengthLongestMatch - Defaults.draftLengthShortestMatch + 1
private let textRounds = Defaults.draftLengthTextRounds  // weight of all earlier texts at most, in rounds

/// Seconds on one device.
struct Costs: Sendable, Equatable {
    /// One target pass over n = 1, 2, ... tokens.
    let target: [Double]
    /// One draft token.
    let draft: Double
    /// The round's own work (translate, verify, learn, rewind).
    let host: Double
    /// Not seconds: accepted draft tokens over evaluated ones, when last measured.
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

    /// Seconds of a round with this number of copied tokens.
    func copySeconds(_ numTokens: Int) -> Double { passSeconds(numTokens + 1) + host }
}

/// All that a measured draft length learned, as decayed counts; a session file holds it.
struct LengthState: Sendable, Equatable {
    /// Draft tokens verified by depth, given that those before them were accepted.
    var evaluated = [Double](repeating: 0, count: longest)
    /// Those of them that were accepted.
    var accepted = [Double](repeating: 0, count: longest)
    var drafts = 0.0
    /// The target tokens that they gave.
    var targets = 0.0
    /// Tokens that a copy would have proposed, by the length of the match before the token, from the shortest on.
    var compared = [Double](repeating: 0, count: classes)
    /// Those of them that were right.
    var agreed = [Double](repeating: 0, count: classes)
    /// Rounds since the last draft.
    var idle = 0
    /// Tokens of the text that the drafter has not read.
    var unread = 0
    /// Of their time, what a probe may cost.
    var share = Defaults.draftLengthFirstShare

    /// Cap the weight of the texts before, because texts differ; probe again at the start of a text.
    ///
    /// - Parameters:
    ///   - length: of the drafter's context.
    ///   - shared: tokens that it has in common with the context of the text before, from the first one on.
    mutating func beginText(_ length: Int, shared: Int) {
        unread = min(length, unread + length - shared)
        for depth in evaluated.indices where evaluated[depth] > textRounds {
            accepted[depth] = min(textRounds, accepted[depth] * textRounds / evaluated[depth])
            evaluated[depth] = textRounds
        }
        share = min(2 * share, Defaults.draftLengthFirstShare)
    }

    /// Count one draft token that was verified at a depth.
    mutating func countDraft(_ depth: Int, isRight: Bool) { count(&accepted, &evaluated, depth, isRight) }

    /// Count one token that a copy would have proposed, behind a match of a class.
    mutating func countCopy(_ place: Int, isRight: Bool) { count(&agreed, &compared, place, isRight) }
}

/// Count one trial at a place.
private func count(_ successes: inout [Double], _ trials: inout [Double], _ place: Int, _ isRight: Bool) {
    successes[place] = successes[place] * Defaults.draftLengthDecay + (isRight ? 1 : 0)
    trials[place] = trials[place] * Defaults.draftLengthDecay + 1
}
