import Foundation
import XCTest

@testable import OmniDraft

private let names: Set<String> = [
    "not_a_trace", "truncated", "version", "checksum", "reserved", "limits", "kind", "length", "number", "id_range",
    "counts", "mass", "order",
]
private let readRight = "read"
private let manyFiles = 1000  // with this many changed files, each fault occurs

/// Changed files: each is refused by a named fault, or read; nothing else is thrown. OMNIDRAFT_FUZZ is the number of files.
final class TraceFuzzTests: XCTestCase {
    private var random = SplitMix64(20_261_122)

    func testChangedFilesAreRefusedByNameOrReadRight() throws {
        let files = ProcessInfo.processInfo.environment["OMNIDRAFT_FUZZ"].flatMap { Int($0) } ?? manyFiles
        let given = try originals()
        var faults: [String: Int] = [:]
        for _ in 0..<files {
            var changed = given[below(given.count)]
            for _ in 0...below(2) { changed = changedOnce(changed) }
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            let fault = try faultOf(below(8) == 0 ? changed : summed(changed))
            faults[fault, default: 0] += 1
        }
        print("fuzz of \(files) traces: \(faults.sorted { $0.key < $1.key })")
        if files < manyFiles { return }
        let missing = names.subtracting(faults.keys)
        XCTAssert(missing.isEmpty, "some faults never came up: \(missing)")
        let read = faults[readRight] ?? 0
        XCTAssert(read > files / 20 && read < files / 2, "too few or too many were read: \(faults)")
    }

    private func originals() throws -> [[UInt8]] {
        let made = try (0..<40).map { seed in
            var values = TraceValues(UInt64(seed))
            return try encodeSegment(values.segment())
        }
        let folder = vectorRoot + "/trace/valid"
        let files = try FileManager.default.contentsOfDirectory(atPath: folder).sorted().filter { $0.hasSuffix(".bin") }
        XCTAssertFalse(files.isEmpty)
        return try made + files.map { try readFile("\(folder)/\($0)", most: maxSegmentBytes) }
    }

    private func faultOf(_ data: [UInt8]) throws -> String {
        do {
            let segment = try decodeSegment(Bytes(data))
            // What is read is written again in the same bytes.
            XCTAssertEqual(try encodeSegment(segment), Array(data.dropLast(segment.torn)))
            return readRight
        } catch OmniDraftError.traceFile(let refusal) {
            XCTAssert(names.contains(refusal.fault) && !refusal.message.isEmpty, "\(refusal)")
            return refusal.fault
        }
    }

    private func changedOnce(_ data: [UInt8]) -> [UInt8] {
        if data.isEmpty { return data }
        var data = data
        let at = below(data.count)
        switch below(8) {
        case 0: data[at] = UInt8(below(256))
        case 1: data[at] ^= 1 << UInt8(below(8))
        case 2: data[at] = [0, 1, 255, 127, 128][below(5)]
        case 3: data[at] &+= 1
        case 4:
            let value: UInt8 = below(2) == 0 ? 0 : 255
            for index in at..<min(at + 4, data.count) { data[index] = value }
        case 5: data.removeSubrange(at...)
        case 6: data.removeSubrange(at..<min(data.count, at + 1 + below(8)))
        default: data.insert(contentsOf: (0...below(8)).map { _ in UInt8(below(256)) }, at: at)
        }
        return data
    }

    /// The file with right checksums, as far as its lengths lead; the length of the last entry is made to fit.
    private func summed(_ data: [UInt8]) -> [UInt8] {
        var file = data
        if file.count < traceHeaderBytes { return file }
        put(&file, traceHeaderBytes - 4, crc32(file[0..<traceHeaderBytes - 4]))
        var at = traceHeaderBytes
        while file.count - at >= frameBytes {
            let most = file.count - at - frameBytes
            var length = (0..<4).reduce(0) { $0 | Int(file[at + $1]) << (8 * $1) }
            if length > most {
                length = most
                put(&file, at, UInt32(most))
            }
            let end = at + frameBytes + length
            put(&file, end - 4, crc32(file[at..<end - 4]))
            at = end
        }
        return file
    }

    private func put(_ data: inout [UInt8], _ at: Int, _ number: UInt32) {
        for index in 0..<4 { data[at + index] = UInt8(truncatingIfNeeded: number >> UInt32(8 * index)) }
    }

    private func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
}
