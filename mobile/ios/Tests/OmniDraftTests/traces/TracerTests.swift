import Foundation
import XCTest

@testable import OmniDraft

/// The record of a round agrees with the round, for every way to propose and at every temperature.
final class TracerTests: XCTestCase {
    /// A toy generation, its rounds and their record.
    private struct Recorded {
        let generation: ToyGeneration
        let rounds: [Round]
        let traced: [TracedRound]

        init(_ map: VocabMap, _ mode: ToyMode, _ sampling: SamplingConfig, _ seed: UInt64) throws {
            let generation = try ToyGeneration(map, mode, seed, sampling)
            let tracer = Tracer(map)
            var traced: [TracedRound?] = []
            rounds = try generation.run { traced.append(tracer($0, $1)) }
            self.generation = generation
            self.traced = traced.compactMap { $0 }
            try same("recorded rounds", self.traced.count, rounds.count)
        }

        var pairs: [(round: Round, traced: TracedRound)] { zip(rounds, traced).map { ($0, $1) } }
    }

    func testEachTokenHasTheTargetsOwnDistributionBeforeIt() throws {
        // At temperature 1 and without the penalty, for any sampling.
        let map = try vectorMap("toy")
        let samplings = [
            try SamplingConfig(), try SamplingConfig(temperature: 0.7, topK: 4, repetitionPenalty: 1.3),
        ]
        for mode in ToyMode.allCases {
            for sampling in samplings {
                for seed in 0..<UInt64(5) {
                    let recorded = try Recorded(map, mode, sampling, seed)
                    var text = toyPrompt
                    for (round, traced) in recorded.pairs {
                        XCTAssertEqual(traced.tokens.map(\.tokenId), round.emitted)
                        for (index, token) in traced.tokens.enumerated() {
                            XCTAssertEqual(token.accepted, index < round.accepted)
                            check(map, token, softmax(recorded.generation.target.row(text)))
                            text.append(token.tokenId)
                        }
                    }
                }
            }
        }
    }

    private func check(_ map: VocabMap, _ token: TracedToken, _ p: [Double]) {
        XCTAssertEqual(token.surprisal, -log(p[Int(token.tokenId)]), accuracy: 1e-5)
        check(token.distribution, p, beside: 0)
        var roots = [Double](repeating: 0, count: map.draftSize)
        for target in map.leaves { roots[Int(map.spell(target)[0])] += p[Int(target)] }
        XCTAssertEqual(token.unspelled, 1 - roots.reduce(0, +), accuracy: 1e-5)
        XCTAssertGreaterThan(token.unspelled, 0)
        check(token.roots, roots, beside: token.unspelled)
    }

    private func check(_ kept: Masses, _ p: [Double], beside: Double) {
        let expected = p.indices.filter { p[$0] >= Defaults.traceFloor }
        XCTAssertEqual(kept.ids, expected.map(Int32.init))
        for (probability, id) in zip(kept.probabilities, expected) {
            XCTAssertEqual(Double(probability), p[id], accuracy: p[id] / 2048 + 1e-7)
        }
        XCTAssertEqual(kept.rest, 1 - beside - expected.reduce(0.0) { $0 + p[$1] }, accuracy: 1e-5)
    }

    func testAPauseMakesNoRecord() throws {
        let map = try vectorMap("toy")
        let generation = try ToyGeneration(map, .tokens, 1, SamplingConfig())
        let tracer = Tracer(map) { false }
        var made: [TracedRound?] = []
        try generation.run { made.append(tracer($0, $1)) }
        XCTAssertFalse(made.isEmpty)
        XCTAssert(made.allSatisfy { $0 == nil })
    }
}
