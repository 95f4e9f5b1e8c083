import XCTest

@testable import OmniDraft

private let compared = 3  // tokens whose joint distribution is compared
private let prompt: [Int32] = [0, 3, 1, 0, 3]  // its last two tokens occur before, so that a copy is proposed
private let float32 = 1e-6  // total variation that float32 weights may cause
private let allGrams = grams.keys.sorted()
private let caches = [[], ["FO"], ["FLAKE", "FO"], allGrams]

/// How the proposals of a case are made and verified.
private enum Kind: CaseIterable { case token, block, match, lookup, copying, plain }

/// A fixed number of draft tokens, but a draft ends where the drafter is not confident: before a token of half the
/// confidence of that after which it ends.
private final class EndingLength: DraftLength {
    private let plan: Plan

    init(_ count: Int, _ least: Double) {
        plan = Plan(
            source: .draft, count: count, chances: Defaults.draftLengthChances,
            worth: [Double](repeating: 0.5 * least, count: count), least: [Double](repeating: least, count: count))
    }

    func next(_ match: Int) -> Plan { plan }
    func record(_ counts: RoundCounts) {}
}

/// One generation whose distribution is enumerated.
private struct Case {
    var kind: Kind
    var sampling: SamplingConfig
    var seed: UInt64 = 3
    var count = 2
    var grams = allGrams
    var most = 16
    var rounds = 1
    var least = 0.0  // a draft ends early where it is accepted so far with less than this probability
    var drafter: (any CausalModel)?

    init(_ kind: Kind, _ sampling: SamplingConfig? = nil, seed: UInt64 = 3, grams: [String] = allGrams) throws {
        self.kind = kind
        self.sampling = try sampling ?? SamplingConfig(temperature: 1)
        self.seed = seed
        self.grams = grams
    }

    func with(_ change: (inout Case) -> Void) -> Case {
        var other = self
        change(&other)
        return other
    }

    func proposer(_ drafter: Drafter) throws -> any Proposer {
        let cache = try toyCache(toyMap(), grams)
        let temperature = sampling.temperature
        switch kind {
        case .lookup: return PromptLookup()
        case .match: return MatchProposer(drafter, cache, temperature: temperature)
        case .copying: return CopyingProposer(TrieProposer(drafter, cache, temperature: temperature))
        case .token, .block, .plain:
            if temperature == 0 { return MatchProposer(drafter, cache) }
            if kind == .block { return TrieProposer(drafter, cache, temperature: temperature, verifier: verifyBlock) }
            return TrieProposer(drafter, cache, temperature: temperature, verifier: verifyTokens)
        }
    }

    func draftLength() throws -> any DraftLength {
        switch kind {
        case .plain: return try FixedLength(0)
        case .lookup, .copying: return try FixedLength(count, source: .copy)
        case .token, .block, .match: return least > 0 ? EndingLength(count, least) : try FixedLength(count)
        }
    }

    func target() -> ContextModel { ContextModel(2 * seed, targetTokens.count) }

    /// The text of this case before the first round.
    func text(_ most: Int) -> DecoderState {
        let text = DecoderState()
        text.restart(prompt, [0, 3], remaining: most, cut: cutAtEos([]))
        return text
    }
}

/// Exactness by enumeration: at every temperature, the output has exactly the target's distribution.
final class ExactnessTests: XCTestCase {
    /// The distribution of the first tokens, by the real loop, drafter, translator and verifier.
    private func distributionOfOutput(_ each: Case) throws -> [[Int32]: Double] {
        let target = each.target()
        let model = each.drafter ?? ContextModel(2 * each.seed + 1, draftTokens.count)
        let distribution = try outcomes { random in
            model.rewind(0)
            let proposer = try each.proposer(Drafter(model))
            let loop = Speculation(
                target: target, proposer: proposer, text: each.text(each.most), sampling: each.sampling,
                draftLength: try each.draftLength(), random: random)
            var emitted: [Int32] = []
            for _ in 0..<each.rounds { emitted += try loop.next()?.emitted ?? [] }
            return emitted
        }
        XCTAssertEqual(distribution.values.reduce(0, +), 1, accuracy: 1e-9)
        return distribution
    }

