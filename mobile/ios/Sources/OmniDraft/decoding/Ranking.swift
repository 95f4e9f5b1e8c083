// Top-k and top-p of a row (spec/04-speculation.md, section 2). Python has this in sampling.py, where numpy sorts.

// Of a weight, relative to the largest.
private let floors: [Float] = [1 / 64, 1 / 512, 1 / 4096, 1 / 65536, 1 / 16_777_216, 0]

/// Set the weight of every id to 0 that top-k and then top-p do not keep.
func keepNucleus(
    _ weights: UnsafeMutablePointer<Float>, _ size: Int, _ sampling: SamplingConfig, _ workspace: Workspace
) {
    var ranked = workspace.takeIds()
    defer { workspace.giveBack(ranked) }
    let total: Double
    if sampling.topK > 0 {
        let count = min(sampling.topK, size)
        rank(weights, size, count, 0, &ranked)
        ranked.removeLast(max(0, ranked.count - count))
        total = mass(ranked, weights)
    } else {
        total = wholeMass(weights, size)
        rank(weights, size, 1, sampling.topP * total, &ranked)
    }
    if sampling.topP < 1 { ranked.removeLast(ranked.count - nucleus(ranked, weights, sampling.topP * total)) }
    let kept = workspace.spare(size)
    for (index, id) in ranked.enumerated() { kept.numbers[index] = weights[Int(id)] }
    weights.update(repeating: 0, count: size)
    for (index, id) in ranked.enumerated() { weights[Int(id)] = kept.numbers[index] }
}

/// The sum of all weights in float64: a share of it is compared.
private func wholeMass(_ weights: UnsafePointer<Float>, _ size: Int) -> Double {
    var sum = 0.0
    for id in 0..<size { sum += Double(weights[id]) }
    return sum
}

private func mass(_ ids: [Int32], _ weights: UnsafePointer<Float>) -> Double {
    var sum = 0.0
    for id in ids { sum += Double(weights[Int(id)]) }
    return sum
}

/// How many of the ranked ids, of which there is one at least, have less than `mass` before them.
private func nucleus(_ ranked: [Int32], _ weights: UnsafePointer<Float>, _ mass: Double) -> Int {
    var before = 0.0
    var kept = 0
    while kept < ranked.count && before < mass {
        before += Double(weights[Int(ranked[kept])])
        kept += 1
    }
    return max(1, kept)
}

/// Finds at least the `count` heaviest ids and as many as hold `mass`, by falling weight, then by id.
///
/// A few tokens hold nearly all mass, so only those above a floor are sorted. The floor is lowered until the ids above it
/// are enough.
private func rank(
    _ weights: UnsafePointer<Float>, _ size: Int, _ count: Int, _ mass: Double, _ found: inout [Int32]
) {
    for floor in floors {
        found.removeAll(keepingCapacity: true)
        var sum = 0.0
        for id in 0..<size where weights[id] >= floor {
            found.append(Int32(id))
            sum += Double(weights[id])
        }
        if found.count >= count && sum >= mass { break }
    }
    found.sort { (weights[Int($1)], $0) < (weights[Int($0)], $1) }
}
