import Foundation

@testable import OmniDraft

// A language small enough to enumerate: eight draft tokens, ten target tokens, random models, as tests/support/toy.py.

// i: maps to nothing; sfo: longer than a target token; #: control
let draftTokens = ["s", "f", "la", "ke", "o", "i", "sfo", "#"]
// X: nothing spells it
let targetTokens = ["S", "F", "LA", "KE", "O", "FLAKE", "FO", "FLAS", "X", "LAKE"]
let grams = ["FLAKE": ["f", "la", "ke"], "FO": ["f", "o"], "FLAS": ["f", "la", "s"], "LAKE": ["la", "ke"]]
private let directs = ["s": "S", "f": "F", "la": "LA", "ke": "KE", "o": "O"]
private let longer = ["sfo": ["S", "F", "O"]]

private func draftId(_ name: String) -> Int32 { Int32(draftTokens.firstIndex(of: name)!) }
private func targetId(_ name: String) -> Int32 { Int32(targetTokens.firstIndex(of: name)!) }

func toyMap() -> VocabMap {
    let directTo = Dictionary(uniqueKeysWithValues: directs.map { ($1, $0) })
    let spellings = targetTokens.map { (grams[$0] ?? [directTo[$0]].compactMap { $0 }).map(draftId) }
    let leaves = spellings.indices.filter { !spellings[$0].isEmpty }
        .sorted { spellings[$0].lexicographicallyPrecedes(spellings[$1]) }
    return VocabMap(
        targetBytes: Ragged(rows: targetTokens.map { $0.utf8.map(Int32.init) }),
        direct: draftTokens.map { directs[$0].map(targetId) ?? -1 },
        spellings: Ragged(rows: spellings),
        expansions: Ragged(rows: draftTokens.map { (longer[$0] ?? []).map(targetId) }),
        leaves: leaves.map(Int32.init),
        draftAllowed: draftTokens.map { $0 != "#" },
        draftFingerprint: String(repeating: "d", count: 64),
        targetFingerprint: String(repeating: "e", count: 64))
}

func toyCache(_ map: VocabMap, _ names: [String]) throws -> NgramCache {
    let cache = try NgramCache(map)
    for name in names { try same("the n-gram \(name)", cache.insert(targetId(name)), true) }
    return cache
}

/// Random logits that depend on the whole context; scores and rewinds like any model.
class ContextModel: CausalModel {
    let vocabSize: Int
    let maxLength: Int
    private let seed: UInt64
    private let spread: Double
    private var context: [Int32] = []
    private var known: [[Int32]: [Float]] = [:]

    init(_ seed: UInt64, _ vocabSize: Int, spread: Double = 1.5, maxLength: Int = 64) {
        self.seed = seed
        self.vocabSize = vocabSize
        self.spread = spread
        self.maxLength = maxLength
    }

    var length: Int { context.count }

    /// The logits behind a context.
    func row(_ context: [Int32]) -> [Float] {
        if let row = known[context] { return row }
        let hash = context.reduce(seed) { SplitMix64($0 &+ UInt64($1)).nextU64() }
        let random = SplitMix64(hash)
        let row = (0..<vocabSize).map { _ in Float(normal(random) * spread) }
        known[context] = row
        return row
    }

    func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        try same("tokens that fit", !tokens.isEmpty && length + tokens.count <= maxLength, true)
        var rows: [[Float]] = []
        for token in tokens {
            context.append(token)
            rows.append(row(context))
        }
        return Logits(Array(rows.suffix(numLogits ?? rows.count).joined()), width: vocabSize)
    }

    func rewind(_ length: Int) {
        precondition(length <= context.count)  // a bug of the loop
        context.removeSubrange(length...)
    }
}

/// A model whose rows are spoiled behind some texts.
final class UnsoundModel: ContextModel {
    private let spoil: (inout [Float]) -> Void

    init(_ seed: UInt64, _ vocabSize: Int, _ spoil: @escaping (inout [Float]) -> Void) {
        self.spoil = spoil
        super.init(seed, vocabSize)
    }

    override func row(_ context: [Int32]) -> [Float] {
        var row = super.row(context)
        if context.reduce(0, +) % 3 == 1 { spoil(&row) }
        return row
    }
}

private func normal(_ random: SplitMix64) -> Double {
    let radius = sqrt(-2 * log(1 - random.uniform()))
    return radius * cos(2 * Double.pi * random.uniform())
}

/// The target's distribution as `SamplingConfig` describes it, step by step in float64 with a plain sort.
func processed(_ row: [Float], _ sampling: SamplingConfig, _ context: [Int32]) -> [Double] {
    var logits = row.map(Double.init)
    for id in Set(context).map(Int.init) {
        let penalty = sampling.repetitionPenalty
        logits[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty
    }
    let largest = logits.max()!
    if sampling.temperature == 0 {
        let best = logits.firstIndex(of: largest)
        return logits.indices.map { $0 == best ? 1 : 0 }
    }
    let weights = logits.map { exp(($0 - largest) / sampling.temperature) }
    let ranked = weights.indices.sorted { (-weights[$0], $0) < (-weights[$1], $1) }
        .prefix(sampling.topK == 0 ? row.count : sampling.topK)
    let mass = ranked.reduce(0) { $0 + weights[$1] }
    var kept = Set<Int>()
    var before = 0.0
    for id in ranked {
        if before / mass < sampling.topP && weights[id] >= sampling.minP * weights[ranked[0]] { kept.insert(id) }
        before += weights[id]
    }
    let sum = kept.reduce(0) { $0 + weights[$1] }
    return weights.indices.map { kept.contains($0) ? weights[$0] / sum : 0 }
}
