import Foundation
import XCTest

@testable import OmniDraft

/// Changed manifests, archives and graphs: each is refused by a named fault, or read; nothing else is thrown, and
/// nothing crashes. The environment variable OMNIDRAFT_FUZZ sets the number of changed files of each kind.
final class BundleFuzzTests: XCTestCase {
    private let files = ChangedFiles(20_261_122)

    func testChangedManifestsAreRefusedByNameOrRead() throws {
        let faults: Set = [
            "unreadable", "seal", "field", "no_hash", "checksum", "not_a_bundle", "version", "outside", "size",
            "missing",
        ]
        try inBundle { place in
            let whole = try fullManifest()
            let fields = Array(whole.dropFirst(76))
            XCTAssertEqual(sealedManifest(fields), whole)
            try files.check([fields], faults, rare: ["missing"]) { fields in
                // With a right seal the change reaches the fields; without, only the seal is tested.
                let data = files.below(8) == 0 ? files.changed(whole) : sealedManifest(changedFields(fields))
                try put(joined(place, manifestName), data)
                _ = try openBundle(place)
            }
        }
    }

    func testChangedArchivesAreRefusedByNameOrRead() throws {
        let often: Set = [
            "not_an_archive", "truncated", "header", "outside", "alignment", "trailing_bytes", "checksum", "encrypted",
            "descriptor", "compressed", "directory",
        ]
        let seldom: Set = ["entries", "size", "index", "limits", "version", "unreadable", "duplicate", "zip64"]
        try inDirectory { place in
            let whole = try phoneArchive()
            let used = whole.indices.filter { whole[$0] != 0 }
            let file = joined(place, "archive.zip")
            try files.check([whole], often.union(seldom), rare: seldom, least: 0) { whole in
                try put(file, changedArchive(whole, used))
                try checkHashes(openArchive(file))
            }
        }
    }

    func testChangedGraphsAreRefusedByNameOrRead() throws {
        let graphs = try vectorsOf("bundle/graph").map { $0.input["graph"]!.hex }.filter { !$0.isEmpty }
        try files.check(graphs, ["outside", "graph"]) { graph in
            do {
                _ = try externalFiles(Bytes(files.changed(graph)))
            } catch let error as ValueError {
                throw bundleError(error.fault.isEmpty ? "outside" : error.fault, error.message)
            }
        }
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
        switch files.below(16) {
        case 0..<9: out.replaceSubrange(value(text), with: files.pick(Self.values))
        case 9: out.replaceSubrange(value(text), with: text[value(text)])
        case 10..<14:
            let places = text.indices.filter { text[$0] >= 0x30 && text[$0] <= 0x39 }
            let at = files.pick(places)
            out.replaceSubrange(at...at, with: files.pick(Self.digits))
        case 14:
            let places = text.indices.filter { isLetterOrDigit(text[$0]) }
            out[files.pick(places)] = UInt8(ascii: "x")
        default: out = files.changed(text)
        }
        return out
    }

    /// The place of a value that is no array and no object.
    private func value(_ text: [UInt8]) -> Range<Int> {
        let starts = text.indices.dropLast().filter {
            ":[,".utf8.contains(text[$0]) && !"[{".utf8.contains(text[$0 + 1])
        }
        let begin = files.pick(starts) + 1
        let ends = text[begin] == UInt8(ascii: "\"") ? "\"" : ",]}"
        let from = min(begin + 1, text.count)
        let end = text[from...].firstIndex { ends.utf8.contains($0) } ?? text.count - 1
        return begin..<(ends == "\"" ? end + 1 : end)
    }

    private func changedArchive(_ whole: [UInt8], _ used: [Int]) -> [UInt8] {
        let at = files.pick(used)
        var out = whole
        switch files.below(10) {
        case 0: out = Array(whole[..<at])
        case 1: out += [UInt8](repeating: 0, count: 1 + files.below(9))
        case 2: out.removeSubrange(at..<min(whole.count, at + 1 + files.below(64)))
        case 3: out.insert(contentsOf: [UInt8](repeating: 0, count: 1 + files.below(64)), at: at)
        case 4: out[files.below(30)] = UInt8(files.below(256))
        case 5: out[files.below(whole.count)] = UInt8(files.below(256))
        default: out[at] ^= 1 << UInt8(files.below(8))
        }
        return out
    }
}
