import Foundation
import XCTest

@testable import OmniDraft

final class DiskTests: XCTestCase {
    private var directory = ""

    override func setUpWithError() throws {
        directory = NSTemporaryDirectory() + "omnidraft-\(randomHex(8))"
        try makeDirectories(directory)
    }

    override func tearDown() { removeTree(directory) }

    func testDigestsAreThoseOfTheStandards() throws {
        XCTAssertEqual(
            hexOf(sha256(Array("abc".utf8))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        XCTAssertEqual(hexOf(sha256([UInt8]())), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        let million = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        XCTAssertEqual(
            hexOf(sha256(million)), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
        var parts = Sha256()
        for start in stride(from: 0, to: million.count, by: 77) {
            Array(million[start..<min(start + 77, million.count)]).withUnsafeBytes { parts.update($0) }
        }
        XCTAssertEqual(parts.finish(), sha256(million))
        XCTAssertEqual(crc32(Array("123456789".utf8)), 0xcbf4_3926)
    }

    func testJsonIsReadStrictly() throws {
        for bad in [
            "", "{", "[1,]", "{\"a\":1,\"a\":2}", "01", "1.", "NaN", "\"\\ud800\"", "\"\\ud800x\"", "\"\u{1}\"", "1 2",
            "tru",
            "1e999", "[" + String(repeating: "[", count: 40), String(repeating: "1", count: 33), "\"\\udc00\\ud800\"",
        ] {
            XCTAssertThrowsError(try parseJson(Array(bad.utf8)), bad) { XCTAssert($0 is ValueError) }
        }
        XCTAssertThrowsError(try parseJson([0x22, 0xff, 0x22]))
        let value = try parseJson(
            Array(" {\"a\" : [1, -2.5e1, true, null, \"\\ud83d\\ude00\\n\"], \"b\": 18446744073709551615}".utf8))
        XCTAssertEqual(value.object["a"], .array([.integer(1), .double(-25), .bool(true), .null, .string("😀\n")]))
        XCTAssertEqual(value.object["b"], .large("18446744073709551615"))
    }

    func testNamesThatAreCanonicallyEquivalentAreTwoNames() throws {
        let value = try parseJson(Array("{\"e\\u0301\":1,\"\\u00e9\":2}".utf8))
        XCTAssertEqual(value.object.count, 2)
    }

    func testAFileIsReplacedWholeAndKeepsItsMode() throws {
        let path = joined(directory, "file")
        try writeAtomically(path, [1, 2, 3])
        XCTAssertEqual(try readFile(path, most: 10), [1, 2, 3])
        XCTAssertEqual(try writeAtomically(path, [4], keep: true).map { try readFile($0, most: 9) }, [1, 2, 3])
        XCTAssertEqual(namesIn(directory), ["file", "file.refused"])
        XCTAssertThrowsError(try readFile(path, most: 0))
        XCTAssertThrowsError(try readFile(directory, most: 10))
        XCTAssertEqual(try mapFile(path).array(), [4])
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        XCTAssertEqual(mode, 0o600)
    }

    func testADirectoryHasOneUser() throws {
        let place = joined(directory, "claimed")
        let claim = try Claim(place)
        XCTAssertThrowsError(try Claim(place)) { XCTAssertEqual(($0 as? ClaimError)?.refusal.fault, "in_use") }
        claim.close()
        try Claim(place).close()
        XCTAssertThrowsError(try Claim(joined(directory, "no/place"))) {
            XCTAssertEqual(reason($0), "there is no directory \(joined(directory, "no")): make it first")
        }
    }

    func testAPipeIsRefused() throws {
        let path = joined(directory, "pipe")
        XCTAssertEqual(mkfifo(path, 0o600), 0)
        XCTAssertThrowsError(try readFile(path, most: 10)) { XCTAssertEqual(reason($0), "it is not a regular file") }
    }
}
