import Foundation
import XCTest

@testable import OmniDraft

/// Files of a web server in this process that is hostile, slow or gone. Its answers are of HTTP; only `ReleaseServer`
/// asks for HTTPS.
final class WebFilesTests: XCTestCase {
    private let quick = Web(seconds: 2)

    /// What is read of a server's answer, or how it is refused.
    private func read(
        most: Int = 100, pause: UInt32 = 0, _ answers: @escaping @Sendable (String) -> [UInt8]
    ) async throws -> String {
        let server = try WebServer(pause: pause, answers)
        defer { server.close() }
        return try await read(server, most: most)
    }

    private func read(_ server: WebServer, most: Int = 100) async throws -> String {
        let address = server.address.deletingLastPathComponent().appendingPathComponent("store/")
        do {
            guard let data = try await readOnServer(address, "a/b", most: most, quick) else { return "absent" }
            return String(decoding: data, as: UTF8.self)
        } catch is FileError {
            return "unreachable"
        } catch let error as OmniDraftError {
            return error.fault
        }
    }

    func testAFileIsRead() async throws {
        let server = try WebServer { _ in answer("200 OK", ["Content-Length: 5"], "hello") }
        defer { server.close() }
        let found = try await read(server)
        XCTAssertEqual(found, "hello")
        XCTAssert(server.requests[0].hasPrefix("GET /store/a/b HTTP/1.1\r\n"), server.requests[0])
        let most = try await read(server, most: 5)
        XCTAssertEqual(most, "hello")
        let empty = try await read { _ in answer("200 OK", ["Content-Length: 0"], "") }
        XCTAssertEqual(empty, "")
    }

    func testWhatIsNotThereIsAbsent() async throws {
        for status in ["404 Not Found", "410 Gone"] {
            let found = try await read { _ in answer(status, ["Content-Length: 2"], "no") }
            XCTAssertEqual(found, "absent")
        }
    }

    func testNoByteBeyondTheBoundIsTaken() async throws {
        let long = String(repeating: "x", count: 1 << 22)
        let told = try await read { _ in answer("200 OK", ["Content-Length: \(1 << 22)"], long) }
        XCTAssertEqual(told, "too_large")
        let untold = try await read { _ in answer("200 OK", [], long) }
        XCTAssertEqual(untold, "too_large")
        let chunk = "400000\r\n\(long)\r\n0\r\n\r\n"
        let chunked = try await read { _ in answer("200 OK", ["Transfer-Encoding: chunked"], chunk) }
        XCTAssertEqual(chunked, "too_large")
        let byOne = try await read(most: 4) { _ in answer("200 OK", [], "hello") }
        XCTAssertEqual(byOne, "too_large")
    }

    func testNonsenseIsRefused() async throws {
        let answers: [[UInt8]] = [
            answer("500 \u{1b}[31mNo", ["Content-Length: 0"], ""), answer("206 Partial Content", [], "hello"),
            answer("302 Found", ["Location: /again", "Content-Length: 0"], ""),
            answer("302 Found", ["Location: file:///etc/passwd", "Content-Length: 0"], ""),
            answer("302 Found", ["Location: https://127.0.0.1:1/", "Content-Length: 0"], ""),
            answer("200 OK", ["Content-Length: 9"], "hello"), Array("\u{0}\u{1}".utf8), [],
        ]
        for sent in answers {
            let found = try await read { _ in sent }
            XCTAssertEqual(found, "unreachable", String(decoding: sent.prefix(40), as: UTF8.self))
        }
    }

    func testASlowServerIsGivenUp() async throws {
        let body = String(repeating: "x", count: 1 << 16)
        let slow = try await read(most: 1 << 20, pause: 20_000) { _ in
            answer("200 OK", ["Content-Length: \(1 << 16)"], body)
        }
        XCTAssertEqual(slow, "unreachable")
        let sleeps: @Sendable (Int32, (String) -> [UInt8]) -> Void = { _, _ in Thread.sleep(forTimeInterval: 8) }
        let server = try WebServer(serving: sleeps) { _ in [] }
        defer { server.close() }
        let silent = try await read(server)
        XCTAssertEqual(silent, "unreachable")
    }

