import Foundation
import XCTest

@testable import OmniDraft

/// Changed manifests, archives and graphs: each is refused by a named fault, or read; nothing else is thrown, and
/// nothing crashes. The environment variable OMNIDRAFT_FUZZ sets the number of changed files of each kind.
final class BundleFuzzTests: XCTestCase {
    private let random = SplitMix64(20_261_122)
    private let files = ProcessInfo.processInfo.environment["OMNIDRAFT_FUZZ"].flatMap { Int($0) } ?? 1_000

    private func below(_ count: Int) -> Int { Int(random.uniform() * Double(count)) }

    /// Counts the fault of `body`; any other error fails the test.
    private func count(_ faults: inout [String: Int], _ body: () throws -> Void) {
        do {
            let fault = try faultOf(body) ?? "read"
            XCTAssertFalse(fault.isEmpty, "a refusal without a name")
            faults[fault, default: 0] += 1
        } catch {
            XCTFail("not a named refusal: \(error)")
        }
    }

    func testChangedManifestsAreRefusedByNameOrRead() throws {
        var faults: [String: Int] = [:]
        try inDirectory { place in
            try writeListedFiles(place)
            let whole = try fullManifest()
            let fields = Array(whole.dropFirst(76))
            XCTAssertEqual(sealedManifest(fields), whole)
            for _ in 0..<files {
                // With a right seal the change reaches the fields; without, only the seal is tested.
                let data = below(8) == 0 ? changed(whole) : sealedManifest(changedFields(fields))
                try put(joined(place, manifestName), data)
                count(&faults) { _ = try openBundle(place) }
            }
        }
        let names = ["unreadable", "seal", "field", "no_hash", "checksum", "read"]
        for name in names { XCTAssertNotNil(faults[name], "\(name) never came up: \(faults)") }
        let others = ["not_a_bundle", "version", "outside", "size", "missing"]
        XCTAssertEqual(Set(faults.keys).subtracting(names + others), [], "faults that the chapter does not name")
    }

    func testChangedArchivesAreRefusedByNameOrRead() throws {
        var faults: [String: Int] = [:]
        try inDirectory { place in
            let whole = try phoneArchive()
            let used = whole.indices.filter { whole[$0] != 0 }
            let file = joined(place, "archive.zip")
            for _ in 0..<files {
                try put(file, changedArchive(whole, used))
                count(&faults) { try checkHashes(openArchive(file)) }
            }
        }
        for name in ["not_an_archive", "truncated", "header", "outside", "alignment", "trailing_bytes", "checksum"] {
            XCTAssertNotNil(faults[name], "\(name) never came up: \(faults)")
        }
    }

    func testChangedGraphsAreRefusedByNameOrRead() throws {
        let graphs = try vectorsOf("bundle/graph").map { $0.input["graph"]!.hex }.filter { !$0.isEmpty }
        var faults: Set<String> = []
        for _ in 0..<files {
            do {
                _ = try externalFiles(Bytes(changed(graphs[below(graphs.count)])))
                faults.insert("read")
            } catch let error as ValueError {
                faults.insert(error.fault.isEmpty ? "outside" : error.fault)
            }
        }
        XCTAssertEqual(faults, ["outside", "graph", "read"])
    }

    func testManifestsAsLargeAsTheyMayBeAreRefusedByName() throws {
        try inDirectory { place in
            for filler in ["1e9,", "\"\",", "[],", "[[[]]],", "\"\\u0041\","] {
                let count = (1 << 18) / filler.utf8.count  // a sixteenth of the bound, because tests run unoptimised
                let text = "[" + String(repeating: filler, count: count) + "0]"
                try put(joined(place, manifestName), Array(text.utf8))
                XCTAssertEqual(try faultOf { _ = try openBundle(place) }, "not_a_bundle", filler)
            }
            try put(joined(place, manifestName), [UInt8](repeating: 0x20, count: BundleLimits.maxManifestBytes + 1))
            XCTAssertEqual(try faultOf { _ = try openBundle(place) }, "unreadable")
        }
    }

    private static let values = [
        "null", "true", "-1", "0", "1", "2147483648", "9007199254740993", "1e400", "0.5", "\"\"", "\"a\"", "\"../a\"",
        "[]", "{}", "[1,2]", "{\"a\":1}", "[[]]", "\"\\ud800\"", "\"\\u0000\"", "\u{1}", "NaN", "\"omnidraft.bundle\"",
        String(repeating: "[", count: 40), "\"1\"", "3", "9223372036854775807", "-9223372036854775808",
    ].map { Array($0.utf8) }

    private static let digits = ["0", "1", "9", "-1", "99999999999", "1e9", "0.5", "f"].map { Array($0.utf8) }

    /// A text of JSON with a value, a digit or any byte changed; most of them are JSON still.
    private func changedFields(_ text: [UInt8]) -> [UInt8] {
        var out = text
        switch below(16) {
        case 0..<9: out.replaceSubrange(value(text), with: Self.values[below(Self.values.count)])
        case 9: out.replaceSubrange(value(text), with: text[value(text)])
        case 10..<14:
            let places = text.indices.filter { text[$0] >= 0x30 && text[$0] <= 0x39 }
            let at = places[below(places.count)]
            out.replaceSubrange(at...at, with: Self.digits[below(Self.digits.count)])
        case 14:
            let places = text.indices.filter { isLetterOrDigit(text[$0]) }
            out[places[below(places.count)]] = UInt8(ascii: "x")
        default: out = changed(text)
        }
        return out
    }

    /// The place of a value that is no array and no object.
    private func value(_ text: [UInt8]) -> Range<Int> {
        let starts = text.indices.dropLast().filter {
            ":[,".utf8.contains(text[$0]) && !"[{".utf8.contains(text[$0 + 1])
        }
        let begin = starts[below(starts.count)] + 1
        let ends = text[begin] == UInt8(ascii: "\"") ? "\"" : ",]}"
        let from = min(begin + 1, text.count)
        let end = text[from...].firstIndex { ends.utf8.contains($0) } ?? text.count - 1
        return begin..<(ends == "\"" ? end + 1 : end)
    }

    private func changed(_ data: [UInt8]) -> [UInt8] {
        let at = below(data.count)
        var out = data
        switch below(4) {
        case 0: out = Array(data[..<at])
        case 1: out.insert(contentsOf: (0...below(8)).map { _ in UInt8(below(256)) }, at: at)
        default: out[at] = UInt8(below(256))
        }
        return out
    }

    private func changedArchive(_ whole: [UInt8], _ used: [Int]) -> [UInt8] {
        let at = used[below(used.count)]
        var out = whole
        switch below(10) {
        case 0: out = Array(whole[..<at])
        case 1: out += [UInt8](repeating: 0, count: 1 + below(9))
        case 2: out.removeSubrange(at..<min(whole.count, at + 1 + below(64)))
        case 3: out.insert(contentsOf: [UInt8](repeating: 0, count: 1 + below(64)), at: at)
        case 4: out[below(30)] = UInt8(below(256))
        case 5: out[below(whole.count)] = UInt8(below(256))
        default: out[at] ^= 1 << UInt8(below(8))
        }
        return out
    }
}
