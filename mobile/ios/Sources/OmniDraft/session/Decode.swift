import Foundation

// The loop as a session runs it: with a mode by name, seconds, log-probabilities and a trace.

/// Gives seconds.
typealias Clock = () -> Double

/// Seconds of a clock that only goes forward, and stops while the device sleeps.
func seconds() -> Double {
    var now = timespec()
    #if canImport(Darwin)
        clock_gettime(CLOCK_UPTIME_RAW, &now)
    #else
        clock_gettime(CLOCK_MONOTONIC, &now)
    #endif
    return Double(now.tv_sec) + Double(now.tv_nsec) * 1e-9
}

/// Records the rounds of one generation; see the recorder of traces.
protocol RoundRecorder: AnyObject {
    /// Records a verified round.
    func record(_ outcome: Outcome, _ probs: TargetProbs) throws
    /// Ends the record.
    func close() throws
}

/// The models and the cache that decode a text.
struct DecoderModels {
    let target: any Model
    let drafter: Drafter
    /// N-grams of the pair.
    let cache: NgramCache
    /// Gives seconds.
    var clock: Clock = seconds
}

/// The rounds of a generation, each with its seconds and, if asked for, its log-probabilities.
final class Decode {
    private let watch: Stopwatch
    private let rounds: Speculation
    private let observed: Observed
    private var recorder: (any RoundRecorder)?
    private var hasEnded = false

    /// - Parameters:
    ///   - text: from which the generation continues; see ``Speculation``.
    ///   - recorderOf: makes the recorder of a trace for the proposer of this generation.
    init(
        _ models: DecoderModels, _ text: DecoderState, _ config: GenerationConfig, _ draftLength: any DraftLength,
        _ random: any RandomSource, recorderOf: ((any Proposer) throws -> any RoundRecorder)? = nil
    ) throws {
        let watch = Stopwatch(models.clock)
        let proposer = proposerFor(config, models.drafter, models.cache)
        let recorder = try recorderOf?(proposer)
        let observed = Observed()
        let logprobs = config.logprobs
        self.watch = watch
        self.recorder = recorder
        self.observed = observed
        rounds = Speculation(
            TimedTarget(models.target, watch), TimedProposer(proposer, watch), text, try config.sampling(), draftLength,
            random
        ) { outcome, probs in
            if logprobs { observed.logprobs = try probs.logprobs(outcome.emitted) }
            try recorder?.record(outcome, probs)
        }
    }

    /// The next round; nil at the end of the text. An error ends the rounds, and so the record.
    func next() throws -> Round? {
        if hasEnded { return nil }
        do {
            guard var round = try rounds.next() else {
                try close()
                return nil
            }
            round.seconds = watch.take()
            round.read = watch.takeRead()
            round.logprobs = observed.logprobs
            return round
        } catch {
            try close()
            throw error
        }
    }

    /// Ends the rounds and the record; a second call does nothing.
    func close() throws {
        hasEnded = true
        defer { recorder = nil }
        try recorder?.close()
    }
}

/// What the observer of a round saw.
private final class Observed {
    var logprobs: [Double] = []
}

/// The proposer of a mode: what `baselines` makes in the reference runtime, without the modes for comparisons.
///
/// At temperature 0 a proposal is accepted while it is the argmax, so drafts are verified by equality.
func proposerFor(_ config: GenerationConfig, _ drafter: Drafter, _ cache: NgramCache) -> any Proposer {
    switch config.mode {
    case .lookup: return PromptLookup()
    case .plain: return PlainProposer()
    case .trie: break
    }
    let drafting: TrieProposer
    if config.temperature == 0 {
        drafting = MatchProposer(drafter, cache)
    } else {
        var verifier: Verifier = verifyTokens
        if config.verification == .block { verifier = verifyBlock }
        drafting = TrieProposer(drafter, cache, temperature: config.temperature, verifier: verifier)
    }
    return config.copies ? CopyingProposer(drafting) : drafting
}

/// Adds up the seconds of the parts of a round.
final class Stopwatch {
    let clock: Clock
    private var seconds = Seconds()
    private var read = TextRead()

    init(_ clock: @escaping Clock) { self.clock = clock }

    /// The seconds since the last call.
    func take() -> Seconds {
        defer { seconds = Seconds() }
        return seconds
    }

    /// Counts tokens that the target read since `started`.
    func addRead(_ tokens: Int, since started: Double) {
        read.tokens += tokens
        read.seconds += clock() - started
    }

    /// What was read since the last call.
    func takeRead() -> TextRead {
        defer { read = TextRead() }
        return read
    }

    /// Runs something, and adds its time to a part.
    func time<T>(_ part: WritableKeyPath<Seconds, Double>, _ work: () throws -> T) rethrows -> T {
        let started = clock()
        let result = try work()
        seconds[keyPath: part] += clock() - started
        return result
    }
}

/// A target whose scoring and rewinding is timed; reading a prompt is counted apart from the round.
final class TimedTarget: Model {
    private let model: any Model
    private let watch: Stopwatch

    init(_ model: any Model, _ watch: Stopwatch) {
        self.model = model
        self.watch = watch
    }

    var vocabSize: Int { model.vocabSize }
    var maxLength: Int { model.maxLength }
    var length: Int { model.length }

    func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        // A round asks for all rows.
        guard let numLogits else { return try watch.time(\.target) { try model.score(tokens, numLogits: nil) } }
        let started = watch.clock()
        defer { watch.addRead(tokens.count, since: started) }
        return try model.score(tokens, numLogits: numLogits)
    }

    func rewind(_ length: Int) { watch.time(\.verify) { model.rewind(length) } }
}

/// A proposer whose calls are timed.
final class TimedProposer: Proposer {
    private let proposer: any Proposer
    private let watch: Stopwatch

    init(_ proposer: any Proposer, _ watch: Stopwatch) {
        self.proposer = proposer
        self.watch = watch
    }

    var rule: Rule { proposer.rule }
    var trie: ActiveTrie? { proposer.trie }

    func find(_ tokens: [Int32]) -> Copy { watch.time(\.draft) { proposer.find(tokens) } }
    func readAhead(_ context: [Int32]) throws { try proposer.readAhead(context) }
    func settle() throws { try watch.time(\.draft) { try proposer.settle() } }

    func propose(_ plan: Plan, _ copy: Copy, _ context: [Int32], _ random: any RandomSource) throws -> Draft {
        try watch.time(\.draft) { try proposer.propose(plan, copy, context, random) }
    }

    func translate(_ draft: Draft, room: Int) -> Proposal {
        watch.time(\.translate) { proposer.translate(draft, room: room) }
    }

    func verify(
        _ draft: Draft, _ proposal: Proposal, _ probs: any Probs, _ random: any RandomSource
    ) throws -> Verdict {
        try watch.time(\.verify) { try proposer.verify(draft, proposal, probs, random) }
    }

    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int {
        watch.time(\.learn) { proposer.learn(outcome, &context) }
    }
}
