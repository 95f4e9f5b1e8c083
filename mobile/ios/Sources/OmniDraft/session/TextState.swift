// The state of a session's text, in memory and as the values that a session file holds.

/// What the draft length learned. A generation goes on with its own, where a session begins another one.
final class Lengths {
    var state: LengthState

    init(_ state: LengthState = LengthState()) { self.state = state }
}

/// The state of a session's text. The one user of the session reads and writes it.
final class TextState {
    var cache: NgramCache
    /// Seconds on this device, which the draft length "auto" uses.
    var costs: Costs
    /// The text in both vocabularies.
    var decoder = DecoderState()
    /// The source of randomness of the last generation.
    var random = SplitMix64(0)
    /// What the draft length "auto" learned of the texts so far.
    var lengths = Lengths()
    var turns: [Turn] = []
    /// The message that is being answered; nil where every message has its turn.
    var message: String?
    /// The system prompt of texts that begin in the template; nil for none.
    var system: String?
    /// How often the drafter had been dropped when the last text began; see ``SessionModels/drops``.
    var drops = 0
    // What statistics are made of, replaced as a whole: any thread may read it.
    private let counted = Guarded(Counted())

    init(_ cache: NgramCache, _ costs: Costs) {
        self.cache = cache
        self.costs = costs
    }

    private struct Counted {
        var totals = Statistics()
        var answers = 0
        var answer: Generation?
    }

    /// The last generation; nil where it was taken back.
    var answer: Generation? {
        get { counted.with { $0.answer } }
        set { counted.with { $0.answer = newValue } }
    }

    /// Counts of all generations, the last one with it, and their number; from any thread.
    func statistics() -> (answers: Int, totals: Statistics) {
        let now = counted.with { $0 }
        return (now.answers, now.answer.map { now.totals.with($0.statistics) } ?? now.totals)
    }

    /// Puts a generation, or none, in the place of the last one, whose counts stay.
    func begin(_ answer: Generation?) {
        counted.with { now in
            if let before = now.answer { now.totals = now.totals.with(before.statistics) }
            if answer != nil { now.answers += 1 }
            now.answer = answer
        }
    }

    /// Forgets the conversation and its counts, not the system prompt and not what was learned.
    func forgetText() {
        turns = []
        message = nil
        counted.with { $0 = Counted() }
    }
}

/// What a session belongs to.
struct Identity: Sendable, Equatable {
    let draftFingerprint: String
    let targetFingerprint: String
    /// The SHA-256 of each file of the graphs, by path.
    let graphs: ByName<String>
    /// Digest of the adapter in use by role; a role without one is absent.
    var adapters: [Role: String] = [:]
}

/// The last generation of a session.
struct SavedAnswer: Sendable {
    /// Its settings, with the seed that was used.
    let config: GenerationConfig
    /// Target ids.
    let prompt: [Int32]
    /// Target ids.
    let output: [Int32]
    /// The same text in draft ids; nil where no drafter was loaded.
    let context: [Int32]?
    /// State of SplitMix64.
    let random: UInt64
    /// Why it ended; nil when it can continue.
    let stopReason: StopReason?
    /// Of the output, if they were asked for.
    let logprobs: [Double]
}

/// All of a session but its cache.
struct SavedSession: Sendable {
    /// Version of the package that wrote it.
    let omnidraft: String
    let identity: Identity
    /// Seconds on this device.
    let costs: Costs
    /// What the draft length "auto" learned.
    let lengths: LengthState
    let turns: [Turn]
    /// The message that is being answered; nil where every message has its turn.
    let message: String?
    /// The last generation; nil before the first, and where it was taken back.
    let answer: SavedAnswer?
    /// The system prompt; nil for none.
    let system: String?
}
