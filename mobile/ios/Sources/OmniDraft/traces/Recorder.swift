// Records one generation: an observer of the loop that writes each round to a trace.

/// The digests of the drafter's and of the target's adapter; nil for none.
struct AdapterDigests: Sendable, Equatable {
    var drafter: String?
    var target: String?
}

/// The generation that a record is about.
struct RecordingSource {
    /// Spells the emitted tokens.
    let map: VocabMap
    /// Gives the text before the first round in draft ids; called in the first round, before it is learned.
    let context: () -> [Int32]
    /// Gives the digests of the adapters that the last round ran with.
    let adapters: () -> AdapterDigests
    let mode: String
    /// Whether the generation began in another record.
    let continues: Bool
}

/// Writes the rounds of one generation to a store; ``record(_:_:)`` is an observer of the loop.
final class Recorder {
    private let store: TraceStore
    private let tracer: Tracer
    private let source: RecordingSource
    private var context: [Int32]?  // the text so far in draft ids
    private var adapters = AdapterDigests()
    private var continues: Bool
    private var place: SegmentPlace?  // of the record that is being extended

    /// - Parameter source: describes the generation.
    init(_ store: TraceStore, tracer: Tracer, source: RecordingSource) {
        self.store = store
        self.tracer = tracer
        self.source = source
        continues = source.continues
    }

    /// Record a round, before anything is learned from it.
    func record(_ outcome: Outcome, _ probs: TargetProbs) {
        let adapters = source.adapters()
        var text = context ?? source.context()
        context = nil  // the array has one owner while it grows
        defer { context = text }
        let traced = tracer(outcome, probs)
        // The next round is of other models, or comes after a gap.
        if adapters != self.adapters || traced == nil { place = nil }
        self.adapters = adapters
        if let traced { place = store.append(traced, at: place) { start(text) } }
        text += outcome.emitted.flatMap { source.map.spell($0) }
        continues = true
    }

    func close() { store.sync() }

    private func start(_ text: [Int32]) -> TraceStart {
        let (skipped, kept) = windowOf(text)
        return TraceStart(
            drafterAdapter: adapters.drafter, targetAdapter: adapters.target, mode: source.mode, continues: continues,
            skipped: skipped, context: kept)
    }
}
