import OmniDraft

/// Tokens a second of one answer.
struct Speedometer {
    private var began: Double?
    private var tokens = 0

    /// Takes the tokens of a piece; the speed so far, nil before there is one.
    ///
    /// The clock starts with the first piece, since reading the prompt is no decoding.
    mutating func take(tokens count: Int, at seconds: Double) -> Double? {
        guard let began else {
            began = seconds
            return nil
        }
        tokens += count
        return seconds > began ? Double(tokens) / (seconds - began) : nil
    }
}

/// The acceptance of each round, from counts that only grow.
struct AcceptanceMeter {
    private var evaluated: Int
    private var accepted: Int

    /// - Parameter stats: the counts so far.
    init(_ stats: Stats) {
        evaluated = stats.evaluated
        accepted = stats.acceptedDrafts
    }

    /// The share of the drafted tokens since the last call that were accepted; nil where none was verified.
    mutating func take(_ stats: Stats) -> Double? {
        let verified = stats.evaluated - evaluated
        let kept = stats.acceptedDrafts - accepted
        self = AcceptanceMeter(stats)
        return verified > 0 ? Double(kept) / Double(verified) : nil
    }
}
