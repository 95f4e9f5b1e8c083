import XCTest

@testable import OmniDraft

private func state(_ prompt: [Int32], most: Int = 1 << 20) -> DecoderState {
    let text = DecoderState()
    text.restart(prompt, prompt, remaining: most, cut: cutAtEos([]))
    return text
}

/// What a round does besides its distribution: reading ahead, errors, the greedy text.
final class RoundTests: XCTestCase {
    func testTheGreedyTextIsThatOfTheTargetAlone() throws {
        let target = ContextModel(2, targetTokens.count, maxLength: 256)
        let prompt: [Int32] = [0, 3, 1]
        var plain: [Int32] = []
        while plain.count < 60 {
            let row = target.row(prompt + plain)
            plain.append(Int32(row.firstIndex(of: row.max()!)!))
        }
        for count in [0, 1, 4, 12] {
            let drafter = Drafter(ContextModel(3, draftTokens.count, maxLength: 48), start: [7])
            let proposer = CopyingProposer(MatchProposer(drafter, try toyCache(toyMap(), ["FO"])))
            let text = state(prompt, most: 60)
            let loop = Speculation(
                target: target, proposer: proposer, text: text, sampling: try SamplingConfig(),
                draftLength: try FixedLength(count), random: SplitMix64(0))
            var emitted: [Int32] = []
            while let round = try loop.next() { emitted += round.emitted }
            XCTAssertEqual(emitted, plain)
            XCTAssertEqual(text.tokens, prompt + plain)
            XCTAssertEqual(target.length, text.tokens.count - 1, "the target keeps the text without its last token")
            target.rewind(0)
        }
    }

    func testACancelledRoundChangesNeitherTextNorCache() throws {
        let target = CancelledModel(2, targetTokens.count, passes: 3)
        let cache = try toyCache(toyMap(), [])
        let proposer = TrieProposer(Drafter(ContextModel(3, draftTokens.count)), cache, temperature: 1)
        let text = state([0, 3, 1])
        let sampling = try SamplingConfig(temperature: 1)
        let loop = Speculation(
            target: target, proposer: proposer, text: text, sampling: sampling, draftLength: try FixedLength(2),
            random: SplitMix64(1))
        for _ in 0..<2 { XCTAssertNotNil(try loop.next()) }  // after the pass over the prompt
        let (tokens, context, entries) = (text.tokens, text.context, cache.entries())
        XCTAssertThrowsError(try loop.next()) { XCTAssertTrue($0 is Cancelled) }
        XCTAssertEqual(text.tokens, tokens)
        XCTAssertEqual(text.context, context)
        XCTAssertEqual(cache.entries(), entries)
    }

    func testATargetWithoutADistributionEndsTheGenerationByName() throws {
        let target = UnsoundModel(2, targetTokens.count) { $0[1] = .nan }
        let proposer = TrieProposer(Drafter(nil), try toyCache(toyMap(), []), temperature: 1)
        let sampling = try SamplingConfig(temperature: 1)
        let loop = Speculation(
            target: target, proposer: proposer, text: state([1]), sampling: sampling, draftLength: try FixedLength(0),
            random: SplitMix64(1))
        XCTAssertEqual(try faultOf { while try loop.next() != nil {} }, "logits")
    }

    func testASecondTextKeepsWhatTheTargetShares() throws {
        let text = state([1, 2, 3, 4])
        try text.prefill(ContextModel(2, targetTokens.count))
        XCTAssertEqual(text.cached, [1, 2, 3])
        text.restart([1, 2, 9, 4], [], remaining: 10, cut: cutAtEos([]))
        XCTAssertEqual(text.cached, [1, 2])
        text.restart([1, 2], [], remaining: 10, cut: cutAtEos([]))
        XCTAssertEqual(text.cached, [1], "the last token is read again")
    }
}

/// A model that is cancelled after some passes.
private final class CancelledModel: ContextModel {
    private var passes: Int

    init(_ seed: UInt64, _ vocabSize: Int, passes: Int) {
        self.passes = passes
        super.init(seed, vocabSize, maxLength: 256)
    }

    override func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        if passes == 0 { throw Cancelled() }
        passes -= 1
        return try super.score(tokens, numLogits: numLogits)
    }
}
