import XCTest

@testable import OmniDraft

/// From recorded generations to training positions: the same as from the responses' own rows.
final class FromTracesTests: XCTestCase {
    private let start: [Int32] = [7]
    private let toy = toyMap()

    private var toys: TraceAligner { TraceAligner(aligner: Aligner(trie: fullTrie(toy), maxLength: 400), start: start) }

    /// A toy generation as a trace has it, its ids, and the target's whole distribution before each of them.
    private struct Recorded {
        let traced: Traced
        let ids: [Int32]
        let rows: TargetRows
    }

    private func recorded(_ mode: ToyMode, _ seed: UInt64) throws -> Recorded {
        let generation = try ToyGeneration(toy, mode, seed, SamplingConfig(temperature: 0.7))
        let tracer = Tracer(toy)
        var rounds: [TracedRound] = []
        var position = toyPrompt.count
        try generation.run { outcome, probs in
            let round = try XCTUnwrap(try tracer(generation.proposer, outcome, probs)).at(position)
            rounds.append(round)
            position += round.numPieces
        }
        let whole = generation.text.tokens
        let first = toyPrompt.count
        let probabilities = (first..<whole.count).map { softmax(generation.target.row(Array(whole[..<$0]))) }
        let all = (0..<Int32(toy.targetSize)).map { $0 }
        let rows = try TargetRows(
            ids: probabilities.map { _ in all }, probabilities: probabilities, rest: probabilities.map { _ in 0 })
        let begun = TraceStart(
            drafterAdapter: nil, targetAdapter: nil, temperature: 0.7, mode: mode.word, continues: false, skipped: 0,
            context: toyPrompt)
        return Recorded(traced: Traced(start: begun, rounds: rounds), ids: Array(whole[first...]), rows: rows)
    }

    func testATraceIsAlignedAsItsResponsesOwnRows() throws {
        for mode in ToyMode.allCases {
            for seed in 0..<UInt64(8) { try check(recorded(mode, seed)) }
        }
    }

    func testWhatALongDraftTokenWroteHasDraftPositionsLikeAllOthers() throws {
        for seed in 0..<UInt64(2000) {
            let recorded = try recorded(.tokens, seed)
            if recorded.traced.tokens.contains(where: \.inside) { return try check(recorded) }
        }
        XCTFail("no generation has such a token")
    }

    func testOnlyActiveSpellingsAreTaughtFromATraceToo() throws {
        let cold = Aligner(trie: trieWith(toy, []), maxLength: 400)
        let recorded = try recorded(.tokens, 3)
        let expected = try cold.align(start + toyPrompt, recorded.ids, recorded.rows)
        try check(TraceAligner(aligner: cold, start: start).align(recorded.traced), expected)
    }

    func testRecordsOfOneGenerationAreJoined() throws {
        let (one, other) = (try recorded(.tokens, 4).traced, try recorded(.match, 5).traced)
        let (a, b) = (parts(one, 2, 3), parts(other, 6))
        XCTAssertEqual(try joined([a[0], b[0], b[1], a[1], a[2]]), [one.rounds, other.rounds])
        let later = changed(a[1], context: Array(a[1].start.context[2...]), skipped: 2)
        XCTAssertEqual(try joined([a[0], later]), [Array(one.rounds[..<3])])
        var found: [Aligned] = []
        let records: TraceSource = { try a.forEach($0) }
        try fromTraces(records, toys) { found.append($0) }
        XCTAssertEqual(found.count, 1)
        try check(found.first, try XCTUnwrap(try toys.align(one)))
    }

    func testWhatAPauseOrAnotherTargetCutOffStaysApart() throws {
        let records = parts(try recorded(.tokens, 4).traced, 2, 3)
        let (first, gone, last) = (records[0], records[1], records[2])
        let context = gone.start.context
        let digest = String(repeating: "a", count: 64)
        let apart = [
            last,
            changed(gone, targetAdapter: digest),
            changed(gone, continues: false),  // another one, after the same text
            changed(gone, skipped: gone.start.skipped + 1),  // the same end of a longer text
            changed(gone, context: context.map { ($0 + 1) % Int32(toy.draftSize) }),
        ]
        for each in apart { XCTAssertEqual(try joined([first, each]), [first.rounds, each.rounds]) }
        let drafters = changed(gone, drafterAdapter: digest)
        XCTAssertEqual(try joined([first, drafters, last]).count, 1)
    }

    func testAtMostEightGenerationsWaitForTheirNextRecord() throws {
        let begun = try (0..<UInt64(Defaults.learnerOpenGenerations + 2)).map {
            parts(try recorded(.tokens, 20 + $0).traced, 8)
        }
        // The two oldest were complete before their second records came; those push the two next out in turn.
        let late = begun.map { $0[0] } + begun.map { $0[1] }
        XCTAssertEqual(try joined(late).count, 2 * (Defaults.learnerOpenGenerations + 2))
        let few = begun.prefix(Defaults.learnerOpenGenerations)
        XCTAssertEqual(try joined(few.map { $0[0] } + few.map { $0[1] }).count, Defaults.learnerOpenGenerations)
    }

