// The loop: draft, translate, score, verify, learn, repeat (spec/04-speculation.md).
//
// A mode is a Proposer, not a branch of the loop. A trace leaves through the observer.

let prefillChunk = 64  // tokens of a prompt in one pass; a cancellation waits for one pass

typealias Clock = () -> Double

/// Called with each verified round before anything is learned from it.
typealias Observer = (Outcome, TargetProbs) throws -> Void

/// Seconds of a round by its parts.
struct Seconds: Sendable, Equatable {
    var draft = 0.0
    var translate = 0.0
    var target = 0.0
    var verify = 0.0
    var learn = 0.0
}

/// What the target read before a round: the prompt, or text that its KV cache lacked.
struct TextRead: Sendable, Equatable {
    var tokens = 0
    var seconds = 0.0
}

/// One target pass: what was drafted, proposed, accepted and emitted.
struct Round: Sendable, Equatable {
    /// Draft ids; none where the context was copied from.
    let draft: [Int32]
    /// Target ids.
    let proposed: [Int32]
    /// Number of proposed ids among the emitted.
    let accepted: Int
    /// Target ids that are output, cut at the end of the text.
    let emitted: [Int32]
    /// Draft tokens up to the one that ended the round.
    let evaluated: Int
    let acceptedDrafts: Int
    /// Number of n-grams that are new in the cache.
    var learned = 0
    /// Whether the proposed ids were copied from the context.
    var copied = false
    /// Whether the drafter gave NaN or infinity, so that the draft ended there.
    var unsound = false
    /// Natural log-probabilities of the emitted ids under the distribution that they were sampled from, after penalty,
    /// temperature and truncation; at temperature 0 under the softmax of the penalised logits. Empty unless asked for.
    var logprobs: [Double] = []
    /// Where the time went; zeros unless measured.
    var seconds = Seconds()
    /// What the target read before; zeros unless measured.
    var read = TextRead()

    /// The plain values of a round; nothing of the size of a vocabulary is kept.
    init(_ outcome: Outcome, learned: Int) {
        draft = outcome.draft.tokens
        proposed = outcome.proposal.tokens
        accepted = min(outcome.verdict.accepted, outcome.emitted.count)
        emitted = outcome.emitted
        evaluated = outcome.verdict.evaluated
        acceptedDrafts = outcome.verdict.acceptedDrafts
        self.learned = learned
        copied = !outcome.draft.copied.isEmpty
        unsound = outcome.draft.unsound
    }
}

/// A text while it is decoded, in both vocabularies.
final class DecoderState {
    /// Target ids, prompt and output; the loop extends them.
    private(set) var tokens: [Int32] = []
    /// The same text in draft ids, which the proposer extends; empty in modes plain and lookup.
    var context: [Int32] = []
    /// Target tokens that may still be emitted.
    private(set) var remaining = 0
    /// Target ids that the target's KV cache holds.
    private(set) var cached: [Int32] = []
    /// The memory of the target's distributions, for all texts of a session.
    let workspace = Workspace()
    /// Keeps the output in a grammar; ``remaining`` then says when it must be whole.
    private(set) var constraint: Constraint?
    /// Says which of a round's tokens are output, and whether the text ends there.
    private var cut: Cut = cutAtEos([])

    /// Begin another text, and keep what the KV cache shares with it.
    func restart(
        _ tokens: [Int32], _ context: [Int32], remaining: Int, cut: @escaping Cut, constraint: Constraint? = nil
    ) {
        self.constraint = constraint
        self.tokens = tokens
        self.context = context
        self.remaining = remaining
        self.cut = cut
        cached.removeSubrange(commonLength(cached, Array(tokens.dropLast()))...)
    }

    /// Forget what the KV cache holds: it was computed with other weights.
    func forgetCached() { cached = [] }

    /// Target tokens that may be proposed in the next pass; negative at the end of the text.
    ///
    /// A pass emits one token more than it accepts, so with one token remaining nothing may be proposed.
    func room(_ target: any CausalModel) -> Int {
        min(Defaults.maxProposedTokens, target.maxLength - tokens.count, remaining - 1)
    }

    /// Read the text up to its last token, as far as the target's KV cache lacks it.
    func prefill(_ target: any CausalModel) throws {
        target.rewind(cached.count)
        while cached.count < tokens.count - 1 {
            let chunk = Array(tokens[cached.count..<min(cached.count + prefillChunk, tokens.count - 1)])
            _ = try target.score(chunk, numLogits: 1)
            cached += chunk
        }
    }

    /// The logits of a pass over the last token and proposed ones.
    ///
    /// There are none for the first tokens that are the only ones that a grammar allows.
    func score(_ target: any CausalModel, _ proposed: [Int32]) throws -> Logits {
        let count = constraint?.certain(proposed, room: remaining) ?? 0
        return try target.score(tokens.suffix(1) + proposed, numLogits: proposed.count + 1 - count)
    }

