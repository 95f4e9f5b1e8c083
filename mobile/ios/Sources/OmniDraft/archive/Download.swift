import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif
#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Download an archive by HTTPS. A server may be hostile or slow: not a byte more than the archive has is taken, a slow
// transfer is given up, and the whole file is hashed at the end. What was read stays in a file beside the place of the
// bundle, and the next download goes on behind it.

private let leastBytes = 1024.0  // a second
private let again = "try again: the download goes on where it ended"

/// How an address is read.
struct Web: Sendable {
    /// Over which a transfer must bring 1,024 bytes a second; the header of an answer may take twice as long.
    var seconds = 10.0
}

/// Download an archive beside the place where it will be unpacked.
///
/// - Parameters:
///   - source: the address, the size and the hash.
///   - into: the directory of the bundle.
///   - web: how the address is read.
///   - progress: called after each piece.
/// - Returns: the file, whose size and hash are those of `source`; the caller deletes it.
/// - Throws: ``OmniDraftError/archive(_:)`` `unreadable` where the transfer fails, `size` and `checksum` where the
///   server sends another file, `space` and `unwritable`.
func download(
    _ source: DownloadSource, into: String, web: Web, progress: @escaping @Sendable (Int, Int) throws -> Void
) async throws -> String {
    let (folder, name) = split(into)
    let part = joined(folder, ".\(name).\(source.sha256.prefix(16)).part")
    try writing(into) {
        try makeDirectories(folder)
        removeOthers(part, name)
        if sizeOf(part) > source.bytes { removeTree(part) }
        try checkSpace(folder, needed: source.bytes - sizeOf(part), what: source.address.absoluteString)
    }
    if sizeOf(part) < source.bytes {
        let transfer = Transfer(source, part, web, progress)
        try await transfer.run()
    }
    if sizeOf(part) < source.bytes {
        throw unreadable(source, "the connection ended at byte \(sizeOf(part)) of \(source.bytes)")
    }
    let isRight = try writing(part) { try isSame(fileSha256(part), source.sha256) }
    if isRight { return part }
    throw discarded(part, "checksum", "\(source.address.absoluteString) has another SHA-256 than the app expects")
}

/// Bytes of a file; 0 where there is none.
private func sizeOf(_ path: String) -> Int { (try? stampOf(path).size) ?? 0 }

/// Remove what is left of downloads of other archives to the same place.
private func removeOthers(_ part: String, _ name: String) {
    let (folder, own) = split(part)
    for file in namesIn(folder) where file.utf8.count == own.utf8.count && !isSame(file, own) {
        if begins(file, with: ".\(name).") && file.hasSuffix(".part") { unlink(joined(folder, file)) }
    }
}

private func discarded(_ part: String, _ fault: String, _ message: String) -> OmniDraftError {
    unlink(part)
    return archiveError(fault, message, "ask the app's publisher, or give the size and hash of the new file")
}

private func unreadable(_ source: DownloadSource, _ why: String) -> OmniDraftError {
    archiveError("unreadable", "\(source.address.absoluteString) cannot be read (\(why))", again)
}

