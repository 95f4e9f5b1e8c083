import Foundation

// Compare two adapters of a drafter on recorded text by the expected acceptance of their draft tokens (spec/15-sync.md,
// The adapter comparison).

private let chunk = 64  // positions whose logits are in memory at once

/// The result of comparing an offered adapter with the current one.
struct AdapterComparison: Sendable, Equatable {
    /// Generations that both adapters read.
    var generations = 0
    /// Positions that both adapters read.
    var positions = 0
    /// Expected acceptance of a draft token with the current adapter, 0 to 1.
    var current = 0.0
    /// Expected acceptance of a draft token with the offered adapter, 0 to 1.
    var offered = 0.0
    /// Lower end of the 95 % interval of `offered - current`; -infinity for too few generations.
    var low = -Double.infinity
    /// Upper end of that interval; infinity for too few generations.
    var high = Double.infinity

    /// Whether the offered adapter is significantly better.
    var isBetter: Bool { low > 0 }
    var isEnough: Bool { generations >= Defaults.syncLeastGenerations }
}

/// Compare two adapters of a drafter.
///
/// - Parameters:
///   - model: the drafter; afterwards it has the offered adapter and an empty context.
///   - responses: recorded generations (`fromTraces`), none longer than the model's context.
///   - current: tensors by the names of the graph's inputs; none for the drafter without an adapter.
func compare(
    _ model: any SessionModel, _ responses: [Aligned], current: [(name: String, tensor: Tensor)],
    offered: [(name: String, tensor: Tensor)]
) throws -> AdapterComparison {
    let sums = try [current, offered].map { tensors in
        model.rewind(0)
        try model.useAdapter(tensors)
        return try responses.map { try acceptances(model, $0).reduce(0, +) }
    }
    let read = responses.indices.filter { responses[$0].trieDistributions.count > 0 }
    if read.isEmpty { return AdapterComparison() }
    let (before, after) = (read.map { sums[0][$0] }, read.map { sums[1][$0] })
    let counts = read.map { Double(responses[$0].trieDistributions.count) }
    let positions = counts.reduce(0, +)
    let (low, high) = confidenceInterval(zip(before, after).map { $1 - $0 }, counts)
    return AdapterComparison(
        generations: read.count, positions: Int(positions), current: before.reduce(0, +) / positions,
        offered: after.reduce(0, +) / positions, low: low, high: high)
}

/// The 95 % interval of the mean difference per position; generations are the observations.
///
/// It is the interval of a ratio of sums, sum d / sum n, with residuals d - mean n (Cochran, Sampling Techniques,
/// chapter 6) and Student's t.
///
/// - Parameters:
///   - differences: d, the sum of differences over the positions of each generation.
///   - counts: n, the positions of each generation.
func confidenceInterval(_ differences: [Double], _ counts: [Double]) -> (low: Double, high: Double) {
    let groups = Double(counts.count)
    if counts.count < Defaults.syncLeastGenerations { return (-.infinity, .infinity) }
    let total = counts.reduce(0, +)
    let mean = differences.reduce(0, +) / total
    var squares = 0.0
    for (difference, count) in zip(differences, counts) {
        let residual = difference - mean * count
        squares += residual * residual
    }
    let error = (squares * groups / (groups - 1)).squareRoot() / total
    let t = studentT(normal95, groups - 1)
    return (mean - t * error, mean + t * error)
}

/// Expected acceptance at each distribution of a response, times the weight of that distribution.
///
/// - Parameter model: the drafter, with an empty context; it is empty again afterwards.
func acceptances(_ model: any SessionModel, _ response: Aligned) throws -> [Double] {
    let distributions = response.trieDistributions
    let begins = Set(response.rows)
    var accepted = [Double](repeating: 0, count: distributions.count)
    let first = response.promptLength - 1  // the position whose logits are row 0
    var start = 0
    while start < response.draftIds.count {
        let inPrompt = start <= first
        let end = inPrompt ? first + 1 : min(start + chunk, response.draftIds.count)
        let logits = try model.score(Array(response.draftIds[start..<end]), numLogits: inPrompt ? 1 : nil)
        let row = max(start, first) - first
        for index in 0..<distributions.count {
            let at = distributions.rows[index] - row
            if at < 0 || at >= logits.rows { continue }
            let q = probabilities(logits, at, response.map.draftAllowed)
            accepted[index] = overlap(q, distributions, index, inside: !begins.contains(distributions.rows[index]))
        }
        start = end
    }
    model.rewind(0)
    return accepted
}

/// Softmax of a row of logits over the draft tokens that may be drafted, at temperature 1.
///
/// - Parameter allowed: draft tokens that may be drafted.
func probabilities(_ logits: Logits, _ row: Int, _ allowed: [Bool]) -> [Double] {
    let numbers = logits.row(row)
    var values = [Double](repeating: -.infinity, count: logits.width)
    var largest = -Double.infinity
    for id in 0..<min(logits.width, allowed.count) where allowed[id] {
        values[id] = Double(numbers[id])
        largest = max(largest, values[id])
    }
    var total = 0.0
    for id in values.indices {
        values[id] = exp(values[id] - largest)
        total += values[id]
    }
    for id in values.indices { values[id] /= total }
    return values
}

/// sum min(P, Q) of a distribution, times its weight.
///
/// Inside a spelling OTHER is the end of the spelling, which the drafter proposes by any token that continues no
/// spelling, so OTHER counts as one outcome. Elsewhere OTHER is many tokens of which only the sum is known. It counts
/// as 0 there, because a drafter with a flat distribution would gain by it.
func overlap(_ q: [Double], _ distributions: SparseDistributions, _ index: Int, inside: Bool) -> Double {
    var kept = 0.0
    var drawn = 0.0
    for (id, p) in zip(distributions.ids[index], distributions.probabilities[index]) {
        kept += min(q[Int(id)], p)
        drawn += q[Int(id)]
    }
    if inside { kept += min(min(max(1 - drawn, 0), 1), distributions.other[index]) }
    return kept * distributions.weights[index]
}
