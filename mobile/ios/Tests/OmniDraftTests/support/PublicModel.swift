import Foundation
import OmniDraft
import OmniDraftORT
import XCTest

/// The starter bundle "a" as an app opens it, once for all tests.
enum PublicModel {
    private static let opened = Task { () -> LanguageModel in
        try await OmniDraft.open(url(StarterBundles.directory("a")), options: LoadOptions(state: state))
    }

    /// What this run remembers of bundles.
    static let state = URL(fileURLWithPath: NSTemporaryDirectory()).appendingPathComponent("omnidraft-api-state")

    static func shared() async throws -> LanguageModel { try await opened.value }

    static func url(_ path: String) -> URL { URL(fileURLWithPath: path, isDirectory: true) }
}

/// A place for a file of a test, which deletes it.
func scratch(_ ending: String) -> URL {
    URL(fileURLWithPath: NSTemporaryDirectory()).appendingPathComponent("omnidraft-\(UUID().uuidString).\(ending)")
}

extension XCTestCase {
    /// A call throws an error of a family, the name of its case, and with a fault where one is given.
    func refuses(
        _ family: String, fault: String? = nil, file: StaticString = #filePath, line: UInt = #line,
        _ call: () async throws -> Void
    ) async {
        do {
            try await call()
            XCTFail("it was not refused", file: file, line: line)
        } catch let error as OmniDraftError {
            XCTAssertEqual(Mirror(reflecting: error).children.first?.label, family, "\(error)", file: file, line: line)
            if let fault { XCTAssertEqual(error.fault, fault, "\(error)", file: file, line: line) }
        } catch {
            XCTFail("\(error)", file: file, line: line)
        }
    }

    /// A stream throws such an error before its first piece.
    func refuses(
        _ family: String, _ stream: AsyncThrowingStream<Piece, any Error>, file: StaticString = #filePath,
        line: UInt = #line
    ) async throws {
        await refuses(family, file: file, line: line) {
            for try await piece in stream { XCTFail("a piece of a refused text: \(piece)", file: file, line: line) }
        }
    }
}

extension AsyncThrowingStream where Element == Piece, Failure == any Error {
    /// The ids of all pieces; `each` is called behind each of them.
    func ids(_ each: @Sendable () -> Void = {}) async throws -> [Int32] {
        var ids: [Int32] = []
        for try await piece in self {
            ids += piece.tokenIds
            each()
        }
        return ids
    }
}