    /// The target's distributions of a pass that ``score(_:_:)`` ran; they take the place of the last ones.
    func probs(_ logits: Logits, _ sampling: SamplingConfig, _ proposed: [Int32]) -> TargetProbs {
        workspace.reset()
        let context = sampling.repetitionPenalty == 1 ? [] : tokens + proposed
        guard let constraint else {
            return TargetProbs(logits, sampling: sampling, context: context, workspace: workspace)
        }
        return TargetProbs(
            logits, sampling: sampling, context: context, workspace: workspace,
            allowed: constraint.rows(proposed, room: remaining),
            certain: Array(proposed.prefix(proposed.count + 1 - logits.rows)))
    }

    /// Append the tokens of a round; return those that are output, and whether the text ends.
    func extend(_ tokens: [Int32]) -> Emitted {
        let inGrammar = constraint?.advance(tokens, room: remaining) ?? Emitted(tokens: tokens, ended: false)
        let emitted = cut(inGrammar.tokens)
        cached += self.tokens.suffix(1)
        cached += emitted.tokens.dropLast()
        self.tokens += emitted.tokens
        remaining -= emitted.tokens.count
        return Emitted(tokens: emitted.tokens, ended: emitted.ended || inGrammar.ended)
    }
}

/// Rounds whose emitted tokens follow the target's own distribution; drafting only saves time.
final class Speculation {
    private let target: any CausalModel
    private let proposer: any Proposer
    private let text: DecoderState
    private let sampling: SamplingConfig
    private let draftLength: any DraftLength
    private let random: any RandomSource
    private let clock: Clock
    private let logprobs: Bool
    private let observe: Observer
    private var ended = false

    /// - Parameter text: at least one token; grows by what each round emits.
    init(
        target: any CausalModel, proposer: any Proposer, text: DecoderState, sampling: SamplingConfig,
        draftLength: any DraftLength, random: any RandomSource, clock: @escaping Clock = { 0 },
        logprobs: Bool = false, observe: @escaping Observer = { _, _ in }
    ) {
        self.target = target
        self.proposer = proposer
        self.text = text
        self.sampling = sampling
        self.draftLength = draftLength
        self.random = random
        self.clock = clock
        self.logprobs = logprobs
        self.observe = observe
    }

    /// The next round; nil at the end of the text.
    func next() throws -> Round? {
        let room = text.room(target)
        if ended || room < 0 { return nil }
        var watch = Stopwatch(clock)
        let copy = room > 0 ? watch.time(\.draft) { proposer.find(text.tokens) } : Copy()
        let plan = room > 0 ? draftLength.next(copy.match) : Plan()
        let (draft, proposal, logits) = try score(plan, copy, room, &watch)
        let probs = text.probs(logits, sampling, proposal.tokens)
        let verdict = try watch.time(\.verify) {
            try proposer.verify(draft, as: proposal, against: probs, random: random)
        }
        let emitted = text.extend(verdict.tokens(proposal))
        watch.time(\.verify) { target.rewind(text.tokens.count - 1) }
        let outcome = Outcome(draft: draft, proposal: proposal, verdict: verdict, emitted: emitted.tokens)
        try observe(outcome, probs)
        let learned = watch.time(\.learn) { proposer.learn(outcome, &text.context) }  // also extends the context
        draftLength.record(counts(outcome, copy))
        ended = emitted.ended
        var round = Round(outcome, learned: learned)
        if logprobs { round.logprobs = try probs.logprobs(outcome.emitted) }
        (round.seconds, round.read) = (watch.seconds, watch.read)
        return round
    }

    /// Draft, translate and score.
    private func score(
        _ plan: Plan, _ copy: Copy, _ room: Int, _ watch: inout Stopwatch
    ) throws -> (Draft, Proposal, Logits) {
        if plan.fresh { text.context = Array(text.context.suffix(Defaults.draftLengthMostUnread)) }
        try watch.timeReading(text) { try text.prefill(target) }
        let draft = try watch.time(\.draft) {
            try proposer.propose(plan, copy: copy, context: text.context, random: random)
        }
        let proposal = watch.time(\.translate) { proposer.translate(draft, room: room) }
        return (draft, proposal, try watch.time(\.target) { try text.score(target, proposal.tokens) })
    }
}

/// Adds up the seconds of a round.
private struct Stopwatch {
    private let clock: Clock
    private(set) var seconds = Seconds()
    private(set) var read = TextRead()

    init(_ clock: @escaping Clock) { self.clock = clock }

    /// Runs something, and adds its time to a part.
    mutating func time<T>(_ part: WritableKeyPath<Seconds, Double>, _ work: () throws -> T) rethrows -> T {
        let started = clock()
        let result = try work()
        seconds[keyPath: part] += clock() - started
        return result
    }

    /// The same of what the target reads before the round.
    mutating func timeReading(_ text: DecoderState, _ work: () throws -> Void) rethrows {
        let (started, known) = (clock(), text.cached.count)
        try work()
        read.tokens = text.cached.count - known
        if read.tokens > 0 { read.seconds = clock() - started }
    }
}

/// What the draft length learns from a round.
private func counts(_ outcome: Outcome, _ copy: Copy) -> RoundCounts {
    let agreed = zip(copy.tokens, outcome.emitted).prefix { $0 == $1 }.count
    return RoundCounts(
        classes: outcome.draft.classes, evaluated: outcome.verdict.evaluated,
        accepted: outcome.verdict.acceptedDrafts, emitted: outcome.emitted.count, match: copy.match, agreed: agreed)
}