    /// Distance to the target's own distribution of the first tokens; the target continues shorter outputs.
    private func totalVariation(_ distribution: [[Int32]: Double], _ each: Case) -> Double {
        let target = each.target()
        var difference: [[Int32]: Double] = [:]
        var rows: [[Int32]: [Double]] = [:]
        func goOn(_ context: [Int32], _ weight: Double) {
            if weight == 0 { return }
            if context.count >= compared {
                difference[Array(context.prefix(compared)), default: 0] += weight
                return
            }
            let before = prompt + context
            let chances = rows[before] ?? processed(target.row(before), each.sampling, before)
            rows[before] = chances
            for (token, chance) in chances.enumerated() { goOn(context + [Int32(token)], weight * chance) }
        }
        for (context, weight) in distribution { goOn(context, weight) }
        goOn([], -1)
        return 0.5 * difference.values.reduce(0) { $0 + abs($1) }
    }

    private func check(_ name: String, _ each: Case) throws {
        let distance = totalVariation(try distributionOfOutput(each), each)
        XCTAssertLessThan(distance, float32, "total variation of \(each.kind) \(name)")
    }

    /// All settings at once.
    private func allSettings() throws -> SamplingConfig {
        try SamplingConfig(temperature: 1.2, topK: 6, topP: 0.9, minP: 0.05, repetitionPenalty: 1.8)
    }

    private func truncated() throws -> [(name: String, sampling: SamplingConfig)] {
        [
            ("top-k", try SamplingConfig(temperature: 1, topK: 4)),
            ("top-p", try SamplingConfig(temperature: 0.8, topP: 0.7)),
            ("min-p", try SamplingConfig(temperature: 1.3, minP: 0.15)),
            ("penalty", try SamplingConfig(temperature: 1, repetitionPenalty: 2.5)),
            ("all", try allSettings()),
        ]
    }

    func testARoundHasTheTargetsDistribution() throws {
        for kind in [Kind.token, .block] {
            for grams in caches {
                for temperature in [0.4, 1] {
                    let sampling = try SamplingConfig(temperature: temperature)
                    try check("\(grams) \(temperature)", Case(kind, sampling, seed: UInt64(grams.count), grams: grams))
                }
            }
        }
    }

    /// Three draft tokens reach every node of the trie, and the limit, or the confidence, cuts proposals.
    func testALongRoundHasTheTargetsDistribution() throws {
        for kind in [Kind.token, .block] {
            let each = try Case(kind, seed: 1, grams: ["FLAKE", "FO"])
            for least in [0, 0.2] {
                try check("long \(least)", each.with { ($0.count, $0.most, $0.least) = (3, 3, least) })
            }
        }
    }

    /// Each limit lets other drafts end early; a block whose length depends on the path is exact, too.
    func testADraftThatEndsByItsConfidenceLeavesTheTargetsDistribution() throws {
        for kind in [Kind.token, .block, .match] {
            for grams in caches {
                for (seed, least) in [(1, 0.15), (grams.count, 0.25), (3, 0.4)] {
                    let each = try Case(kind, seed: UInt64(seed), grams: grams)
                    try check("\(grams) \(least)", each.with { $0.least = least })
                }
            }
        }
    }

    /// So the test above is not of a fixed length in disguise.
    func testDraftsOfOneTextEndAtDifferentLengths() throws {
        let drafter = Drafter(ContextModel(7, draftTokens.count))
        let plan = EndingLength(3, 0.25).next(0)
        let drafts = try (0..<20).map { seed in
            try drafter.propose([0, 3], plan: plan, temperature: 1, banned: [], random: SplitMix64(seed))
        }
        XCTAssertGreaterThan(Set(drafts.map(\.tokens.count)).count, 1)
        XCTAssertEqual(Set(drafts.map { $0.classes.count - $0.tokens.count }), [0, 1], "after a token, or before one")
    }

