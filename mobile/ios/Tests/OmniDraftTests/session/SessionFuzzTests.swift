import XCTest

@testable import OmniDraft

/// Files with changed bytes are refused by a named fault, or read and written again as they are.
final class SessionFuzzTests: XCTestCase {
    private let files = ChangedFiles(11)

    func testSessionsWithChangedBytes() throws {
        let faults: Set = [
            "not_a_session", "truncated", "version", "reserved", "limits", "trailing", "checksum", "state",
        ]
        // A change behind the header has a wrong checksum, but where it is none.
        try files.check(vectorFiles("session/valid", ".bin"), faults, rare: ["state", "limits"], least: 0) { given in
            let data = sparse(given)
            let (saved, cache) = try decodeSession(data)
            XCTAssertEqual(try encodeSession(saved, cache), data)
        }
    }

    func testStatesWithChangedBytesBehindARightHeader() throws {
        let whole = try vectorFiles("session/valid", ".bin")
        let cache = try decodeSession(whole[0]).cache
        let states = whole.map { file in
            Array(file[sessionHeaderBytes..<sessionHeaderBytes + Bytes(file).u32(16)])
        }
        try files.check(states, ["state"]) { given in
            let state = sparse(given)
            let data = sessionFile(state, cache)
            let (saved, read) = try decodeSession(data)
            XCTAssertEqual(try encodeSession(saved, read), data)
        }
    }

    func testAdaptersWithChangedBytes() throws {
        let faults: Set = [
            "not_an_adapter", "truncated", "version", "layout", "trailing_bytes", "dtype", "missing_tensor",
            "extra_tensor",
            "metadata", "shape", "non_finite", "rank",
        ]
        try files.check(
            vectorFiles("adapter/valid", ".safetensors"), faults, rare: ["rank", "shape", "dtype", "extra_tensor"]
        ) { given in
            let adapter = try decodeAdapter(Bytes(sparse(given)))
            let data = try encodeAdapter(adapter)
            XCTAssertEqual(try encodeAdapter(decodeAdapter(Bytes(data))), data)
        }
    }

    /// A file with up to five other bytes, or with the other changes.
    private func sparse(_ data: [UInt8]) -> [UInt8] {
        if files.below(4) == 0 { return files.changed(data) }
        var out = data
        for _ in 0...files.below(5) { out[files.below(out.count)] = UInt8(files.below(256)) }
        return out
    }
}
