// Where proposals come from: the interface between the loop and a drafter, or another source of guesses.

/// How the context suggests that a text continues.
struct Copy: Sendable, Equatable {
    /// Target ids.
    var tokens: [Int32] = []
    /// Tokens before them that occurred in the same order before; 0 where none did.
    var match = 0
}

/// A verified round before anything was learned from it.
struct Outcome {
    let draft: Draft
    let proposal: Proposal
    let verdict: Verdict
    /// Target ids that are output, which may end before the verdict does.
    let emitted: [Int32]
}

/// Guesses how a text continues, and verifies its own guesses.
protocol Proposer: AnyObject {
    /// What could be copied from the context; an empty copy where this proposer copies nothing.
    ///
    /// - Parameter tokens: all target ids so far; from round to round they only grow.
    func find(_ tokens: [Int32]) -> Copy
    /// Tokens that may follow, as planned.
    func propose(_ plan: Plan, copy: Copy, context: [Int32], random: any RandomSource) throws -> Draft
    /// The draft in target tokens, at most `room` of them.
    func translate(_ draft: Draft, room: Int) -> Proposal
    func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict
    /// Append the round's output to the draft context and learn from it.
    ///
    /// - Returns: number of n-grams that are new in the cache.
    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int
}

/// Asks the drafter and translates its tokens by the trie of active spellings.
class TrieProposer: Proposer {
    /// The small model; its KV cache is rewritten.
    let drafter: Drafter
    /// N-grams, which grow.
    let cache: NgramCache
    fileprivate let trie: ActiveTrie
    private let temperature: Double
    private let verifier: Verifier
    private let banned: [Int32]
    private lazy var buffers = OptionBuffers(trie)
    private var allowed: Allowed?

    init(_ drafter: Drafter, _ cache: NgramCache, temperature: Double, verifier: @escaping Verifier = verifyTokens) {
        self.drafter = drafter
        self.cache = cache
        self.temperature = temperature
        self.verifier = verifier
        trie = cache.trie
        let map = cache.map
        banned = (0..<Int32(map.draftSize)).filter { !map.draftAllowed[Int($0)] }
    }

    /// Drafts only ids that may follow the drafted ones; see ``Drafter``.
    func allow(_ allowed: @escaping Allowed) { self.allowed = allowed }

    func find(_ tokens: [Int32]) -> Copy { Copy() }

    func propose(_ plan: Plan, copy: Copy, context: [Int32], random: any RandomSource) throws -> Draft {
        if plan.count == 0 { return Draft() }
        return try drafter.propose(
            context, plan: plan, temperature: temperature, banned: banned, random: random, allowed: allowed)
    }

    func translate(_ draft: Draft, room: Int) -> Proposal {
        translated(draft.tokens, trie, maxTokens: room)
    }

    func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict {
        buffers.refresh()
        return try verifier(proposal, draft.distributions, probs, trie, random, buffers)
    }

    func learn(_ outcome: Outcome, _ context: inout [Int32]) -> Int {
        let tokens = outcome.verdict.tokens(outcome.proposal)
        context += respell(outcome.draft, proposal: outcome.proposal, tokens: tokens, map: cache.map)
        return cache.learn(outcome.emitted, min(outcome.verdict.accepted, outcome.emitted.count))
    }
}

/// Translates by the longest spelling and accepts what the target samples: used at temperature 0.
final class MatchProposer: TrieProposer {
    init(_ drafter: Drafter, _ cache: NgramCache, temperature: Double = 0) {
        super.init(drafter, cache, temperature: temperature)
    }

    override func translate(_ draft: Draft, room: Int) -> Proposal {
        translateLongest(draft.tokens, trie, maxTokens: room)
    }

    override func verify(
        _ draft: Draft, as proposal: Proposal, against probs: any Probs, random: any RandomSource
    ) throws -> Verdict {
        try verifyMatch(proposal, probs: probs, random: random)
    }
}

/// A round's output in draft tokens: the draft as far as it was accepted, then the spelling of the rest.
///
/// Example: the draft token "sfo" stands for the target tokens S, F, O. If all three are accepted, the draft token stays. If
/// only S and F are accepted, both are spelled again: "s", "f".
func respell(_ draft: Draft, proposal: Proposal, tokens: [Int32], map: VocabMap) -> [Int32] {
    let ends = proposal.ends
    var whole = 0
    if draft.copied.isEmpty {  // else no drafter spelled them
        whole = min(tokens.count - 1, ends.count)
        // A long draft token that was accepted in part only is spelled again.
        while whole > 0 && whole < ends.count && ends[whole] == ends[whole - 1] { whole -= 1 }
    }
    let kept = whole > 0 ? Array(draft.tokens[..<ends[whole - 1]]) : []
    return kept + tokens[whole...].flatMap { map.spell($0) }
}