    func testAServerThatIsGoneIsUnreachable() async throws {
        let server = try WebServer { _ in [] }
        server.close()
        let found = try await read(server)
        XCTAssertEqual(found, "unreachable")
    }

    func testAReadIsCancelled() async throws {
        let isAsked = expectation(description: "the server is asked")
        let waits: @Sendable (Int32, (String) -> [UInt8]) -> Void = { _, _ in
            isAsked.fulfill()
            Thread.sleep(forTimeInterval: 30)
        }
        let server = try WebServer(serving: waits) { _ in [] }
        defer { server.close() }
        let address = server.address
        let task = Task { try await readOnServer(address, "a", most: 1, Web(seconds: 3600)) }
        await fulfillment(of: [isAsked], timeout: 60)
        task.cancel()
        let unasked = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await readOnServer(address, "a", most: 1, Web(seconds: 3600))
        }
        for task in [task, unasked] {
            do {
                _ = try await task.value
                XCTFail("it was read")
            } catch {
                XCTAssert(error is CancellationError, "\(error)")
            }
        }
    }

    func testOnlyHttpsIsAServerOfReleases() throws {
        for address in ["http://127.0.0.1/", "file:///store", "store"] {
            let url = try XCTUnwrap(URL(string: address))
            XCTAssertThrowsError(try ReleaseServer(url)) { error in
                guard case OmniDraftError.setting? = error as? OmniDraftError else { return XCTFail("\(error)") }
            }
        }
        let url = try XCTUnwrap(URL(string: "https://example.invalid/store/"))
        XCTAssertEqual(try ReleaseServer(url).address, url)
    }

    func testAStoreIsPulledFromAServer() throws {
        try SyncWorld.run { world in
            try world.publish(1)
            let server = try WebServer(filesOf(world.folder))
            defer { server.close() }
            let address = server.address.deletingLastPathComponent()
            let source = GivenSource { path, most in
                try await readOnServer(address.appendingPathComponent("store"), path, most: most, Web(seconds: 5))
            }
            let other = GivenSource { path, most in
                try await readOnServer(address.appendingPathComponent("other"), path, most: most, Web(seconds: 5))
            }
            XCTAssertEqual(try world.fault(other), "missing")
            XCTAssertEqual(try world.pull(source).outcome, .switched)
            XCTAssertEqual(try world.inUse(), try world.adapter(1).digest)
            XCTAssertEqual(server.requests.count, 4)  // one that is missing, and the files of the release
        }
    }

    #if canImport(COpenSSL)
        /// Foundation on Linux takes the certificates of the system alone, so that a server of a test is never trusted.
        func testAServerThatNobodyTrustsIsUnreachable() throws {
            try SyncWorld.run { world in
                try world.publish(1)
                let tls = try TlsKey(world.place)
                let server = try WebServer(serving: tls.serve, filesOf(world.folder))
                defer { server.close() }
                let address = try XCTUnwrap(URL(string: "https://127.0.0.1:\(server.address.port ?? 0)/store/"))
                XCTAssertEqual(try world.fault(ReleaseServer(address, Web(seconds: 5))), "unreachable")
                XCTAssertEqual(server.requests, [])
            }
        }
    #endif
}

/// Answers requests below `/store/` with the files of a folder.
private func filesOf(_ folder: String) -> @Sendable (String) -> [UInt8] {
    { header in
        let path = String(header.split(separator: " ")[1])
        guard path.hasPrefix("/store/"),
            let data = try? readFile(joined(folder, String(path.dropFirst("/store/".count))), most: 1 << 20)
        else { return answer("404 Not Found", ["Content-Length: 0"], "") }
        return answer("200 OK", ["Content-Length: \(data.count)"], "") + data
    }
}

private func answer(_ status: String, _ fields: [String], _ body: String) -> [UInt8] {
    let lines = ["HTTP/1.1 \(status)", "Connection: close"] + fields + ["", ""]
    return Array((lines.joined(separator: "\r\n") + body).utf8)
}
