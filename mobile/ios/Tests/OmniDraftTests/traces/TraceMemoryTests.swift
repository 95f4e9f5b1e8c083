import XCTest

@testable import OmniDraft

/// Traces in memory: what is taken is gone, and a generation that goes on does so in another record.
final class TraceMemoryTests: XCTestCase {
    private let pair = Vocabularies(
        draftFingerprint: String(repeating: "d", count: 64), targetFingerprint: String(repeating: "e", count: 64),
        draftSize: 4000, targetSize: 60_000)

    func testWhatIsTakenIsGoneAndWhatGoesOnBeginsAnotherRecord() {
        let memory = TraceMemory(pair)
        let one = recordRounds(memory, 1, 3)
        recordRounds(memory, 10, 2)
        XCTAssertEqual(memory.take().map(\.rounds.count), [3, 2])
        XCTAssertEqual(memory.take(), [])
        recordRounds(memory, 4, 2, at: one)
        let rest = memory.take()
        XCTAssertEqual(rest.map(\.start.continues), [true])
        XCTAssertEqual(rest.map { $0.rounds.map(\.position) }, [[8, 10]])
    }

    func testAPauseRecordsNothing() {
        let memory = TraceMemory(pair)
        memory.pause()
        XCTAssertNil(recordRounds(memory, 1, 1))
        memory.resume()
        recordRounds(memory, 2, 1)
        XCTAssertEqual(memory.take().count, 1)
    }

    func testGenerationsAsTheBytesOfASegmentAreReadAsWhatTheyWere() throws {
        let memory = TraceMemory(smallPair)
        var values = TraceValues(3)
        for _ in 0..<4 {
            let start = values.start()
            _ = memory.append(values.round(start.context.count), at: nil) { start }
        }
        let traces = memory.take()
        let segment = try decodeSegment(Bytes(segmentOf(traces, smallPair, number: 7)))
        XCTAssertEqual(segment.header.number, 7)
        XCTAssertEqual(segment.generations().map { $0.tokens.map(\.tokenId) }, traces.map { $0.tokens.map(\.tokenId) })
    }
}
