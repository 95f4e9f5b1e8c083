import XCTest

@testable import OmniDraft

/// The file of a trace: one way to write it, and one name for each way to spoil it.
final class TraceFileTests: XCTestCase {
    private func fault(_ data: [UInt8]) throws -> String? { try faultOf { _ = try decodeSegment(Bytes(data)) } }

    private func randomSegment(_ seed: UInt64, _ pair: Vocabularies = smallPair) -> TraceSegment {
        var values = TraceValues(seed, pair)
        return values.segment()
    }

    func testTheExampleOfTheSpecification() throws {
        let text = String(decoding: try readFile("\(repository)/spec/12-trace.md", most: 1 << 20), as: UTF8.self)
        // Rows such as "    0000  89 4f 44": a number of 4 digits, and bytes.
        let rows = text.split(separator: "\n").filter { row in
            let bytes = Array(row.utf8)
            return bytes.count > 10 && bytes[..<4].allSatisfy { $0 == 0x20 } && bytes[8] == 0x20 && bytes[9] == 0x20
                && bytes[4..<8].allSatisfy { hexDigit($0) >= 0 }
                && bytes[10...].allSatisfy { $0 == 0x20 || hexDigit($0) >= 0 }
        }
        let data = try bytesOf(hex: rows.map { $0.dropFirst(10).filter { $0 != " " } }.joined())
        let segment = try decodeSegment(Bytes(data))
        let traced = segment.generations()
        XCTAssertEqual(traced.map(\.rounds.count), [1])
        XCTAssertEqual(traced[0].rounds[0].labels.map(\.label), [0.25])
        XCTAssertEqual(traced[0].rounds[0].tokens.map(\.pieces), [[1, 4]])
        XCTAssertEqual(try encodeSegment(segment), data)
    }

    func testWhatIsWrittenIsRead() throws {
        let wide = Vocabularies(
            draftFingerprint: String(repeating: "1", count: 64), targetFingerprint: String(repeating: "2", count: 64),
            draftSize: 1 << 31, targetSize: 1 << 16 + 1)
        for seed in 0..<UInt64(300) {
            let segment = randomSegment(seed, seed % 2 == 0 ? smallPair : wide)
            let data = try encodeSegment(segment)
            let decoded = try decodeSegment(Bytes(data))
            XCTAssertEqual(try encodeSegment(decoded), data, "seed \(seed)")
            XCTAssertEqual(decoded.torn, 0)
            let rounds = segment.frames.count { if case .round = $0.content { true } else { false } }
            XCTAssertEqual(decoded.generations().reduce(0) { $0 + $1.rounds.count }, rounds)
        }
    }

    func testATornEndLosesTheLastEntryOnly() throws {
        let segment = randomSegment(1)
        let ends = try (0...segment.frames.count).map { count in
            try encodeSegment(TraceSegment(header: segment.header, frames: Array(segment.frames.prefix(count)))).count
        }
        let data = try encodeSegment(segment)
        for length in traceHeaderBytes..<data.count {
            let decoded = try decodeSegment(Bytes(Array(data[..<length])))
            let whole = ends.last { $0 <= length }!
            XCTAssertEqual(try encodeSegment(decoded), Array(data[..<whole]), "cut at \(length)")
            XCTAssertEqual(decoded.torn, length - whole)
            // Zeros, as some file systems leave them after a power cut.
            let zeros = [UInt8](repeating: 0, count: data.count - length)
            let padded = try encodeSegment(decodeSegment(Bytes(data[..<length] + zeros)))
            XCTAssert(padded.count >= whole && data.starts(with: padded), "zeros from \(length) on")
        }
    }

    func testEveryBeginningOfAHeaderIsRefused() throws {
        let data = try encodeSegment(randomSegment(2))
        for length in 0..<traceHeaderBytes {
            XCTAssertEqual(
                try fault(Array(data[..<length])), length < traceMagic.count ? "not_a_trace" : "truncated")
        }
    }

    func testEveryFlippedBitIsRefusedOrTheEndIsLeftOut() throws {
        let data = try readFile("\(vectorRoot)/trace/valid/example.bin", most: maxSegmentBytes)
        let second = traceHeaderBytes + frameBytes + Int(data[traceHeaderBytes])
        for bit in 0..<8 * data.count {
            var spoiled = data
            spoiled[bit / 8] ^= 1 << UInt8(bit % 8)
            let byte = bit / 8
            if byte < traceHeaderBytes {
                XCTAssert(["not_a_trace", "version", "checksum"].contains(try fault(spoiled)), "bit \(bit)")
            } else if (traceHeaderBytes + 4..<second).contains(byte) {
                XCTAssertEqual(try fault(spoiled), "checksum", "a round follows, so this was no broken write")
            } else {
                let torn = data.count - (byte < second ? traceHeaderBytes : second)
                XCTAssertEqual(try decodeSegment(Bytes(spoiled)).torn, torn, "bit \(bit)")
            }
        }
    }

    func testAnIdOf31BitsAndMoreIsOutsideEveryVocabulary() throws {
        for wide in [Int32.min, -1] {  // 2^31 and 2^32 - 1
            let pair = Vocabularies(
                draftFingerprint: String(repeating: "1", count: 64),
                targetFingerprint: String(repeating: "2", count: 64), draftSize: 9, targetSize: 70_000)
            let listed = Masses(ids: [wide], probabilities: [0.5], rest: 0.5)
            let nothing = Masses(ids: [], probabilities: [], rest: 1)
            let token = TracedToken(
                tokenId: 6, surprisal: 0.5, accepted: false, inside: false, pieces: [], distribution: listed,
                roots: nothing, unspelled: 0)
            let round = TracedRound(
                position: 0, draft: [], evaluated: 0, acceptedDrafts: 0, labels: [], tokens: [token])
            let data = try segmentOf([Traced(start: plainStart([]), rounds: [round])], pair, number: 1)
            XCTAssertEqual(try fault(data), "id_range")
        }
    }
}
