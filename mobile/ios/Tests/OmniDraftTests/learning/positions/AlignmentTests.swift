import XCTest

@testable import OmniDraft

/// What holds for every alignment, in random languages.
final class AlignmentTests: XCTestCase {
    private struct Language {
        let random: SplitMix64
        let map: VocabMap
        let trie: ActiveTrie
        let tokens: [Int32]
        let rows: TargetRows

        init(_ seed: UInt64) throws {
            random = SplitMix64(seed)
            map = randomMap(random)
            trie = fullTrie(map)
            let (random, size) = (random, map.targetSize)
            tokens = (0..<12).map { _ in Int32(random.uniform() * Double(size)) }
            rows = try randomRows(random, size, tokens.count)
        }

        func aligned(_ prompt: [Int32] = [1], most: Int = 200, keep: Int = 64) throws -> Aligned {
            try Aligner(trie: trie, maxLength: most, keep: keep).align(prompt, tokens, rows)
        }
    }

    func testEachDistributionIsOneAndBelongsToARow() throws {
        for seed in 0..<60 {
            let aligned = try Language(UInt64(seed)).aligned([1, 2])
            let distributions = aligned.trieDistributions
            XCTAssertGreaterThan(distributions.count, 0)
            for index in 0..<distributions.count {
                let sum = distributions.probabilities[index].reduce(0, +) + distributions.other[index]
                XCTAssertEqual(sum, 1, accuracy: 1e-9, "seed \(seed)")
                XCTAssert((0..<aligned.numRows).contains(distributions.rows[index]))
                XCTAssert((0...1 + 1e-9).contains(distributions.weights[index]))
                XCTAssertEqual(Set(distributions.ids[index]).count, distributions.ids[index].count)
            }
        }
    }

    func testTheDraftIdsAreTheSpellingsAndEachBelongsToItsToken() throws {
        for seed in 0..<60 {
            let language = try Language(UInt64(seed))
            let aligned = try language.aligned([1, 2])
            let spellings = language.tokens.map { language.map.spell($0) }
            XCTAssertEqual(aligned.draftIds, [1, 2] + spellings.flatMap { $0 })
            let owners = spellings.enumerated().flatMap { index, spelling in spelling.map { _ in index } }
            XCTAssertEqual(aligned.owners, owners)
        }
    }

    func testWhatTheModelWroteAlongASpellingMultipliesToTheTokensProbability() throws {
        var compared = 0
        for seed in 0..<100 {
            let language = try Language(UInt64(seed))
            let map = language.map
            var random = language.random
            let longer = map.leaves.filter { map.spell($0).count > 1 }
            guard let leaf = longer.randomElement(using: &random) else { continue }
            let spelling = map.spell(leaf)
            let node = try XCTUnwrap(nodeOf(language.trie, spelling))
            if language.trie.goesOn(node) { continue }  // its end is decided by the next draft token
            let rows = try randomRows(language.random, map.targetSize, 1)
            let aligned = try Aligner(trie: language.trie, maxLength: 200).align([1], [leaf], rows)
            let distributions = aligned.trieDistributions
            var product = distributions.weights[0]
            for (row, draft) in spelling.enumerated() {
                let place = try XCTUnwrap(distributions.ids[row].firstIndex(of: draft))
                product *= distributions.probabilities[row][place]
            }
            XCTAssertGreaterThan(product, 0)
            XCTAssertEqual(product, aligned.tokens.probabilities[0], accuracy: 1e-9, "seed \(seed)")
            compared += 1
        }
        XCTAssertGreaterThan(compared, 20)
    }

    func testADistributionKeepsTheLikeliestIds() throws {
        for seed in 0..<30 {
            let language = try Language(UInt64(seed))
            let whole = try language.aligned().trieDistributions
            let few = try language.aligned(keep: 2).trieDistributions
            XCTAssertEqual(few.count, whole.count)
            for index in 0..<whole.count {
                let expected = whole.probabilities[index].sorted(by: >).prefix(2)
                try close("the likeliest", few.probabilities[index].sorted(by: >), Array(expected))
                XCTAssertEqual(few.other[index], 1 - expected.reduce(0, +), accuracy: 1e-9)
            }
        }
    }

    func testWhatDoesNotFitIsDroppedByWholeTokens() throws {
        for seed in 0..<30 {
            let language = try Language(UInt64(seed))
            let whole = try language.aligned()
            for most in 1...whole.draftIds.count {
                let cut = try language.aligned(most: most)
                XCTAssertLessThanOrEqual(cut.draftIds.count, most)
                XCTAssertEqual(cut.draftIds, Array(whole.draftIds.prefix(cut.draftIds.count)))
                let count = cut.tokens.count
                if count < language.tokens.count {
                    let next = language.map.spell(language.tokens[count])
                    XCTAssertGreaterThan(cut.draftIds.count + next.count, most)
                }
                XCTAssertEqual(cut.directDistributions.count, count)
            }
        }
    }

    func testWhatCannotBeAlignedIsRefused() throws {
        let language = try Language(1)
        let aligner = Aligner(trie: language.trie, maxLength: 200)
        let one = try randomRows(language.random, language.map.targetSize, 1)
        func refused(_ what: String, _ prompt: [Int32], _ tokens: [Int32], _ rows: TargetRows) {
            XCTAssertThrowsError(try aligner.align(prompt, tokens, rows)) { error in
                guard case OmniDraftError.setting(let refusal) = error else { return XCTFail("\(error)") }
                XCTAssert(refusal.message.contains(what), refusal.message)
            }
        }
        refused("prompt is empty", [], [0], one)
        refused("2 tokens has 1 target rows", [1], [0, 1], one)
        for outside in [-1, Int32(language.map.targetSize)] {
            refused("outside 0..", [1], [outside], one)
            refused("outside 0..", [1], [0], try TargetRows(ids: [[outside]], probabilities: [[0.5]], rest: [0.5]))
        }
        refused("outside 0..", [Int32(language.map.draftSize)], [0], one)
        for wrong in [Double.nan, -0.5, 1] {
            let rows = try TargetRows(ids: [[0, 1]], probabilities: [[wrong, 0.5]], rest: [0.5])
            refused("not a distribution", [1], [0], rows)
        }
        XCTAssertThrowsError(try TargetRows(ids: one.ids, probabilities: one.probabilities, rest: [0, 0]))
    }
}
