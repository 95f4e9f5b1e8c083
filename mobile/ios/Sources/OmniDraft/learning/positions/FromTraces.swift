import Foundation

// Recorded generations as training positions of the drafter, without a pass of either model (spec/13-learner.md).

private let nothing = 1e-9  // mass at the root below which no draft token can be written

/// Options of aligning recorded generations.
struct TraceAligner {
    /// Of the pair that the generations were recorded with.
    let aligner: Aligner
    /// Ids at the start of every context of the drafter (bos).
    var start: [Int32] = []
    /// Digest of the target's adapter in every record; nil for no adapter.
    var targetAdapter: String?

    /// Refuse a record of another target.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the target had another adapter.
    func check(_ traced: Traced) throws {
        if traced.start.targetAdapter != targetAdapter {
            let (theirs, ours) = (named(traced.start.targetAdapter), named(targetAdapter))
            throw settingError(
                "a record is of the target with \(theirs) and not with \(ours)", "learn from each target alone")
        }
    }

    /// Whether ``align(_:)`` gives a response: text comes before the first token, and both fit `maxLength`.
    func takes(_ traced: Traced) throws -> Bool {
        try checkIds(traced, aligner.trie.map)
        return takes(traced, prompt(traced))
    }

    /// The positions of one generation; nil where no token fits `aligner.maxLength` or no text comes before it.
    ///
    /// Every token has the spelling of the vocabulary map, so that each has draft positions. The text before the first
    /// token is cut from the left if necessary, to no less than half of `maxLength`. Tokens beyond `maxLength` are left out.
    func align(_ traced: Traced) throws -> Aligned? {
        try check(traced)
        try checkIds(traced, aligner.trie.map)
        let prompt = prompt(traced)
        if !takes(traced, prompt) { return nil }
        let tokens = traced.tokens
        let roots = aligner.trie.active.allSatisfy { $0 } ? tokens.map(rootOf) : nil
        return try aligner.align(prompt, tokens: tokens.map(\.tokenId), rows: rowsOf(tokens), roots: roots)
    }

    private func takes(_ traced: Traced, _ prompt: [Int32]) -> Bool {
        guard let first = traced.rounds.first?.tokens.first else { return false }
        return !prompt.isEmpty && prompt.count + spellingLength(first) <= aligner.maxLength
    }

    /// The start ids, and as much of the text before the first token as fits.
    private func prompt(_ traced: Traced) -> [Int32] {
        let most = aligner.maxLength - start.count
        let response = traced.rounds.reduce(0) { $0 + $1.tokens.reduce(0) { $0 + spellingLength($1) } }
        let room = max(most - response, aligner.maxLength / 2 - start.count, 0)
        return start + traced.start.context.suffix(room)
    }

    private func spellingLength(_ token: TracedToken) -> Int { aligner.trie.map.spellings.length(Int(token.tokenId)) }
}

/// The positions of recorded generations; the records of one generation are joined to one response.
///
/// - Throws: as ``TraceAligner/align(_:)`` and `traces`.
func fromTraces(
    _ traces: TraceSource, aligner: TraceAligner, _ take: @escaping (Aligned) throws -> Void
) throws {
    try joinTraces(traces, aligner.aligner.trie.map) { traced in
        if let aligned = try aligner.align(traced) { try take(aligned) }
    }
}

/// Join the records that continue one another to whole generations.
///
/// A record ends where a segment is full or the drafter's adapter changes. A record after a pause continues a text that
/// was not recorded, so it stays alone. At most ``Defaults/learnerOpenGenerations`` generations are in memory.
func joinTraces(_ traces: TraceSource, _ map: VocabMap, _ take: @escaping (Traced) throws -> Void) throws {
    var waiting: [Traced] = []
    try traces { traced in
        try checkIds(traced, map)
        if let at = waiting.firstIndex(where: { goesOn($0, traced, map) }) {
            waiting[at].rounds += traced.rounds
            return
        }
        waiting.append(traced)
        if waiting.count > Defaults.learnerOpenGenerations { try take(waiting.removeFirst()) }
    }
    for traced in waiting { try take(traced) }
}

/// A record of another pair may have ids that no table of this one has.
private func checkIds(_ traced: Traced, _ map: VocabMap) throws {
    let size = Int32(clamping: map.targetSize)
    if traced.rounds.contains(where: { $0.tokens.contains { $0.tokenId < 0 || $0.tokenId >= size } }) {
        throw settingError("a record holds an id outside 0..\(size - 1)", "use the vocabulary map of this pair")
    }
}

/// The recorded distributions. Each lists the emitted token with its exact probability.
func rowsOf(_ tokens: [TracedToken]) throws -> TargetRows {
    var ids: [[Int32]] = []
    var probabilities: [[Double]] = []
    var rest: [Double] = []
    for token in tokens {
        let listed = token.distribution
        let others = listed.ids.indices.filter { listed.ids[$0] != token.tokenId }
        let emitted = exp(-token.surprisal)
        // If the row does not list the emitted token, its probability is part of the rest.
        let left = others.count == listed.ids.count ? max(0, listed.rest - emitted) : listed.rest
        let total = others.reduce(0.0) { $0 + Double(listed.probabilities[$1]) } + left
        // float16 sums to 1 within 1/2000.
        let share = total > nothing ? (1 - emitted) / total : 0
        ids.append(others.map { listed.ids[$0] } + [token.tokenId])
        probabilities.append(others.map { Double(listed.probabilities[$0]) * share } + [emitted])
        rest.append(total > nothing ? left * share : 1 - emitted)
    }
    return try TargetRows(ids: ids, probabilities: probabilities, rest: rest)
}

/// The distribution at the root of the trie with all spellings active.
private func rootOf(_ token: TracedToken) -> DraftDistribution? {
    let roots = token.roots
    let total = roots.probabilities.reduce(0.0) { $0 + Double($1) } + roots.rest
    if total <= nothing { return nil }
    return DraftDistribution(
        ids: roots.ids, probabilities: roots.probabilities.map { Double($0) / total }, other: roots.rest / total,
        weight: max(0, 1 - token.unspelled))
}

/// Whether a record begins where another ends, with the same target and the same text.
private func goesOn(_ earlier: Traced, _ later: Traced, _ map: VocabMap) -> Bool {
    let start = later.start
    if !start.continues || start.targetAdapter != earlier.start.targetAdapter { return false }
    let text = earlier.start.context + earlier.tokens.flatMap { map.spell($0.tokenId) }
    if earlier.start.skipped + text.count != start.skipped + start.context.count { return false }
    let shared = min(text.count, start.context.count)
    return text.suffix(shared).elementsEqual(start.context.suffix(shared))
}

private func named(_ adapter: String?) -> String { adapter.map { "adapter \($0.prefix(12))" } ?? "no adapter" }