    func testAnotherTargetIsRefused() throws {
        let traced = try recorded(.tokens, 4).traced
        let digest = String(repeating: "ab", count: 32)
        let other = changed(traced, targetAdapter: digest)
        XCTAssertThrowsError(try toys.align(other)) { error in
            guard case OmniDraftError.setting(let refusal) = error else { return XCTFail("\(error)") }
            let expected = "is of the target with adapter abababababab and not with no adapter"
            XCTAssert(refusal.message.contains(expected), refusal.message)
        }
        let adapted = TraceAligner(aligner: toys.aligner, start: start, targetAdapter: digest)
        XCTAssertThrowsError(try adapted.align(traced))
        XCTAssertNotNil(try adapted.align(other))
    }

    func testWhatDoesNotFitIsCut() throws {
        // From the left the text before, down to half of the length; then what was said last.
        let recorded = try recorded(.tokens, 6)
        let text = (0..<90).map { toyPrompt[$0 % 3] }
        let long = changed(recorded.traced, context: text)
        let room = 20
        let aligner = Aligner(trie: fullTrie(toy), maxLength: room)
        let aligned = try XCTUnwrap(try TraceAligner(aligner: aligner, start: start).align(long))
        let prompt = start + text.suffix(room / 2 - 1)
        try check(aligned, aligner.align(prompt, recorded.ids, recorded.rows))
        XCTAssertLessThanOrEqual(aligned.draftIds.count, room)
        XCTAssert((1..<recorded.ids.count).contains(aligned.tokens.count))
        let narrow = TraceAligner(aligner: Aligner(trie: fullTrie(toy), maxLength: 1), start: start)
        XCTAssertNil(try narrow.align(recorded.traced))
    }

    func testNothingBeforeTheFirstTokenIsNothingToDraftFrom() throws {
        let bare = changed(try recorded(.tokens, 6).traced, context: [])
        XCTAssertNil(try TraceAligner(aligner: toys.aligner).align(bare))
        XCTAssertEqual(try toys.align(bare)?.promptLength, 1)
    }

    /// A generation in several records, as segments and adapters cut it.
    private func parts(_ traced: Traced, _ cuts: Int...) -> [Traced] {
        var text = traced.start.context
        let ends = cuts.map { min($0, traced.rounds.count) } + [traced.rounds.count]
        return zip([0] + ends, ends).map { low, high in
            let rounds = Array(traced.rounds[low..<high])
            let part = changed(Traced(start: traced.start, rounds: rounds), context: text, continues: low > 0)
            text += rounds.flatMap(\.pieces)
            return part
        }
    }

    private func changed(
        _ traced: Traced, context: [Int32]? = nil, skipped: Int? = nil, continues: Bool? = nil,
        targetAdapter: String? = nil, drafterAdapter: String? = nil
    ) -> Traced {
        let start = traced.start
        let begun = TraceStart(
            drafterAdapter: drafterAdapter ?? start.drafterAdapter, targetAdapter: targetAdapter ?? start.targetAdapter,
            temperature: start.temperature, mode: start.mode, continues: continues ?? start.continues,
            skipped: skipped ?? start.skipped, context: context ?? start.context)
        return Traced(start: begun, rounds: traced.rounds)
    }

    private func joined(_ traces: [Traced]) throws -> [[TracedRound]] {
        var whole: [[TracedRound]] = []
        let records: TraceSource = { try traces.forEach($0) }
        try joinTraces(records) { whole.append($0.rounds) }
        return whole
    }

    private func check(_ recorded: Recorded) throws {
        let expected = try toys.aligner.align(start + toyPrompt, recorded.ids, recorded.rows)
        try check(toys.align(recorded.traced), expected)
    }

    /// The same places, and distributions that agree as far as float16 tells.
    private func check(_ actual: Aligned?, _ expected: Aligned) throws {
        let actual = try XCTUnwrap(actual)
        XCTAssertEqual(actual.draftIds, expected.draftIds)
        XCTAssertEqual(actual.owners, expected.owners)
        XCTAssertEqual(actual.promptLength, expected.promptLength)
        XCTAssertEqual(actual.tokens.rows, expected.tokens.rows)
        try near("probabilities", actual.tokens.probabilities, expected.tokens.probabilities, 1e-3)
        try check(actual.trieDistributions, expected.trieDistributions)
        try check(actual.directDistributions, expected.directDistributions)
    }

    private func check(_ actual: SparseDistributions, _ expected: SparseDistributions) throws {
        XCTAssertEqual(actual.rows, expected.rows)
        try near("other", actual.other, expected.other, 3e-3)
        try near("weights", actual.weights, expected.weights, 3e-3)
        for index in 0..<min(actual.count, expected.count) {
            try near("of \(index)", dense(actual, index), dense(expected, index), 3e-3)
        }
    }

    /// The probability of each draft id.
    private func dense(_ distributions: SparseDistributions, _ index: Int) -> [Double] {
        var all = [Double](repeating: 0, count: toy.draftSize)
        for (id, value) in zip(distributions.ids[index], distributions.probabilities[index]) { all[Int(id)] = value }
        return all
    }
}
