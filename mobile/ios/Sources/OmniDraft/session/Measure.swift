// Measure this device: seconds of a target pass, of a draft token and of the round's own work. The machine is rarely idle,
// so all measurements take turns and each figure is a median: a disturbance slows all of them alike.

private let drafted = 2
private let turns = 4
private let roundsOfTurn = 5
private let repeats = 3  // of each pass in a turn
private let tokens = 96  // more than all these rounds can emit
// Tokens of the timed passes; the others follow from the first ones.
private let passLengths = [1, 5, 9, 3, 7, 2, 4, 6, 8]
private let longestPass = 9
private let passesShare = 0.6  // of a turn's time, for passes; the rest is for rounds
private let roundPasses = 2  // a round takes less time than this number of the longest passes
private let comparedPasses = 16  // first passes of a generation, after at most so long a text
private let comparedTokens = 512
private let mostRatio = 2.0
private let leastPasses = 2  // timed before a turn may end early; and one round

/// What was measured so far.
struct Timings {
    /// Seconds of target passes by their tokens.
    var passes: [Int: [Double]] = [:]
    /// Rounds with a draft before which the drafter had nothing to read.
    var timed: [Round] = []
    /// Seconds of the longest pass of the target.
    var longest = 0.0

    /// The costs; passes that were not timed lie on the line between those that were.
    var costs: Costs {
        let known = passes.mapValues(median)
        let seconds = (1...max(1, known.keys.max() ?? 1)).map { between(known, $0) }
        // The pass after a draft takes longer than those after other passes: the drafter's weights took the caches.
        let drafts = timed.map { round in
            let more = round.seconds.target - seconds[min(round.proposed.count, seconds.count - 1)]
            return (round.seconds.draft + max(0, more)) / Double(round.draft.count)
        }
        let hosts = timed.map { $0.seconds.translate + $0.seconds.verify + $0.seconds.learn }
        return Costs(
            // Costs must not fall with n; if they do, it was noise.
            target: seconds.indices.map { seconds[$0...].reduce(.infinity, min) },
            draft: median(drafts), host: median(hosts))
    }
}

/// Times target passes over 1 to 9 tokens after a prompt and some real rounds, greedy, in turns, and in bounded time: nothing
/// begins that would end later, if it takes as long as before.
///
/// The cache of the models is not changed; their KV buffers are overwritten.
///
/// - Returns: nil where the time was too short to time two passes and a draft.
func measureWithin(
    _ models: DecoderModels, prompt: [Int32], draftPrompt: [Int32], seconds: Double
) throws -> Costs? {
    let timings = try CostMeasurement(models, prompt, draftPrompt, seconds: seconds).run()
    return timings.passes.count < leastPasses || timings.timed.isEmpty ? nil : timings.costs
}

private final class CostMeasurement {
    private let target: any CausalModel
    private let clock: Clock
    private let prompt: [Int32]
    private let seconds: Double
    private let text = DecoderState()
    private let loop: Decode
    private let started: Double
    private var timings = Timings()

    init(_ models: DecoderModels, _ prompt: [Int32], _ draftPrompt: [Int32], seconds: Double) throws {
        self.prompt = prompt
        self.seconds = seconds
        target = models.target
        clock = models.clock
        text.restart(prompt, draftPrompt, remaining: min(tokens, target.maxLength - prompt.count), cut: cutAtEos([]))
        let cache = try NgramCache(models.cache.map)
        let trial = DecoderModels(target: models.target, drafter: models.drafter, cache: cache, clock: models.clock)
        loop = try Decode(
            trial, text: text, config: GenerationConfig(), draftLength: FixedLength(drafted), random: SplitMix64(0))
        started = clock()
    }

    func run() throws -> Timings {
        let before = Array(prompt.prefix(max(1, target.maxLength - longestPass)))
        for turn in 0..<turns {
            try timePasses(before, Double(turn) + passesShare)
            text.forgetCached()  // the KV buffers hold other positions now
            for number in 0..<roundsOfTurn {
                if isOver(Double(turn + 1), !timings.timed.isEmpty, roundPasses) { break }
                guard let round = try loop.next() else { break }
                // In the first round the drafter reads its context again.
                if number > 0 && !round.draft.isEmpty { timings.timed.append(round) }
            }
        }
        return timings
    }

    /// Whether more passes would end after all the time, or begin after the turns and there is enough.
    private func isOver(_ done: Double, _ enough: Bool, _ passes: Int) -> Bool {
        let passed = clock() - started
        return passed + Double(passes) * timings.longest >= seconds
            || (enough && passed >= seconds * done / Double(turns))
    }

    /// Adds the seconds of passes after a prompt, by their tokens; their ids do not matter.
    private func timePasses(_ before: [Int32], _ done: Double) throws {
        if isOver(done, timings.passes.count >= leastPasses, 1) { return }
        target.rewind(0)
        _ = try timed(before, 1)
        let past = target.length
        for _ in 0..<repeats {
            for n in passLengths {
                if isOver(done, timings.passes.count >= leastPasses, 1) { return }
                let seconds = try timed([Int32](repeating: before[0], count: n), nil)
                timings.passes[n, default: []].append(seconds)
                target.rewind(past)
            }
        }
    }

    private func timed(_ tokens: [Int32], _ rows: Int?) throws -> Double {
        let begun = clock()
        _ = try target.score(tokens, numLogits: rows)
        let taken = clock() - begun
        timings.longest = max(timings.longest, taken)
        return taken
    }
}

/// Compares the first passes of a generation with costs of this device.
struct CostsWatch {
    let costs: Costs
    /// Seconds of each pass, relative to its costs.
    private var ratios: [Double] = []

    init(_ costs: Costs) { self.costs = costs }

    /// Counts a target pass; whether the passes so far show that they take twice as long as the costs say.
    ///
    /// - Parameters:
    ///   - tokens: of the pass.
    ///   - length: tokens of the text before it; attention makes the passes of a long text slower.
    mutating func areOutdated(tokens: Int, seconds: Double, length: Int) -> Bool {
        if length > comparedTokens || ratios.count == comparedPasses { return false }
        ratios.append(seconds / costs.passSeconds(tokens))
        return ratios.count == comparedPasses && median(ratios) > mostRatio
    }
}

/// The middle of some numbers; the mean of the two in the middle of an even number of them.
func median(_ numbers: [Double]) -> Double {
    let sorted = numbers.sorted()
    let middle = sorted.count / 2
    return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/// The seconds of a pass over n tokens, on the line between the nearest passes that are known.
private func between(_ known: [Int: Double], _ n: Int) -> Double {
    let lengths = known.keys.sorted()
    guard let first = lengths.first, let last = lengths.last else { return 0 }
    let below = lengths.last { $0 <= n } ?? first
    let above = lengths.first { $0 >= n } ?? last
    let (low, high) = (known[below] ?? 0, known[above] ?? 0)
    return below == above ? low : low + (high - low) * Double(n - below) / Double(above - below)
}
