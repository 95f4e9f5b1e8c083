import XCTest

@testable import OmniDraft

/// Records that continue one another are one generation.
final class FromTracesTests: XCTestCase {
    private let toy = toyMap()

    private var toys: TraceAligner { TraceAligner(aligner: Aligner(trie: fullTrie(toy), maxLength: 400), start: [7]) }

    private func recorded(_ mode: ToyMode, _ seed: UInt64) throws -> Traced {
        let generation = try ToyGeneration(toy, mode, seed, SamplingConfig(temperature: 0.7))
        let tracer = Tracer(toy)
        var rounds: [TracedRound] = []
        try generation.run { outcome, probs in rounds.append(try XCTUnwrap(tracer(outcome, probs))) }
        let start = TraceStart(
            drafterAdapter: nil, targetAdapter: nil, mode: mode.word, continues: false, skipped: 0, context: toyPrompt)
        return Traced(start: start, rounds: rounds)
    }

    func testRecordsOfOneGenerationAreJoined() throws {
        let (one, other) = (try recorded(.tokens, 4), try recorded(.match, 5))
        let (a, b) = (parts(one, 2, 3), parts(other, 6))
        XCTAssertEqual(try joined([a[0], b[0], b[1], a[1], a[2]]), [one.rounds, other.rounds])
        let later = changed(a[1], context: Array(a[1].start.context[2...]), skipped: 2)
        XCTAssertEqual(try joined([a[0], later]), [Array(one.rounds[..<3])])
        var found: [Aligned] = []
        let records: TraceSource = { try a.forEach($0) }
        try fromTraces(records, aligner: toys) { found.append($0) }
        XCTAssertEqual(found.count, 1)
        XCTAssertEqual(found.first?.draftIds, try toys.align(one)?.draftIds)
    }

    func testWhatAPauseOrAnotherTargetCutOffStaysApart() throws {
        let records = parts(try recorded(.tokens, 4), 2, 3)
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
            parts(try recorded(.tokens, 20 + $0), 8)
        }
        // The two oldest were complete before their second records came; those push the two next out in turn.
        let late = begun.map { $0[0] } + begun.map { $0[1] }
        XCTAssertEqual(try joined(late).count, 2 * (Defaults.learnerOpenGenerations + 2))
        let few = begun.prefix(Defaults.learnerOpenGenerations)
        XCTAssertEqual(try joined(few.map { $0[0] } + few.map { $0[1] }).count, Defaults.learnerOpenGenerations)
    }

    /// A generation in several records, as segments and adapters cut it.
    private func parts(_ traced: Traced, _ cuts: Int...) -> [Traced] {
        var text = traced.start.context
        let ends = cuts.map { min($0, traced.rounds.count) } + [traced.rounds.count]
        return zip([0] + ends, ends).map { low, high in
            let rounds = Array(traced.rounds[low..<high])
            let part = changed(Traced(start: traced.start, rounds: rounds), context: text, continues: low > 0)
            text += part.tokens.flatMap { toy.spell($0.tokenId) }
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
            mode: start.mode, continues: continues ?? start.continues,
            skipped: skipped ?? start.skipped, context: context ?? start.context)
        return Traced(start: begun, rounds: traced.rounds)
    }

    private func joined(_ traces: [Traced]) throws -> [[TracedRound]] {
        var whole: [[TracedRound]] = []
        let records: TraceSource = { try traces.forEach($0) }
        try joinTraces(records, toy) { whole.append($0.rounds) }
        return whole
    }
}
