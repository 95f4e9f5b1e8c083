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
    /// What is being answered; nil where every message has its turn.
    var asked: Turn?
    /// The system prompt of texts that begin in the template; nil for none.
    var system: String?
    /// The tools that the model may call, as the prompt lists them; nil without any.
    var tools: String?
    /// What the last answer had to belong to, where ``asked`` is not nil; of a restored one it is not known.
    var wanted: Grammar?
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

    /// Forgets the conversation and its counts, not system prompt, tools and what was learned.
    func forgetText() {
        turns = []
        asked = nil
        counted.with { $0 = Counted() }
    }
}