/// One request. Its state is used on the session's serial queue only, but for what the lock holds.
private final class Transfer: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private let source: DownloadSource
    private let part: String
    private let web: Web
    private let progress: @Sendable (Int, Int) throws -> Void
    private let queue = OperationQueue()
    private let running = Guarded<URLSessionTask?>(nil)
    private var continuation: CheckedContinuation<Void, any Error>?
    private var refusal: (any Error)?  // why the transfer was cancelled here
    private var file: Int32 = -1
    private var done = 0
    private var hasAnswer = false
    private var began = Date()
    private var counted = 0

    init(
        _ source: DownloadSource, _ part: String, _ web: Web, _ progress: @escaping @Sendable (Int, Int) throws -> Void
    ) {
        self.source = source
        self.part = part
        self.web = web
        self.progress = progress
        queue.maxConcurrentOperationCount = 1
    }

    func run() async throws {
        let begin = sizeOf(part)
        var request = URLRequest(url: source.address, cachePolicy: .reloadIgnoringLocalCacheData)
        request.setValue("omnidraft", forHTTPHeaderField: "User-Agent")
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        if begin > 0 { request.setValue("bytes=\(begin)-", forHTTPHeaderField: "Range") }
        let settings = URLSessionConfiguration.ephemeral
        settings.timeoutIntervalForRequest = web.seconds
        let session = URLSession(configuration: settings, delegate: self, delegateQueue: queue)
        let task = session.dataTask(with: request)
        running.with { $0 = task }
        defer { session.finishTasksAndInvalidate() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.addOperation {
                    self.continuation = continuation
                    self.done = begin
                    task.resume()
                }
                waitForAnswer()
            }
        } onCancel: {
            running.with { $0?.cancel() }
        }
    }

    /// A header that comes byte by byte has no bound of its own, so it is waited for here.
    private func waitForAnswer() {
        let late = "its answer did not begin within \(Int(2 * web.seconds)) s"
        DispatchQueue.global().asyncAfter(deadline: .now() + 2 * web.seconds) { [weak self] in
            self?.queue.addOperation { [weak self] in
                guard let self, !self.hasAnswer, self.continuation != nil else { return }
                self.stop(unreadable(self.source, late))
            }
        }
    }

    private func stop(_ error: any Error) {
        if refusal == nil { refusal = error }
        running.with { $0?.cancel() }
    }

    /// An address of HTTPS leads to no other kind.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(request.url?.scheme == source.address.scheme ? request : nil)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        hasAnswer = true
        began = Date()
        do {
            let begin = try answered(response)
            done = begin
            file = open(part, O_WRONLY | O_CREAT | O_CLOEXEC | (begin > 0 ? O_APPEND : O_TRUNC), 0o600)
            if file < 0 { throw unwritable(part, systemError(errno).message) }
            completionHandler(.allow)
        } catch {
            refusal = error
            completionHandler(.cancel)
        }
    }

    /// The byte at which the answer begins: that which was asked for, or 0 of a server that always sends all.
    private func answered(_ response: URLResponse) throws -> Int {
        guard let response = response as? HTTPURLResponse else { throw unreadable(source, "no web server has it") }
        let length = response.expectedContentLength
        if response.statusCode == 200 {
            if length >= 0 && length != Int64(source.bytes) { throw otherSize("\(length) bytes") }
            return 0
        }
        if response.statusCode != 206 { throw unreadable(source, "the server answers \(response.statusCode)") }
        let rest = "bytes \(done)-\(source.bytes - 1)/"
        let range = response.value(forHTTPHeaderField: "Content-Range")
        if done > 0 && (range == "\(rest)\(source.bytes)" || range == "\(rest)*") { return done }
        throw otherSize("another number of bytes")
    }

    private func otherSize(_ found: String) -> OmniDraftError {
        discarded(part, "size", "\(source.address.absoluteString) has \(found) and not \(source.bytes)")
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        if refusal != nil { return }
        do {
            if data.count > source.bytes - done { throw otherSize("another number of bytes") }
            try writing(part) { try writeAll(file, [UInt8](data)) }
            done += data.count
            try progress(done, source.bytes)
            try checkPace(data.count)
        } catch {
            stop(error)
        }
    }

    /// Gives up a transfer that is too slow.
    private func checkPace(_ count: Int) throws {
        counted += count
        let passed = Date().timeIntervalSince(began)
        if passed < web.seconds { return }
        if Double(counted) < leastBytes * passed {
            throw unreadable(source, "it brings less than \(Int(leastBytes)) bytes a second")
        }
        began = Date()
        counted = 0
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        if file >= 0 {
            if fsync(file) != 0 && refusal == nil { refusal = unwritable(part, systemError(errno).message) }
            close(file)
            file = -1
        }
        let failure = refusal ?? error.map { unreadable(source, reason($0)) }
        if let failure { continuation?.resume(throwing: failure) } else { continuation?.resume() }
        continuation = nil
    }
}
