import Foundation
import XCTest

@testable import OmniDraft

/// Archives from a web server in this process. Its answers are of HTTP; only `install` asks for HTTPS.
final class DownloadTests: XCTestCase {
    private func inFolder(_ body: (String, [UInt8]) async throws -> Void) async throws {
        try await awaitInDirectory { try await body($0, try phoneArchive()) }
    }

    /// The fault of unpacking what a server sends; nil where there is none.
    private func fault(
        _ folder: String, _ data: [UInt8], bytes: Int? = nil, web: Web = Web(),
        _ answers: @escaping @Sendable (String) -> [UInt8]
    ) async throws -> (fault: String?, requests: [String]) {
        let server = try WebServer(answers)
        defer { server.close() }
        let source = try DownloadSource(server.address, bytes: bytes ?? data.count, sha256: hexOf(sha256(data)))
        do {
            _ = try await installAddress(source, into: joined(folder, "out"), web: web)
            return (nil, server.requests)
        } catch let error as OmniDraftError {
            return (error.fault, server.requests)
        }
    }

    func testADownloadGoesOnWhereItEndedAndIsAskedForOnce() async throws {
        try await inFolder { folder, data in
            let length = "Content-Length: \(data.count)"
            let cut = try await fault(folder, data) { _ in answer("200 OK", [length], data[..<70000]) }
            XCTAssertEqual(cut.fault, "unreadable")
            XCTAssertEqual(namesIn(folder).count, 1)
            let part = joined(folder, namesIn(folder)[0])
            let held = try stampOf(part).size
            XCTAssertEqual(try readFile(part, most: data.count), Array(data[..<held]))
            let rest = try await fault(folder, data) { _ in
                let range = "Content-Range: bytes \(held)-\(data.count - 1)/\(data.count)"
                return answer("206 Partial Content", ["Content-Length: \(data.count - held)", range], data[held...])
            }
            XCTAssertNil(rest.fault)
            XCTAssert(held == 0 || rest.requests[0].contains("bytes=\(held)-"), rest.requests[0])
            _ = try openBundle(joined(folder, "out"))
            XCTAssertEqual(namesIn(folder), [".out.unpacked", "out"])
            let again = try await fault(folder, data) { _ in [] }
            XCTAssertNil(again.fault)
            XCTAssertEqual(again.requests, [])  // the same call later needs no network
        }
    }

    func testAServerThatSendsAnotherFileIsRefused() async throws {
        try await inFolder { folder, data in
            let length = "Content-Length: \(data.count)"
            let others: [(String, [UInt8])] = [
                ("size", answer("200 OK", ["Content-Length: \(data.count + 1)"], data + [0])),
                ("size", answer("200 OK", [], data + [0])),
                ("checksum", answer("200 OK", [length], data.reversed())),
                ("unreadable", answer("404 Not Found", [length], data)),
                ("unreadable", answer("302 Found", ["Location: https://127.0.0.1:1/", "Content-Length: 0"], [])),
                ("size", answer("206 Partial Content", [length, "Content-Range: bytes 5-9/10"], data)),
            ]
            for (expected, sent) in others {
                let found = try await fault(folder, data) { _ in sent }
                XCTAssertEqual(found.fault, expected)
                XCTAssertFalse(exists(joined(folder, "out")))
            }
        }
    }

    func testASecondDownloadToTheSamePlaceIsRefused() async throws {
        try await inFolder { folder, data in
            let gate = DispatchSemaphore(value: 0)
            let server = try WebServer { _ in
                gate.wait()
                return answer("200 OK", ["Content-Length: \(data.count)"], data)
            }
            defer { server.close() }
            let source = try DownloadSource(server.address, bytes: data.count, sha256: hexOf(sha256(data)))
            let first = Task { try await installAddress(source, into: joined(folder, "out")) }
            while server.requests.isEmpty { try await Task.sleep(nanoseconds: 1_000_000) }
            let second = try await fault(folder, data) { _ in [] }
            gate.signal()
            XCTAssertEqual(second.fault, "in_use")
            XCTAssertEqual(second.requests, [])
            let out = try await first.value
            _ = try openBundle(out)
            XCTAssertEqual(namesIn(folder), [".out.unpacked", "out"])
        }
    }

    func testAPartStaysWhereItsPlaceIsRefusedAndNotWhereTheArchiveIs() async throws {
        try await inFolder { folder, data in
            let longer = data + [0]
            let refused = try await fault(folder, longer) { _ in answer("200 OK", [], longer) }
            XCTAssertEqual(refused.fault, "trailing_bytes")
            XCTAssertEqual(namesIn(folder), [])
            let out = joined(folder, "out")
            try put(joined(out, "note"), [1])
            let placed = try await fault(folder, data) { _ in answer("200 OK", [], data) }
            XCTAssertEqual(placed.fault, "unwritable")
            removeTree(out)
            let again = try await fault(folder, data) { _ in [] }
            XCTAssertNil(again.fault)
            XCTAssertEqual(again.requests, [])
        }
    }

    func testASourceThatIsNoneIsRefused() async throws {
        let digest = String(repeating: "0", count: 64)
        for (address, bytes, sha256) in [
            ("http://example.invalid/a", 1, digest), ("https://example.invalid/a", 0, digest),
            ("https://example.invalid/a", 1, "0"),
        ] {
            let url = try XCTUnwrap(URL(string: address))
            do {
                _ = try await install(.download(url, bytes: bytes, sha256: sha256), into: "/nowhere/out")
                XCTFail(address)
            } catch let error as OmniDraftError {
                guard case .setting = error else { return XCTFail("\(error)") }
            }
        }
    }
}

private func answer(_ status: String, _ fields: [String], _ body: some Sequence<UInt8>) -> [UInt8] {
    let lines = ["HTTP/1.1 \(status)", "Connection: close"] + fields + ["", ""]
    return Array(lines.joined(separator: "\r\n").utf8) + Array(body)
}
