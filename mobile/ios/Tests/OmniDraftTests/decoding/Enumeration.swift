@testable import OmniDraft

// Enumerates every outcome of code that asks a RandomSource, with its exact probability, as
// tests/support/enumerate_distribution.py does.

/// A random source that replays given answers, then takes the first possible one and notes the others.
final class Script: RandomSource {
    /// How many answers each question has.
    private(set) var asked: [Int] = []
    private(set) var probability = 1.0
    private let answers: [Int]

    init(_ answers: [Int]) { self.answers = answers }

    /// The index of the answer that this path takes.
    private func take(_ chances: [Double]) -> Int {
        let possible = chances.indices.filter { chances[$0] > 0 }
        let taken = possible[asked.count < answers.count ? answers[asked.count] : 0]
        asked.append(possible.count)
        probability *= chances[taken]
        return taken
    }

    func bernoulli(_ probability: Double) -> Bool {
        let chance = min(max(probability, 0), 1)
        return take([chance, 1 - chance]) == 0
    }

    func categorical(_ weights: UnsafePointer<Double>, count: Int) -> Int {
        let weights = UnsafeBufferPointer(start: weights, count: count)
        let sum = weights.reduce(0, +)
        return take(weights.map { $0 / sum })
    }

    func sample(_ distribution: any Distribution, among: [Int32]?) -> Int32 {
        let ids = among ?? Array(0..<Int32(distribution.size))
        let chances = ids.map(distribution.probability)
        let sum = chances.reduce(0, +)
        return ids[take(chances.map { $0 / sum })]
    }

    /// All ways to get no token are one answer, which keeps the enumeration short.
    func rejectionSample(_ distribution: any Distribution, _ share: (Int32) -> Double) -> Int32? {
        let chances = (0..<Int32(distribution.size)).map(distribution.probability)
        let sum = chances.reduce(0, +)
        var (kept, nothing) = ([Double](), 0.0)
        for (id, chance) in chances.enumerated() {
            let part = chance > 0 ? min(max(share(Int32(id)), 0), 1) : 0
            kept.append(chance / sum * part)
            nothing += chance / sum * (1 - part)
        }
        let answer = take([nothing] + kept)
        return answer == 0 ? nil : Int32(answer - 1)
    }
}

/// The distribution of what `run` gives, over every path of random answers through it.
func outcomes<T: Hashable>(_ run: (any RandomSource) throws -> T) rethrows -> [T: Double] {
    var distribution: [T: Double] = [:]
    var answers: [Int] = []
    while true {
        let script = Script(answers)
        let outcome = try run(script)
        distribution[outcome, default: 0] += script.probability
        var path = script.asked.indices.map { $0 < answers.count ? answers[$0] : 0 }
        while let last = path.last, last + 1 >= script.asked[path.count - 1] { path.removeLast() }
        if path.isEmpty { return distribution }
        path[path.count - 1] += 1
        answers = path
    }
}
