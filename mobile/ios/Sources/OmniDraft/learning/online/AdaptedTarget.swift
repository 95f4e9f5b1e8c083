// One pair of models that learns from its traces: learner, guard and progress.

private let drafted = "trie"  // the mode whose answers the guard counts: others do not depend on the drafter alone

struct AdaptOptions: Sendable {
    /// Answers between two rounds of learning, at least.
    var interval = Defaults.learnerInterval
    /// Over the answers of an interval, in steps of ``Defaults/learnerBatch``.
    var passes = Defaults.learnerPasses
    /// Earlier answers in each step, besides the new ones.
    var replayed = Defaults.learnerReplayed
    /// Earlier answers that are kept to be replayed, and new answers that are learned from at once.
    var memory = Defaults.learnerMemory
    var seed: UInt64 = 0
    /// Draft tokens of a response with its prompt at most; nil for all that the drafter's context holds.
    var maxLength: Int?
    var judging = GuardOptions()

    /// The options that a checkpoint records, by name; a later run needs the same values.
    var settings: [(name: String, value: String)] {
        [
            ("interval", "\(interval)"), ("passes", "\(passes)"), ("replayed", "\(replayed)"), ("memory", "\(memory)"),
            ("seed", "\(seed)"),
        ]
    }

    /// - Throws: ``OmniDraftError/setting(_:)``: a value outside its range.
    func check() throws {
        let atLeast = [
            ("interval", interval, 1), ("passes", passes, 1), ("replayed", replayed, 0), ("memory", memory, 0),
            ("maxLength", maxLength ?? 2, 2),
        ]
        for (name, value, least) in atLeast where value < least {
            throw settingError("\(name) \(value) is less than \(least)")
        }
    }

    /// The same with responses of at most this length; nil leaves them.
    func within(_ length: Int?) -> AdaptOptions {
        var options = self
        options.maxLength = [maxLength, length].compactMap { $0 }.min()
        return options
    }
}

/// The session that an adapter is learned for.
protocol AdapterUser: AnyObject {
    /// Digest of the target's adapter in use; nil for none.
    var targetAdapter: String? { get }
    /// Whether the last record of the trace may still grow.
    var isAnswering: Bool { get }
    /// Draft with an adapter from the next round on; nil drafts without one.
    func useDrafterAdapter(_ adapter: Adapter?) throws
}

/// The pair that learns. One thread uses it at a time.
final class AdaptedTarget {
    /// It learns, at its first rate times the rate scale of the progress.
    let learner: any Learner
    let options: AdaptOptions
    var judge: Guard
    var progress: AdaptationProgress
    /// Called after each step, when ``checkpoint()`` may be written.
    var afterStep: () throws -> Void = {}
    private let user: any AdapterUser
    private let trace: RecordedAnswers
    private let aligner: TraceAligner
    private let baseRate: Double
    private let base: Adapter?
    private var good: Arrays
    private var used: Adapter?

    /// - Parameter checkpoint: to go on from; nil begins.
    /// - Throws: ``OmniDraftError/setting(_:)``: the checkpoint is of another learner.
    init(
        _ bundle: ModelBundle, _ map: VocabMap, user: any AdapterUser, learner: any Learner, trace: RecordedAnswers,
        options: AdaptOptions, checkpoint: LearningCheckpoint?, begun: Adapter?
    ) throws {
        self.user = user
        self.learner = learner
        self.trace = trace
        self.options = options
        let longest = min(options.maxLength ?? .max, bundle.drafter.kv.maxLength)
        aligner = TraceAligner(
            aligner: Aligner(trie: fullTrie(map), maxLength: longest), start: startOf(bundle.drafter),
            targetAdapter: user.targetAdapter)
        baseRate = learner.rate
        judge = Guard(options.judging)
        progress = checkpoint?.progress ?? AdaptationProgress()
        used = checkpoint?.used
        base = checkpoint.map(\.base) ?? begun
        if let checkpoint {
            try learner.restore(checkpoint.learner)
            judge.state = checkpoint.progress.guardState
        }
        let kept = checkpoint?.good ?? Arrays()
        good = kept.count > 0 ? kept : learner.state()
        learner.rate = baseRate * progress.rateScale
    }

    /// Take the records that came since the last time: they are pending, and the guard counts those that were drafted.
    ///
    /// - Throws: ``OmniDraftError/traceFile(_:)``: a segment is refused.
    func collect() throws {
        let inUse = (used ?? base)?.digest
        try trace.since(progress.read, isGrowing: user.isAnswering) { found in
            let place = AnswerPlace(number: progress.answered + 1, segment: found.segment, record: found.record)
            progress.read = place
            if found.traced.start.targetAdapter != user.targetAdapter { return }
            progress.answered = place.number
            progress.places.append(place)
            progress.pending.append(place.number)
            observe(found.traced, inUse)
        }
        progress.pending = progress.pending.suffix(max(options.memory, options.interval))
        progress.dropPlaces()
    }

    /// The training positions of answers; those whose records were deleted to make room are left out.
    func aligned(_ numbers: [Int]) throws -> [Aligned] {
        let known = Dictionary(progress.places.map { ($0.number, $0) }, uniquingKeysWith: { $1 })
        var segments: [Int: [Traced]] = [:]
        return try numbers.compactMap { number in
            guard let place = known[number] else { return nil }
            let records = try segments[place.segment] ?? trace.segment(place.segment)?.generations() ?? []
            segments[place.segment] = records
            guard place.record < records.count else { return nil }
            let traced = records[place.record]
            return traced.start.targetAdapter == user.targetAdapter ? try alignedIfPossible(traced) : nil
        }
    }

    /// Draft with the learner's adapter from now on.
    func swapIn() throws {
        learner.rate = baseRate * progress.rateScale
        used = progress.version == 0 ? nil : try learner.adapter()
        try user.useDrafterAdapter(used ?? base)
    }

    /// Keep the adapter in use for a rollback.
    func keepGood() { good = learner.state() }

    /// Draft and learn with the last good adapter.
    func goBack() throws {
        try learner.restore(good)
        try swapIn()
    }

    /// The whole state, between two steps.
    func checkpoint() -> LearningCheckpoint {
        progress.guardState = judge.state
        progress.dropPlaces()
        let isGood = progress.version == progress.good && progress.unfinished == nil
        return LearningCheckpoint(
            progress: progress, learner: learner.state(), good: isGood ? Arrays() : good, used: used, base: base)
    }

    private func observe(_ traced: Traced, _ inUse: String?) {
        let start = traced.start
        guard isSame(start.mode, drafted), start.drafterAdapter == inUse, !traced.rounds.isEmpty else { return }
        let tokens = traced.rounds.reduce(0) { $0 + $1.tokens.count }
        judge.observe(AnswerCounts(tokens: tokens, passes: traced.rounds.count))
    }

    /// The positions of a record; nil where nothing can be learned from it, such as rows that are no distribution.
    private func alignedIfPossible(_ traced: Traced) throws -> Aligned? {
        do {
            return try aligner.align(traced)
        } catch OmniDraftError.setting {
            return nil
        }
    }
}
