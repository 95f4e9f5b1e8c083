// One answer while it is generated: rounds in, pieces of text out, and the reason why it ended.

/// Where an output ends besides its stop strings; a constraint knows where nothing may follow.
struct Limits {
    let eosIds: Set<Int32>
    /// Positions of the target's context.
    let maxLength: Int
    var constraint: Constraint?
}

/// What tells the thought of an output from the answer.
struct Thoughts {
    /// Of the model; nil for a model that writes no thoughts.
    var tags: ThinkTags?
    var inside = false
}

/// The output of a generation that an earlier process began; empty for a new generation.
struct EarlierOutput {
    /// Target ids of the output.
    var tokenIds: [Int32] = []
    /// Of ``tokenIds``, if they were asked for.
    var logprobs: [Double] = []
    /// Why the output ended; nil where it can continue.
    var stopReason: StopReason?
}

/// Runs the rounds of a generation on the models of its session.
protocol Rounds: AnyObject {
    /// The next round; nil where there is none.
    ///
    /// - Throws: ``Cancelled``: the generation was cancelled before the round's pass of the target ended.
    func next(_ generation: Generation) throws -> Round?
    /// Waits between two rounds as long as the app asks for; see ``Throttle``.
    func pause(_ generation: Generation)
    /// Ends the run of a graph that is going on; from any thread.
    func interrupt()
}

/// One answer: ask for pieces of text, read its fields during and after. One thread asks for pieces; ``cancel()``,
/// ``statistics``, ``stopReason`` and ``isCancelled`` may be used from any.
final class Generation: @unchecked Sendable {
    /// The settings, with the seed that repeats this generation.
    let config: GenerationConfig
    /// Target ids of the prompt.
    let prompt: [Int32]
    /// The output so far, without stop string and end token. A tag of thoughts or calls that is a control token of the
    /// target is written, too.
    private(set) var text = ""
    /// Target ids of the output so far. An end token, or the token that completed the stop string, is the last of them
    /// and counts.
    private(set) var tokenIds: [Int32] = []
    /// Natural log-probabilities of ``tokenIds``, if they were asked for.
    private(set) var logprobs: [Double] = []

    /// Oldest turns of the conversation that were left out for this answer.
    var droppedTurns = 0

    private struct Shared {
        var statistics = Statistics()
        var stopReason: StopReason?
        var isCancelled = false
        var pieces: [Piece] = []  // of the last round, that were not given yet
    }

    private let rounds: any Rounds
    private let stopText: StopText
    private let limits: Limits
    private let thoughts: Thoughts
    private let clock: Clock
    private let shared = Guarded(Shared())
    private var stream: ThoughtStream?
    private var callForm: CallForm?  // how calls of tools are written; nil where the output has none
    private var callStream: CallStream?
    private var pieces: [Piece] {
        get { shared.with { $0.pieces } }
        set { shared.with { $0.pieces = newValue } }
    }

    init(
        rounds: any Rounds, config: GenerationConfig, prompt: [Int32], stopText: StopText, limits: Limits,
        thoughts: Thoughts = Thoughts(), clock: @escaping Clock = seconds
    ) {
        self.rounds = rounds
        self.config = config
        self.prompt = prompt
        self.stopText = stopText
        self.limits = limits
        self.thoughts = thoughts
        self.clock = clock
        stream = thoughts.tags.map { ThoughtStream($0, inside: thoughts.inside) }
    }

    var statistics: Statistics { shared.with { $0.statistics } }
    /// Why it ended; nil before.
    var stopReason: StopReason? { shared.with { $0.stopReason } }
    var isCancelled: Bool { shared.with { $0.isCancelled } }
    /// Whether the output begins inside a thought, because the prompt ends with the open tag.
    var beginsInside: Bool { thoughts.inside }
    /// What the model thought before its answer, without the tags; empty for most models.
    var thought: String { splitThought(uncalled, thoughts.tags, inside: thoughts.inside).thought }
    /// The text behind the thought and before calls of tools; empty while the model is thinking.
    var answer: String { splitThought(uncalled, thoughts.tags, inside: thoughts.inside).answer }
    var calls: [ToolCall] { callForm?.read(Array(text.utf8)) ?? [] }
    private var uncalled: String {
        guard let callForm else { return text }
        let data = Array(text.utf8)
        return String(decoding: data[..<callForm.start(data)], as: UTF8.self)
    }
    /// Whether the output belongs to a grammar.
    var hasGrammar: Bool { limits.constraint != nil }
    /// The byte of the output at which the stop string began; nil where no stop string ended it.
    var stopStart: Int? { stopText.start }

