import Foundation
import XCTest

@testable import OmniDraft

/// A new directory, with no link in its path.
func newDirectory() throws -> String {
    let place = try realPath(NSTemporaryDirectory()) + "/omnidraft-\(randomHex(8))"
    try makeDirectories(place)
    return place
}

/// Runs `body` with a directory that is removed at the end.
func inDirectory<T>(_ body: (String) throws -> T) throws -> T {
    let place = try newDirectory()
    defer { removeTree(place) }
    return try body(place)
}

/// The same for a body that waits.
func awaitInDirectory<T>(_ body: (String) async throws -> T) async throws -> T {
    let place = try newDirectory()
    defer { removeTree(place) }
    return try await body(place)
}

/// Tests that have a directory, which is removed behind each of them.
class FolderTestCase: XCTestCase {
    private(set) var place = ""

    override func setUpWithError() throws { place = try newDirectory() }

    override func tearDown() { removeTree(place) }
}

/// The message with which a setting is refused; the test fails where it is not.
@discardableResult
func settingRefusal(line: UInt = #line, file: StaticString = #filePath, _ body: () throws -> Void) -> String {
    do {
        try body()
        XCTFail("it was not refused", file: file, line: line)
    } catch OmniDraftError.setting(let refusal) {
        return refusal.message
    } catch {
        XCTFail("\(error)", file: file, line: line)
    }
    return ""
}
