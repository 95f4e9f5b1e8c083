import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// Read files from a web server, each with a bound of bytes; ``WebRead`` bounds the time and the speed.

/// Answers that say that there is no such file.
private let absent = [404, 410]

/// The bytes of a file below an address; nil where the server has none.
///
/// - Parameters:
///   - address: where the layout of a store begins.
///   - name: of the file.
///   - most: bytes at most.
///   - web: how the address is read.
/// - Throws: ``FileError``: the server cannot be reached, answers with an error, or is too slow;
///   ``OmniDraftError/sync(_:)`` `too_large`.
func readOnServer(_ address: URL, _ name: String, most: Int, _ web: Web = Web()) async throws -> [UInt8]? {
    var begin = address.absoluteString
    while begin.hasSuffix("/") { begin.removeLast() }
    guard let url = URL(string: "\(begin)/\(name)") else { throw FileError("it is no address of a web server") }
    let answer = StoredAnswer(name, most: most)
    do {
        try await WebRead(url, web, answer).run()
    } catch is AbsentFile {
        return nil
    }
    return answer.data
}

private struct AbsentFile: Error {}

/// Collects the bytes of a file. It is used by one transfer, one call after another.
private final class StoredAnswer: WebAnswer {
    private let name: String
    private let most: Int
    private(set) var data: [UInt8] = []

    init(_ name: String, most: Int) {
        self.name = name
        self.most = most
    }

    func begin(_ answer: HTTPURLResponse) throws {
        if absent.contains(answer.statusCode) { throw AbsentFile() }
        if answer.statusCode != 200 { throw FileError("the server answers \(answer.statusCode)") }
        if answer.expectedContentLength > Int64(most) { throw tooLarge(name, most) }
    }

    func add(_ data: Data) throws {
        if data.count > most - self.data.count { throw tooLarge(name, most) }
        self.data += data
    }
}