    /// Reads the output as a text that may call tools; before the first round.
    func readCalls(_ form: CallForm) {
        callForm = form
        callStream = CallStream(form)
    }

    /// Ends this generation within one operator of a graph; from any thread.
    ///
    /// The output so far stays, and the session continues from there.
    func cancel() {
        shared.with { $0.isCancelled = true }
        rounds.interrupt()
    }

    /// Waits before the next round as long as the app asks for; from any thread.
    func pause() {
        let isBetween = shared.with { $0.statistics.rounds > 0 && $0.stopReason == nil && $0.pieces.isEmpty }
        if isBetween { rounds.pause(self) }
    }

    /// The next piece; nil at the end. An error changes nothing of what was given before.
    func next() throws -> Piece? {
        if pieces.isEmpty {
            if stopReason != nil { return nil }
            pieces = try roundPieces()
        }
        // A cancelled generation that held nothing back ends with a piece without text.
        return pieces.isEmpty ? Piece(text: "") : pieces.removeFirst()
    }

    @discardableResult
    func finish() throws -> Generation {
        while try next() != nil {}
        return self
    }

    /// Runs a round; its text as pieces. The first piece has the ids.
    private func roundPieces() throws -> [Piece] {
        let started = clock()
        let before = statistics
        guard let round = try nextRound() else {
            shared.with { $0.stopReason = .cancelled }
            let rest = stopText.end()
            text += rest
            return parts(rest).map { Piece(text: $0.text, kind: $0.kind) }
        }
        tokenIds += round.emitted
        logprobs += round.logprobs
        var counted = before.with(round)
        counted.firstTokenSeconds = before.rounds == 0 ? clock() - started : before.firstTokenSeconds
        let ended = end()
        shared.with {
            $0.statistics = counted
            $0.stopReason = ended
        }
        let certain = stopText.take() + (ended == nil ? "" : stopText.end())
        text += certain
        var parts = parts(certain)
        if parts.isEmpty { parts = [("", stream?.isThinking == true ? .thought : .text)] }
        return parts.enumerated().map { number, part in
            Piece(
                text: part.text, tokenIds: number == 0 ? round.emitted : [], drafted: number == 0 ? round.accepted : 0,
                kind: part.kind)
        }
    }

    /// Text that became certain, in parts of one kind; at the end all that was held back.
    private func parts(_ text: String) -> [(text: String, kind: Piece.Kind)] {
        var (said, called) = callStream?.push(text) ?? (text, "")
        if stopReason != nil { said += callStream?.end() ?? "" }
        var parts: [(text: String, kind: Piece.Kind)] = []
        if stream == nil {
            if !said.isEmpty { parts.append((said, .text)) }
        } else {
            var spoken = stream?.push(said) ?? []
            if stopReason != nil || !called.isEmpty { spoken += stream?.end() ?? [] }
            parts = spoken.map { ($0.text, $0.isThought ? .thought : .text) }
        }
        return called.isEmpty ? parts : parts + [(called, .call)]
    }

    /// Takes over earlier output of this generation; its text is not given again.
    func replay(_ emitted: EarlierOutput) {
        tokenIds += emitted.tokenIds
        logprobs += emitted.logprobs
        shared.with { $0.stopReason = emitted.stopReason }
        let written = stopText.take() + (emitted.stopReason == nil ? "" : stopText.end())
        text += written
        _ = parts(written)
    }

    /// The next round; nil where the generation was cancelled or an error ended its rounds before.
    private func nextRound() throws -> Round? {
        do {
            return try rounds.next(self)
        } catch is Cancelled {
            return nil
        }
    }

    /// Why the output ends with the last token so far; nil where it may continue.
    func end() -> StopReason? {
        if stopText.matched != nil { return .stop }
        if let last = tokenIds.last, limits.eosIds.contains(last) { return .eos }
        if limits.constraint?.isComplete == true { return .complete }
        return limit()
    }

    /// Which limit ends the output; nil where none does.
    func limit() -> StopReason? {
        if tokenIds.count >= config.maxNewTokens { return .length }
        // The last token is never scored, so it needs no position.
        return prompt.count + tokenIds.count > limits.maxLength ? .context : nil
    }
}
