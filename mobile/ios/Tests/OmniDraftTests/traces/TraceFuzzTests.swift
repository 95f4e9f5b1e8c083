import XCTest

@testable import OmniDraft

/// Changed files: each is refused by a named fault, or read; nothing else is thrown.
final class TraceFuzzTests: XCTestCase {
    func testChangedFilesAreRefusedByNameOrReadRight() throws {
        let faults: Set = [
            "not_a_trace", "truncated", "version", "checksum", "reserved", "limits", "kind", "length", "number",
            "id_range", "counts", "mass", "order",
        ]
        let files = ChangedFiles(20_261_122)
        let made = try (0..<40).map { seed in
            var values = TraceValues(UInt64(seed))
            return try encodeSegment(values.segment())
        }
        try files.check(made + vectorFiles("trace/valid", ".bin"), faults, least: 0.05) { given in
            // With right checksums the change reaches the fields; without, only the checksums are tested.
            let change = files.changed(given)
            let data = files.below(8) == 0 ? change : summed(change)
            let segment = try decodeSegment(Bytes(data))
            // What is read is written again in the same bytes.
            XCTAssertEqual(try encodeSegment(segment), Array(data.dropLast(segment.torn)))
        }
    }

    /// The file with right checksums, as far as its lengths lead; the length of the last entry is made to fit.
    private func summed(_ data: [UInt8]) -> [UInt8] {
        var file = data
        if file.count < traceHeaderBytes { return file }
        putU32(&file, traceHeaderBytes - 4, crc32(file[0..<traceHeaderBytes - 4]))
        var at = traceHeaderBytes
        while file.count - at >= frameBytes {
            let most = file.count - at - frameBytes
            if Bytes(file).u32(at) > most { putU32(&file, at, UInt32(most)) }
            let end = at + frameBytes + Bytes(file).u32(at)
            putU32(&file, end - 4, crc32(file[at..<end - 4]))
            at = end
        }
        return file
    }
}
