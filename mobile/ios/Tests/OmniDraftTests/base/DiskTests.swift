import Foundation
import XCTest

@testable import OmniDraft

final class DiskTests: FolderTestCase {

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

    func testAFileIsReplacedWholeAndKeepsItsMode() throws {
        let path = joined(place, "file")
        try writeAtomically(path, [1, 2, 3])
        XCTAssertEqual(try readFile(path, most: 10), [1, 2, 3])
        XCTAssertEqual(try writeAtomically(path, [4], keep: true).map { try readFile($0, most: 9) }, [1, 2, 3])
        XCTAssertEqual(namesIn(place), ["file", "file.refused"])
        XCTAssertThrowsError(try readFile(path, most: 0))
        XCTAssertThrowsError(try readFile(place, most: 10))
        XCTAssertEqual(try mapFile(path).array(), [4])
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        XCTAssertEqual(mode, 0o600)
    }

    func testADirectoryHasOneUser() throws {
        let claimed = joined(place, "claimed")
        let claim = try Claim(claimed)
        XCTAssertThrowsError(try Claim(claimed)) { XCTAssertEqual(($0 as? ClaimError)?.refusal.fault, "in_use") }
        claim.close()
        try Claim(claimed).close()
        XCTAssertThrowsError(try Claim(joined(place, "no/place"))) {
            XCTAssertEqual(reason($0), "there is no directory \(joined(place, "no")): make it first")
        }
    }

    func testAPipeIsRefused() throws {
        let path = joined(place, "pipe")
        XCTAssertEqual(mkfifo(path, 0o600), 0)
        XCTAssertThrowsError(try readFile(path, most: 10)) { XCTAssertEqual(reason($0), "it is not a regular file") }
    }
}
