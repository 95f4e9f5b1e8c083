import Foundation
import XCTest

@testable import OmniDraftSample

final class ChoiceTests: XCTestCase {
    func testNamesOfDirectoriesAreSafe() {
        XCTAssertEqual(safeName("starter-a.zip"), "starter-a")
        XCTAssertEqual(safeName("../.."), "bundle")
        XCTAssertEqual(safeName("a/b\u{0}c\u{301}"), "abc")
        XCTAssertEqual(safeName(String(repeating: "x", count: 99)), String(repeating: "x", count: 40))
    }

    func testAnAddressIsOne() throws {
        let choice = try XCTUnwrap(Choice.download("https://example.org/b/my_bundle.zip", bytes: "12", sha256: "AB"))
        XCTAssertEqual(choice.name, "my_bundle")
        guard case .archive(.download(let url, bytes: 12, sha256: "ab")) = choice.place else {
            return XCTFail("\(choice.place)")
        }
        XCTAssertEqual(url.absoluteString, "https://example.org/b/my_bundle.zip")
        XCTAssertNil(Choice.download("", bytes: "12", sha256: "ab"))
        XCTAssertNil(Choice.download("a.zip", bytes: "12", sha256: "ab"))
    }

    func testTheAppBringsDirectoriesAndArchives() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("bundles-\(UUID().uuidString)")
        XCTAssertEqual(Choice.inApp(folder).count, 0)
        try FileManager.default.createDirectory(
            at: folder.appendingPathComponent("starter-a"), withIntermediateDirectories: true)
        defer { XCTAssertNoThrow(try FileManager.default.removeItem(at: folder)) }
        try Data().write(to: folder.appendingPathComponent("README.md"))
        XCTAssertEqual(Choice.inApp(folder).count, 0)
        try Data().write(to: folder.appendingPathComponent("starter-a/manifest.json"))
        try Data().write(to: folder.appendingPathComponent("starter-b.zip"))
        XCTAssertEqual(Choice.inApp(folder).map(\.name), ["starter-a", "starter-b"])
    }

    func testTheSpeedometerStartsWithTheFirstPiece() {
        var meter = Speedometer()
        XCTAssertNil(meter.take(tokens: 9, at: 5))
        XCTAssertNil(meter.take(tokens: 3, at: 5))
        XCTAssertEqual(meter.take(tokens: 5, at: 7), 4)
    }
}
