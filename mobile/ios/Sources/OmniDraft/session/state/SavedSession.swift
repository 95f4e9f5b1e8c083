// What a session is as values, which its file holds (spec/09-session.md).

/// A message and its answer.
struct Turn: Sendable, Equatable {
    let message: String
    /// Target ids, without the token or string that ended it.
    var answer: [Int32] = []
    /// Of the tools that the answer before called; they take the place of the message.
    var results: [String] = []

    /// Texts are compared by their bytes.
    static func == (a: Turn, b: Turn) -> Bool {
        isSame(a.message, b.message) && a.answer == b.answer && a.results.elementsEqual(b.results, by: isSame)
    }
}

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
    /// What is being answered; nil where every message has its turn.
    let asked: Turn?
    /// The last generation; nil before the first, and where it was taken back.
    let answer: SavedAnswer?
    /// The system prompt; nil for none.
    let system: String?
    /// The tools as the prompt lists them; nil without any.
    let tools: String?
}
