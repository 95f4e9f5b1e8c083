// Aligned responses as one batch of arrays, with the types that graphs take. The rows of logits of all responses form one
// list, and every distribution has the index of its row in it.

/// Distributions over draft tokens.
struct Distributions: Sendable {
    /// Row of logits of each distribution.
    var rows: [Int64] = []
    /// Columns of the tables, at least 1, which a graph's input needs.
    var width: Int
    /// Draft ids, row by row, padded with -1.
    var ids: [Int64] = []
    /// Of the ids, 0 at padding.
    var probabilities: [Float] = []
    /// Mass of the draft ids that are not listed.
    var other: [Float] = []
    /// See ``SparseDistributions``.
    var weights: [Float] = []

    var count: Int { rows.count }
}

/// Responses for one step.
struct Batch: Sendable {
    /// Draft ids of each response, row by row, padded with 0 on the right to ``longest``; no earlier position attends
    /// to the padding.
    let inputIds: [Int64]
    /// Draft ids of the longest response.
    let longest: Int
    /// The place of each row of logits in ``inputIds``.
    let rows: [Int64]
    /// The target's distributions in the drafter's vocabulary.
    let trie: Distributions
}

/// One batch of the responses, at least one; its numbers are float32.
func collate(_ responses: [Aligned]) -> Batch {
    let longest = responses.map(\.draftIds.count).max() ?? 0
    let rowStarts = startsOf(responses.map(\.numRows))
    return Batch(
        inputIds: responses.flatMap { response in
            response.draftIds.map(Int64.init) + [Int64](repeating: 0, count: longest - response.draftIds.count)
        }, longest: longest,
        rows: responses.enumerated().flatMap { number, response in
            (0..<response.numRows).map { Int64(number * longest + response.promptLength - 1 + $0) }
        },
        trie: distributions(responses.map(\.trieDistributions), rowStarts))
}

private func distributions(_ parts: [SparseDistributions], _ rowStarts: [Int]) -> Distributions {
    let width = max(1, parts.flatMap { $0.ids.map(\.count) }.max() ?? 0)
    var all = Distributions(width: width)
    for (part, start) in zip(parts, rowStarts) {
        all.rows += part.rows.map { Int64(start + $0) }
        all.other += part.other.map(Float.init)
        all.weights += part.weights.map(Float.init)
        for (ids, probabilities) in zip(part.ids, part.probabilities) {
            all.ids += ids.map(Int64.init) + [Int64](repeating: -1, count: width - ids.count)
            all.probabilities += probabilities.map(Float.init) + [Float](repeating: 0, count: width - ids.count)
        }
    }
    return all
}
