import Foundation
import XCTest

@testable import OmniDraft

private let pass = 64  // positions that are read at once

/// Adapters are compared by the acceptance of the drafter's distributions, over texts of several passes.
final class CompareTests: XCTestCase {
    func testADrafterThatKnowsTheTargetIsBetterThanOneThatDoesNot() throws {
        let (responses, model) = try made()
        XCTAssert(responses.allSatisfy { $0.draftIds.count > 2 * pass }, "texts take several passes")
        let better = try compare(model, responses, current: adapter(0), offered: adapter(1))
        XCTAssert(better.isBetter && better.isEnough, "\(better.low)")
        XCTAssertEqual(better.generations, responses.count)
        XCTAssertEqual(better.positions, responses.reduce(0) { $0 + $1.trieDistributions.count })
        XCTAssert((better.low...better.high).contains(better.offered - better.current))
        let worse = try compare(model, responses, current: adapter(1), offered: adapter(0))
        XCTAssertFalse(worse.isBetter)
        XCTAssertEqual(worse.low, -better.high, accuracy: 1e-12)
        XCTAssertEqual([worse.offered, worse.current], [better.current, better.offered])
        XCTAssertFalse(try compare(model, responses, current: adapter(1), offered: adapter(1)).isBetter)
        XCTAssertEqual(model.length, 0)
    }

    private func made() throws -> (responses: [Aligned], model: KnowingModel) {
        let random = SplitMix64(5)
        let map = randomMap(random)
        let responses = try (0..<12).map { try response(random, map, promptLength: 3 + $0 % 4) }
        return (responses, KnowingModel(responses))
    }

    private func response(_ random: SplitMix64, _ map: VocabMap, promptLength: Int) throws -> Aligned {
        func ids(_ count: Int, below size: Int) -> [Int32] {
            (0..<count).map { _ in Int32(random.uniform() * Double(size)) }
        }
        let tokens = ids(70, below: map.targetSize)
        let rows = try randomRows(random, map.targetSize, tokens.count)
        return try Aligner(trie: fullTrie(map), maxLength: 400)
            .align(ids(promptLength, below: map.draftSize), tokens: tokens, rows: rows)
    }

    private func adapter(_ knowledge: Float) -> [(name: String, tensor: Tensor)] {
        [("knowledge", tensorOf(FloatTensor(shape: [1], values: [knowledge])))]
    }
}

/// Distributions over all ids of a vocabulary.
func randomRows(_ random: SplitMix64, _ size: Int, _ count: Int) throws -> TargetRows {
    let weights = (0..<count).map { _ in (0..<size).map { _ in -log(1 - random.uniform()) } }
    let probabilities = weights.map { row in row.map { $0 / row.reduce(0, +) } }
    let ids = (0..<Int32(size)).map { $0 }
    return try TargetRows(
        ids: [[Int32]](repeating: ids, count: count), probabilities: probabilities,
        rest: [Double](repeating: 0, count: count))
}

/// Gives the target's distribution of some texts to the power of what its adapter says; 0 makes all ids equal.
private final class KnowingModel: SessionModel {
    let vocabSize: Int
    let maxLength = 1000
    var cancelled: () -> Bool = { false }
    private var known: [[Int32]: [Double]] = [:]
    private var context: [Int32] = []
    private var knowledge: Float = 0

    init(_ responses: [Aligned]) {
        let width = responses[0].map.draftSize
        vocabSize = width
        for response in responses {
            let distributions = response.trieDistributions
            for index in 0..<distributions.count {
                let text = Array(response.draftIds.prefix(response.promptLength + distributions.rows[index]))
                var p = [Double](repeating: (distributions.other[index] + 1e-6) / Double(width), count: width)
                for (id, value) in zip(distributions.ids[index], distributions.probabilities[index]) {
                    p[Int(id)] += value
                }
                known[text] = p
            }
        }
    }

    var length: Int { context.count }

    func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        let rows = tokens.map { token -> [Float] in
            context.append(token)
            guard let p = known[context] else { return [Float](repeating: 0, count: vocabSize) }
            return p.map { knowledge * Float(log($0)) }
        }
        return Logits(Array(rows.suffix(numLogits ?? rows.count).joined()), width: vocabSize)
    }

    func rewind(_ length: Int) { context.removeSubrange(length...) }

    func interrupt() {}

    func useAdapter(_ tensors: [(name: String, tensor: Tensor)]) throws {
        try same("positions of the weights before", context.count, 0)
        knowledge = tensors.first { isSame($0.name, "knowledge") }?.tensor.data.f32(0) ?? 0
    }
}
