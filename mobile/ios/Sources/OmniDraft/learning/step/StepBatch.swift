// Inputs of the training step's graph, and its objectives (spec/14-train-step.md).

private let floor = 1e-8  // mass below which a distribution is all OTHER
private let leastCount = 1e-6

/// The factor of each term in the loss of an objective, in the order of the terms.
typealias TermFactors = [(term: String, factor: Double)]

/// The objectives of the graph by name.
let stepObjectives: [(name: String, factors: TermFactors)] = [
    ("trie-kl", [("trie", 1)]),
    ("omnidraft", [("direct", 1), ("ngram", 0.2)]),
]

/// The responses of one call of the graph.
struct StepBatch: Sendable {
    /// Of the graph, by name.
    let inputs: Arrays
    /// Number of positions in each term's sum; the loss of a step is the sum over terms of factor * sum / count.
    let counts: [String: Double]
}

/// Inputs of one call of the graph; positions of terms without a factor are left out.
func stepBatch(_ responses: [Aligned], _ factors: TermFactors) -> StepBatch {
    func has(_ term: String) -> Bool { factors.contains { $0.term == term } }
    let batch = collate(responses)
    let trie = has("trie") ? batch.trie : chosen(batch.trie) { _ in false }
    let direct = has("direct") ? onIntersection(batch) : chosen(batch.direct) { _ in false }
    let ngrams = has("ngram") ? batch.ngrams : []
    var inputs = Arrays()
    inputs["input_ids"] = TypedArray(batch.inputIds, shape: [responses.count, batch.longest])
    inputs["rows"] = TypedArray(batch.rows)
    put(&inputs, "trie", trie)
    inputs["trie.weights"] = TypedArray(trie.weights)
    put(&inputs, "direct", direct)
    inputs["ngram.rows"] = TypedArray(ngrams.map(\.row))
    inputs["ngram.ids"] = TypedArray(ngrams.map(\.id))
    let counts = [
        "trie": trie.weights.reduce(0.0) { $0 + Double($1) }, "direct": Double(direct.count),
        "ngram": Double(ngrams.count),
    ]
    return StepBatch(inputs: inputs, counts: counts)
}

/// The scale of each term in every call of a step, factor / count, and the counts of the step by term.
///
/// - Parameter terms: of the graph, in its order.
func stepScales(
    _ parts: [[String: Double]], factors: TermFactors, terms: [String]
) -> (scales: [Float], counts: [String: Double]) {
    var counts: [String: Double] = [:]
    for (term, _) in factors { counts[term] = max(parts.reduce(0.0) { $0 + ($1[term] ?? 0) }, leastCount) }
    let scales = terms.map { term -> Float in
        guard let factor = factors.first(where: { $0.term == term })?.factor, let count = counts[term] else { return 0 }
        return Float(factor / count)
    }
    return (scales, counts)
}

/// The factors of an objective.
///
/// - Throws: ``OmniDraftError/setting(_:)``: the graph does not have the objective.
func factorsOf(_ objective: String) throws -> TermFactors {
    if let found = stepObjectives.first(where: { isSame($0.name, objective) }) { return found.factors }
    let known = stepObjectives.map(\.name).joined(separator: " or ")
    throw settingError(
        "objective \"\(objective)\" is not in the training step", "use \(known), or train with torch")
}

/// The distributions at tokens with a direct partner; mass outside the intersection is in OTHER.
private func onIntersection(_ batch: Batch) -> Distributions {
    var chosen = chosen(batch.direct) { batch.isDirect[$0] }
    for index in 0..<chosen.count {
        let row = index * chosen.width..<(index + 1) * chosen.width
        let other = Double(chosen.other[index]) + max(1 - Double(chosen.weights[index]), 0)
        let total = chosen.probabilities[row].reduce(0.0) { $0 + Double($1) } + other
        let safe = max(total, floor)
        for place in row { chosen.probabilities[place] = Float(Double(chosen.probabilities[place]) / safe) }
        chosen.other[index] = total > floor ? Float(other / safe) : 1
    }
    return chosen
}

/// Some of the distributions, as copies.
private func chosen(_ all: Distributions, _ takes: (Int) -> Bool) -> Distributions {
    let taken = (0..<all.count).filter(takes)
    let width = all.width
    return Distributions(
        rows: taken.map { all.rows[$0] }, width: width,
        ids: taken.flatMap { all.ids[$0 * width..<($0 + 1) * width] },
        probabilities: taken.flatMap { all.probabilities[$0 * width..<($0 + 1) * width] },
        other: taken.map { all.other[$0] }, weights: taken.map { all.weights[$0] })
}

private func put(_ inputs: inout Arrays, _ name: String, _ distributions: Distributions) {
    let table = [distributions.count, distributions.width]
    inputs["\(name).rows"] = TypedArray(distributions.rows)
    inputs["\(name).ids"] = TypedArray(distributions.ids, shape: table)
    inputs["\(name).probabilities"] = TypedArray(distributions.probabilities, shape: table)
    inputs["\(name).other"] = TypedArray(distributions.other)
}
