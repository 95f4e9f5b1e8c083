// Aligned responses as one batch of arrays, with the types that graphs take.
//
// The rows of logits of all responses form one list. Every distribution, token and label has the index of its row in
// that list, so objectives need no sequences, padding or prompts. Fields of Python's batch that only objectives of the
// training side read are left out.

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

    /// Number of distributions.
    var count: Int { rows.count }
}

/// Draft tokens of the responses.
struct DraftLabels: Sendable {
    /// Row of logits that predicts each token.
    var rows: [Int64] = []
    /// Draft ids.
    var ids: [Int64] = []
    /// The target token that each draft token helps to write, by its index in ``BatchTokens``.
    var tokens: [Int] = []
}

/// Target tokens of the responses; see ``TargetTokens``.
struct BatchTokens: Sendable {
    /// Target ids.
    var ids: [Int64] = []
    /// The target id in front of each token; -1 where it is unknown.
    var before: [Int64] = []
    /// The response that each token is in.
    var sequences: [Int64] = []
    var rows: [Int64] = []
    var lengths: [Int] = []
    var direct: [Bool] = []
    var probabilities: [Float] = []
}

/// Responses for one step.
struct Batch: Sendable {
    /// Draft ids of each response, row by row, padded with 0 on the right to ``longest``; no earlier position attends
    /// to the padding.
    let inputIds: [Int64]
    /// Draft ids of the longest response.
    let longest: Int
    /// The first position whose logits are needed.
    let first: Int
    /// The response of each row of logits.
    let sequences: [Int64]
    /// The position of each row in its response.
    let positions: [Int64]
    /// The target's distributions in the drafter's vocabulary.
    let trie: Distributions
    /// The target's distributions on the intersection of the vocabularies.
    let direct: Distributions
    /// The draft tokens of the responses.
    let labels: DraftLabels
    /// The target tokens of the responses.
    let tokens: BatchTokens
}

/// One batch of the responses, at least one; its numbers are float32.
func collate(_ responses: [Aligned]) -> Batch {
    let longest = responses.map(\.draftIds.count).max() ?? 0
    let rowStarts = startsOf(responses.map(\.numRows))
    let inputIds = responses.flatMap { response in
        response.draftIds.map(Int64.init) + [Int64](repeating: 0, count: longest - response.draftIds.count)
    }
    return Batch(
        inputIds: inputIds, longest: longest, first: (responses.map(\.promptLength).min() ?? 1) - 1,
        sequences: responses.enumerated().flatMap { [Int64](repeating: Int64($0), count: $1.numRows) },
        positions: responses.flatMap { response in
            (0..<response.numRows).map { Int64(response.promptLength - 1 + $0) }
        },
        trie: distributions(responses.map(\.trieDistributions), rowStarts),
        direct: distributions(responses.map(\.directDistributions), rowStarts), labels: labels(responses, rowStarts),
        tokens: tokens(responses, rowStarts))
}

private func labels(_ responses: [Aligned], _ rowStarts: [Int]) -> DraftLabels {
    let tokenStarts = startsOf(responses.map(\.tokens.count))
    var labels = DraftLabels()
    for (index, response) in responses.enumerated() {
        labels.rows += response.owners.indices.map { Int64(rowStarts[index] + $0) }
        labels.ids += response.draftIds.dropFirst(response.promptLength).map(Int64.init)
        labels.tokens += response.owners.map { tokenStarts[index] + $0 }
    }
    return labels
}

private func tokens(_ responses: [Aligned], _ rowStarts: [Int]) -> BatchTokens {
    var all = BatchTokens()
    for (index, response) in responses.enumerated() {
        let tokens = response.tokens
        all.ids += tokens.ids.map(Int64.init)
        all.before += tokens.before.map(Int64.init)
        all.sequences += [Int64](repeating: Int64(index), count: tokens.count)
        all.rows += tokens.rows.map { Int64(rowStarts[index] + $0) }
        all.lengths += tokens.lengths
        all.direct += tokens.direct
        all.probabilities += tokens.probabilities.map(Float.init)
    }
    return all
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
