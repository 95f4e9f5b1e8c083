import Foundation
import XCTest

@testable import OmniDraft

/// A generation is recorded as it went, through pauses and other adapters.
final class RecorderTests: FolderTestCase {
    private var path: String { joined(place, "t") }
    private var adapters = AdapterDigests()

    private func toy() throws -> VocabMap { try vectorMap("toy") }

    /// Records a generation; `before` is called with the number of each round.
    @discardableResult
    private func record(
        _ store: TraceStore, _ seed: UInt64, before: @escaping (Int) -> Void = { _ in }
    ) throws -> ToyGeneration {
        let toy = try toy()
        let generation = try ToyGeneration(toy, .tokens, seed, SamplingConfig(temperature: 0.7))
        let source = RecordingSource(
            map: toy, context: { toyPrompt }, adapters: { self.adapters }, mode: "trie", continues: false)
        let tracer = Tracer(toy) { store.isRecording }
        let recorder = Recorder(store, tracer: tracer, source: source)
        defer { recorder.close() }
        var number = 0
        try generation.run { outcome, probs in
            before(number)
            number += 1
            recorder.record(outcome, probs)
        }
        return generation
    }

    private func inStore(_ body: (TraceStore) throws -> ToyGeneration) throws -> ToyGeneration {
        let store = try TraceStore(path, Vocabularies(toy()))
        defer { store.close() }
        return try body(store)
    }

    private func records() throws -> [Traced] {
        var all: [Traced] = []
        try readTraces([path], Vocabularies(toy())) { all.append($0) }
        return all
    }

    private func ids(_ traced: Traced) -> [Int32] { traced.tokens.map(\.tokenId) }

    private func output(_ generation: ToyGeneration) -> [Int32] {
        Array(generation.text.tokens.dropFirst(toyPrompt.count))
    }

    func testAGenerationComesBackAsItWent() throws {
        for seed in 0..<UInt64(5) {
            let generation = try inStore { try record($0, seed) }
            let all = try records()
            XCTAssertEqual(all.count, Int(seed) + 1)
            guard let traced = all.last else { return }
            XCTAssertEqual(ids(traced), output(generation))
            XCTAssertEqual(traced.start.context, toyPrompt)
            XCTAssertEqual(traced.start.mode, "trie")
            XCTAssertFalse(traced.start.continues)
            XCTAssertEqual(traced.start.skipped, 0)
        }
    }

    func testAPauseLeavesAGapAndTheTextGoesOn() throws {
        let generation = try inStore { store in
            try record(store, 3) { number in
                if number == 2 { store.pause() }
                if number == 4 { store.resume() }
            }
        }
        let all = try records()
        XCTAssertEqual(all.count, 2)
        XCTAssertEqual(all[0].rounds.count, 2)
        XCTAssert(all[1].start.continues)
        let (first, second, whole) = (ids(all[0]), ids(all[1]), output(generation))
        let toy = try toy()
        XCTAssertEqual(
            all[1].start.context + second.flatMap { toy.spell($0) }, toyPrompt + whole.flatMap { toy.spell($0) })
        XCTAssert(whole.starts(with: first))
        XCTAssertEqual(Array(whole.suffix(second.count)), second)
        XCTAssertLessThan(first.count + second.count, whole.count)
    }

    func testAnotherAdapterBeginsAnotherRecord() throws {
        let digest = String(repeating: "a", count: 64)
        let generation = try inStore { store in
            try record(store, 4) { if $0 == 3 { self.adapters = AdapterDigests(drafter: digest) } }
        }
        let all = try records()
        XCTAssertEqual(all.map(\.start.drafterAdapter), [nil, digest])
        XCTAssertEqual(all.map(\.start.continues), [false, true])
        XCTAssertEqual(all.flatMap(ids), output(generation))
    }

    func testARecordedGenerationIsTheSameGeneration() throws {
        for seed in 0..<UInt64(5) {
            let plain = try ToyGeneration(toy(), .tokens, seed, SamplingConfig(temperature: 0.7))
            try plain.run()
            let recorded = try inStore { try record($0, seed) }
            XCTAssertEqual(recorded.text.tokens, plain.text.tokens)
        }
    }
}