    func testARoundOfOtherProposersHasTheTargetsDistribution() throws {
        for kind in [Kind.match, .lookup, .copying, .plain] {
            for temperature in [0.4, 1] {
                try check("\(temperature)", Case(kind, SamplingConfig(temperature: temperature)))
            }
        }
    }

    func testTruncationAndPenaltyArePartOfTheDistribution() throws {
        for kind in [Kind.token, .block, .match, .lookup] {
            for (name, sampling) in try truncated() { try check(name, Case(kind, sampling, seed: 4)) }
        }
    }

    /// Several rounds, with a cache that learns between them and a limit inside accepted blocks.
    func testWholeGenerationsHaveTheTargetsDistribution() throws {
        for kind in [Kind.token, .block] {
            for sampling in [try SamplingConfig(temperature: 1), try allSettings()] {
                let each = try Case(kind, sampling, seed: 7, grams: ["FO"])
                try check("\(sampling)", each.with { ($0.count, $0.most, $0.rounds) = (1, 2, 2) })
            }
        }
    }

    /// Rows of the drafter of which nothing can be drawn end a draft, and the round goes on.
    func testAnUnsoundDrafterLeavesTheTargetsDistribution() throws {
        let spoils: [(String, (inout [Float]) -> Void)] = [
            ("one NaN", { $0[2] = .nan }), ("infinity", { $0[3] = .infinity }),
            ("nothing", { $0 = $0.map { _ in -.infinity } }),
        ]
        for (name, spoil) in spoils {
            for kind in [Kind.token, .block] {
                try check(name, Case(kind).with { $0.drafter = UnsoundModel(7, draftTokens.count, spoil) })
            }
        }
    }

    func testGreedyIsExactWithEveryProposer() throws {
        for kind in Kind.allCases {
            for penalty in [1, 1.9] {
                for grams in caches {
                    let sampling = try SamplingConfig(repetitionPenalty: penalty)
                    let each = try Case(kind, sampling, seed: UInt64(grams.count), grams: grams)
                    let whole = each.with { ($0.count, $0.most, $0.rounds) = (5, compared, compared) }
                    XCTAssertEqual(try distributionOfOutput(whole).count, 1, "a greedy text is certain")
                    try check("greedy \(penalty) \(grams)", whole)
                }
            }
        }
    }

    /// The comparison has power: the distribution under another setting is far from the output's.
    func testTheWrongSamplingIsSeen() throws {
        let distribution = try distributionOfOutput(Case(.token, allSettings(), seed: 4))
        for (name, sampling) in try truncated() where name != "all" {
            XCTAssertGreaterThan(totalVariation(distribution, try Case(.token, sampling, seed: 4)), 0.01, name)
        }
    }

    /// The enumeration would also pass without any draft, so rounds with several tokens must occur.
    func testDraftingIsUsed() throws {
        for kind in [Kind.token, .block, .lookup, .copying] {
            let distribution = try distributionOfOutput(Case(kind, seed: 0))
            let several = distribution.reduce(0) { $0 + ($1.key.count > 1 ? $1.value : 0) }
            XCTAssertGreaterThan(several, 0.02, "\(kind)")
        }
    }

    /// A seed gives the same tokens as often as it is used.
    func testASeedRepeatsItsText() throws {
        XCTAssertEqual(try generated(42), try generated(42))
        XCTAssertNotEqual(try generated(42), try generated(43), "another seed, another text")
    }

    private func generated(_ seed: UInt64) throws -> [Int32] {
        let each = try Case(.block)
        let proposer = try each.proposer(Drafter(ContextModel(7, draftTokens.count)))
        let loop = Speculation(
            target: each.target(), proposer: proposer, text: each.text(40), sampling: each.sampling,
            draftLength: try FixedLength(3), random: SplitMix64(seed))
        var tokens: [Int32] = []
        while let round = try loop.next() { tokens += round.emitted }
        return tokens
    }
}
