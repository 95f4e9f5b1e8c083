// Counts of a generation; everything else is computed from them.

/// Counts of a generation.
struct Statistics: Sendable, Equatable {
    /// Target passes after the prompt.
    var rounds = 0
    var drafted = 0
    var evaluated = 0
    var acceptedDrafts = 0
    /// Target tokens proposed.
    var proposed = 0
    /// Target tokens accepted into the output.
    var accepted = 0
    /// Target tokens of the output.
    var emitted = 0
    /// N-grams that are new in the cache.
    var learned = 0
    /// Rounds in which the drafter gave NaN or infinity, so that its draft ended there.
    var unsound = 0
    var seconds = Seconds()
    /// Tokens of prompts that the target read, without those that its KV buffers held, and the seconds of that.
    var read = TextRead()
    /// From the first request for a piece to the first token; of several answers, that of the last one.
    var firstTokenSeconds = 0.0

    func with(_ round: Round) -> Statistics { with(Statistics(round)) }

    /// These counts and those of another generation after this one.
    func with(_ later: Statistics) -> Statistics {
        var sum = self
        for count in Statistics.counts { sum[keyPath: count] += later[keyPath: count] }
        for part in Statistics.parts { sum[keyPath: part] += later[keyPath: part] }
        if later.firstTokenSeconds > 0 { sum.firstTokenSeconds = later.firstTokenSeconds }
        return sum
    }

    private static var counts: [WritableKeyPath<Statistics, Int>] {
        [
            \.rounds, \.drafted, \.evaluated, \.acceptedDrafts, \.proposed, \.accepted, \.emitted, \.learned, \.unsound,
            \.read.tokens,
        ]
    }
    private static var parts: [WritableKeyPath<Statistics, Double>] {
        [
            \.seconds.draft, \.seconds.translate, \.seconds.target, \.seconds.verify, \.seconds.learn,
            \.read.seconds,
        ]
    }
}

extension Statistics {
    init(_ round: Round) {
        rounds = 1
        drafted = round.draft.count
        evaluated = round.evaluated
        acceptedDrafts = round.acceptedDrafts
        proposed = round.proposed.count
        accepted = round.accepted
        emitted = round.emitted.count
        learned = round.learned
        unsound = round.unsound ? 1 : 0
        seconds = round.seconds
        read = round.read
    }
}

extension Statistics {
    /// The counts of some generations as an app reads them, with the memory of this process.
    func stats(answers: Int) -> Stats {
        var stats = Stats()
        stats.answers = answers
        (stats.rounds, stats.unsound, stats.learned) = (rounds, unsound, learned)
        (stats.drafted, stats.evaluated, stats.acceptedDrafts) = (drafted, evaluated, acceptedDrafts)
        (stats.proposed, stats.accepted, stats.emitted) = (proposed, accepted, emitted)
        (stats.seconds.draft, stats.seconds.translate) = (seconds.draft, seconds.translate)
        (stats.seconds.target, stats.seconds.verify) = (seconds.target, seconds.verify)
        stats.seconds.learn = seconds.learn
        (stats.read, stats.readSeconds, stats.firstTokenSeconds) = (read.tokens, read.seconds, firstTokenSeconds)
        stats.peakMemory = peakBytes()
        return stats
    }
}
