// Align a response of the target with the drafter's positions (spec/13-learner.md, Places).

/// Some distributions over draft tokens, each with its listed ids.
struct SparseDistributions: Sendable {
    /// The row of the response that each distribution belongs to. Two distributions may belong to one row.
    var rows: [Int] = []
    /// Draft ids of each distribution.
    var ids: [[Int32]] = []
    var probabilities: [[Double]] = []
    /// Probability of all ids that are not listed.
    var other: [Double] = []
    var weights: [Double] = []

    var count: Int { rows.count }

    mutating func append(_ row: Int, _ distribution: DraftDistribution) {
        rows.append(row)
        ids.append(distribution.ids)
        probabilities.append(distribution.probabilities)
        other.append(distribution.other)
        weights.append(distribution.weight)
    }
}

/// One response.
struct Aligned: Sendable {
    /// Prompt and response in draft tokens.
    let draftIds: [Int32]
    /// Draft tokens of the prompt, 1 or more.
    let promptLength: Int
    /// Target ids.
    let tokens: [Int32]
    /// The row of the response where the spelling of each target token begins.
    let rows: [Int]
    /// The target's distribution in the drafter's vocabulary, at each position that has one.
    let trieDistributions: SparseDistributions
    let map: VocabMap

    /// Rows of logits: one after the prompt, and one after each draft token of the response.
    var numRows: Int { draftIds.count - promptLength + 1 }
}

struct Aligner {
    /// Its active spellings are taught; ``fullTrie(_:)`` for all spellings.
    let trie: ActiveTrie
    /// Draft tokens of prompt and response together; later target tokens are dropped.
    let maxLength: Int
    /// Draft ids in a distribution at most.
    var keep = Defaults.learnerKeep

    private var map: VocabMap { trie.map }

    /// The training positions of one response.
    ///
    /// - Parameters:
    ///   - draftPrompt: the prompt in draft ids, with the start token; at least one id.
    ///   - roots: the distribution of each row at the root of this trie, computed from the whole row; nil computes it
    ///     from `rows`.
    func align(
        _ draftPrompt: [Int32], tokens: [Int32], rows: TargetRows, roots: [DraftDistribution?]? = nil
    ) throws -> Aligned {
        try check(draftPrompt, tokens, rows)
        let known = roots ?? (0..<rows.count).map { rootDistribution(trie, rows, $0) }
        let spellings = fitting(tokens, room: maxLength - draftPrompt.count)
        let kept = Array(tokens.prefix(spellings.count))
        let starts = startsOf(spellings.map(\.count))
        return Aligned(
            draftIds: draftPrompt + spellings.flatMap { $0 }, promptLength: draftPrompt.count, tokens: kept,
            rows: starts, trieDistributions: trieDistributions(kept, starts, spellings, rows, known), map: map)
    }

    /// The spellings of the first tokens, as many as fit.
    private func fitting(_ tokens: [Int32], room: Int) -> [[Int32]] {
        var spellings: [[Int32]] = []
        var length = 0
        for token in tokens {
            let spelling = map.spell(token)
            length += spelling.count
            if length > room { break }
            spellings.append(spelling)
        }
        return spellings
    }

    private func check(_ draftPrompt: [Int32], _ tokens: [Int32], _ rows: TargetRows) throws {
        if draftPrompt.isEmpty {
            throw settingError("the draft prompt is empty", "give it the drafter's start token at least")
        }
        if tokens.count != rows.count {
            throw settingError("a response of \(tokens.count) tokens has \(rows.count) target rows", "give one each")
        }
        if !rows.areFinite {
            let message = "a target row is not a distribution (finite, not negative, of sum 1)"
            throw settingError(message, "leave the response out")
        }
        try checkIds("draft prompt", draftPrompt, map.draftSize)
        try checkIds("response", tokens, map.targetSize)
        for ids in rows.ids { try checkIds("target rows", ids, map.targetSize) }
    }

    private func checkIds(_ name: String, _ ids: [Int32], _ size: Int) throws {
        if !ids.allSatisfy({ $0 >= 0 && Int($0) < size }) {
            let message = "the \(name) hold an id outside 0..\(size - 1)"
            throw settingError(message, "use the vocabulary map of this pair")
        }
    }

    /// One distribution at the start of each token, and one at each position inside a spelling.
    private func trieDistributions(
        _ tokens: [Int32], _ starts: [Int], _ spellings: [[Int32]], _ rows: TargetRows, _ roots: [DraftDistribution?]
    ) -> SparseDistributions {
        var placed = SparseDistributions()
        func place(_ row: Int, _ distribution: DraftDistribution?) {
            if let distribution { placed.append(row, distribution.top(keep)) }
        }
        for (index, token) in tokens.enumerated() {
            let row = starts[index]
            let node = index > 0 && isActive(tokens[index - 1]) ? nodeOf(trie, spellings[index - 1]) : nil
            if let node, trie.goesOn(node) {
                place(row, afterDistribution(trie, rows, index - 1, node, roots[index]))
            } else {
                place(row, roots[index])
            }
            if !isActive(token) { continue }
            for depth in 1..<max(1, spellings[index].count) {
                if let inside = nodeOf(trie, spellings[index].prefix(depth)) {  // an active spelling has all its nodes
                    place(row + depth, insideDistribution(trie, rows, index, inside))
                }
            }
        }
        return placed
    }

    /// Whether the spelling of a token is active in the trie; false for aliases and for inactive tokens.
    private func isActive(_ token: Int32) -> Bool {
        let leaf = Int(map.leafOf[Int(token)])
        return leaf >= 0 && trie.active[leaf]
    }
}

/// Where parts of these sizes begin, one after another.
func startsOf(_ sizes: [Int]) -> [Int] {
    var at = 0
    return sizes.map { size in
        defer { at += size }
        return at
    }
}
