import Foundation

// From a round to what a trace keeps of it: the largest probabilities of the target.

private let rounding = 2e-6  // error of a sum of 150,000 float32

/// Makes a ``TracedRound`` from a round while recording is on. It holds memory of the size of the vocabularies, which each
/// row uses again; one thread uses it.
final class Tracer {
    private let map: VocabMap
    private let recording: () -> Bool
    private let top: Int
    private lazy var weights = Row(max(1, map.targetSize))
    private lazy var firsts = firstsOf(map)
    private lazy var sums = Row(max(1, firsts.count))
    private let candidates = Candidates()

    init(_ map: VocabMap, top: Int = Defaults.traceTop, recording: @escaping () -> Bool = { true }) {
        self.map = map
        self.top = top
        self.recording = recording
    }

    /// A round as a trace keeps it; nil in a pause or where a row has no distribution.
    func callAsFunction(_ outcome: Outcome, _ probs: TargetProbs) -> TracedRound? {
        if !recording() { return nil }
        var tokens: [TracedToken] = []
        for (index, token) in outcome.emitted.enumerated() {
            guard let row = row(probs.logits, index) else { return nil }
            let (roots, unspelled) = roots(row)
            tokens.append(
                TracedToken(
                    tokenId: token, surprisal: row.surprisal(token), accepted: index < outcome.verdict.accepted,
                    distribution: row.largest(top), roots: roots, unspelled: unspelled))
        }
        return TracedRound(tokens: tokens)
    }

    /// The distribution of a row of logits, until the next call; nil where the logits have no distribution.
    func row(_ logits: Logits, _ row: Int) -> TracedRow? {
        let (numbers, width) = (logits.row(row), logits.width)
        precondition(width <= weights.capacity)
        let shift = numbers[argmax(numbers, width)]
        if !shift.isFinite { return nil }
        let blocks = exponentials(numbers, size: width, largest: shift, temperature: 1, into: weights.numbers)
        return TracedRow(
            logits: logits, index: row, shift: Double(shift), weights: weights, total: blocks.reduce(0, +),
            candidates: candidates)
    }

    /// Masses below the children of the root of the whole trie, and the mass without a spelling.
    func roots(_ row: TracedRow) -> (masses: Masses, unspelled: Double) {
        var whole = 0.0
        for (index, first) in firsts.enumerated() {
            var sum = 0.0
            for leaf in Int(map.firstOffsets[Int(first)])..<Int(map.firstOffsets[Int(first) + 1]) {
                sum += Double(row.weights.numbers[Int(map.leaves[leaf])])
            }
            sums.numbers[index] = Float(sum)
            whole += sum
        }
        whole /= row.total
        // A sum of float32 differs from 1 by about 1e-6 that belongs to no token.
        let unspelled = whole < 1 - rounding ? 1 - whole : 0
        let masses = largestMasses(
            sums.numbers, firsts.count, total: row.total, whole: whole, top, ids: firsts, candidates: candidates)
        return (masses, unspelled)
    }
}

/// The draft ids that spellings begin with, ascending.
private func firstsOf(_ map: VocabMap) -> [Int32] {
    (0..<map.draftSize).filter { map.firstOffsets[$0 + 1] > map.firstOffsets[$0] }.map(Int32.init)
}

/// The distribution of a row at temperature 1.
struct TracedRow {
    fileprivate let logits: Logits
    fileprivate let index: Int
    /// The largest logit.
    let shift: Double
    /// exp(logit - shift) of each id; the next row overwrites them.
    let weights: Row
    /// The sum of the weights.
    let total: Double
    fileprivate let candidates: Candidates

    /// -ln of a token's probability, in nats.
    func surprisal(_ token: Int32) -> Double {
        precondition(token >= 0 && Int(token) < logits.width)
        return max(0, shift + log(total) - Double(logits.row(index)[Int(token)]))
    }

    /// The most probable tokens, `top` of them.
    func largest(_ top: Int) -> Masses {
        largestMasses(weights.numbers, logits.width, total: total, whole: 1, top, candidates: candidates)
    }
}

/// The largest of some probabilities (ties: lowest first), and the sum of the others.
///
/// - Parameters:
///   - weights: in proportion to the probabilities, the first `size` of them.
///   - ids: the ids of the probabilities, ascending; their positions when nil.
func largestMasses(
    _ weights: UnsafePointer<Float>, _ size: Int, total: Double, whole: Double, _ top: Int, ids: [Int32]? = nil,
    candidates: Candidates = Candidates()
) -> Masses {
    let floor = Float(Defaults.traceFloor * total)
    candidates.places.removeAll(keepingCapacity: true)
    for index in 0..<size where weights[index] >= floor { candidates.places.append(Int32(index)) }
    let kept = candidates.places.count > top ? candidates.heaviest(weights, top) : candidates.places
    var listed = 0.0
    let probabilities = kept.map { place -> Float in
        let probability = min(max(weights[Int(place)] / Float(total), Float(Defaults.traceFloor)), 1)
        listed += Double(probability)
        return floatOf(half: halfOf(probability))
    }
    let rest = min(1, max(0, whole - listed))
    return Masses(ids: ids.map { ids in kept.map { ids[Int($0)] } } ?? kept, probabilities: probabilities, rest: rest)
}

/// Places of weights that are not too small to be kept. There are 2^14 at most, by their least share of the sum.
final class Candidates {
    fileprivate(set) var places: [Int32] = []
    private var values: [Float] = []

    /// The places with the `top` largest weights, ascending; of equal weights the first.
    fileprivate func heaviest(_ weights: UnsafePointer<Float>, _ top: Int) -> [Int32] {
        values.removeAll(keepingCapacity: true)
        for place in places { values.append(weights[Int(place)]) }
        values.sort()
        let least = values[values.count - top]
        var ties = top - values.suffix(top).count { $0 > least }
        return places.filter { place in
            let weight = weights[Int(place)]
            if weight != least { return weight > least }
            ties -= 1
            return ties >= 0
        }
    }
}
