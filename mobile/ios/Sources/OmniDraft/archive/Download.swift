import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// Download an archive by HTTPS. A server may be hostile or slow: not a byte more than the archive has is taken, a slow
// transfer is given up, and the whole file is hashed at the end. What was read stays in a file beside the place of the
// bundle, and the next download goes on behind it.

private let again = "try again: the download goes on where it ended"

/// Claim the file beside a place that a download is read into: two calls would write over each other.
///
/// - Throws: ``OmniDraftError/archive(_:)`` `in_use`, `unwritable` or `space`.
func claimPart(_ source: DownloadSource, into: String) throws -> (part: String, claim: Claim) {
    let (folder, name) = split(into)
    let part = joined(folder, ".\(name).\(source.sha256.prefix(16)).part")
    return try writing(into) {
        try makeDirectories(folder)
        do {
            return (part, try Claim(file: part))
        } catch is ClaimError {
            throw archiveError("in_use", "another call downloads to \(into)", "wait until it has ended")
        }
    }
}

/// Download an archive into its part, which the caller has claimed; then its size and hash are those of `source`.
///
/// - Throws: ``OmniDraftError/archive(_:)`` `unreadable`.
func download(
    _ source: DownloadSource, _ part: String, into: String, web: Web,
    progress: @escaping @Sendable (Int, Int) throws -> Void
) async throws {
    let (folder, name) = split(into)
    try writing(into) {
        removeOthers(part, name)
        if sizeOf(part) > source.bytes { truncate(part, 0) }
        try checkSpace(folder, needed: source.bytes - sizeOf(part), what: source.address.absoluteString)
    }
    if sizeOf(part) < source.bytes {
        try await transfer(source, part, web, progress)
    }
    if sizeOf(part) < source.bytes {
        throw unreadable(source, "the connection ended at byte \(sizeOf(part)) of \(source.bytes)")
    }
    // Seconds for a large archive: not on a thread of Swift's own.
    let isRight = try await Worker("hash").run { try writing(part) { try isSame(fileSha256(part), source.sha256) } }
    if !isRight {
        throw discarded(part, "checksum", "\(source.address.absoluteString) has another SHA-256 than the app expects")
    }
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

/// Reads what a part lacks.
private func transfer(
    _ source: DownloadSource, _ part: String, _ web: Web, _ progress: @escaping @Sendable (Int, Int) throws -> Void
) async throws {
    let begin = sizeOf(part)
    let answer = PartAnswer(source, part, begin, progress)
    do {
        try await WebRead(source.address, web, answer).run(from: begin)
    } catch let error as FileError {
        try answer.close()
        throw unreadable(source, error.message)
    } catch {
        try answer.close()
        throw error
    }
    try answer.close()
}

/// Writes what a server answers behind a part. It is used by one transfer, one call after another.
private final class PartAnswer: WebAnswer {
    private let source: DownloadSource
    private let part: String
    private let progress: @Sendable (Int, Int) throws -> Void
    private var file: Int32 = -1
    private var done: Int

    init(
        _ source: DownloadSource, _ part: String, _ begin: Int,
        _ progress: @escaping @Sendable (Int, Int) throws -> Void
    ) {
        self.source = source
        self.part = part
        self.progress = progress
        done = begin
    }

    func begin(_ answer: HTTPURLResponse) throws {
        done = try beginOf(answer)
        file = open(part, O_WRONLY | O_CREAT | O_CLOEXEC | (done > 0 ? O_APPEND : O_TRUNC), 0o600)
        if file < 0 { throw unwritable(part, systemError(errno).message) }
    }

    /// The byte at which the answer begins: that which was asked for, or 0 of a server that always sends all.
    private func beginOf(_ answer: HTTPURLResponse) throws -> Int {
        let length = answer.expectedContentLength
        if answer.statusCode == 200 {
            if length >= 0 && length != Int64(source.bytes) { throw otherSize("\(length) bytes") }
            return 0
        }
        if answer.statusCode != 206 { throw unreadable(source, "the server answers \(answer.statusCode)") }
        let rest = "bytes \(done)-\(source.bytes - 1)/"
        let range = answer.value(forHTTPHeaderField: "Content-Range")
        if done > 0 && (range == "\(rest)\(source.bytes)" || range == "\(rest)*") { return done }
        throw otherSize("another number of bytes")
    }

    private func otherSize(_ found: String) -> OmniDraftError {
        discarded(part, "size", "\(source.address.absoluteString) has \(found) and not \(source.bytes)")
    }

    func add(_ data: Data) throws {
        if data.count > source.bytes - done { throw otherSize("another number of bytes") }
        try writing(part) { try writeAll(file, [UInt8](data)) }
        done += data.count
        try progress(done, source.bytes)
    }

    /// Flushes the part, which the next download goes on with.
    func close() throws {
        if file < 0 { return }
        let isFlushed = fsync(file) == 0
        let error = systemError(errno)
        systemClose(file)
        file = -1
        if !isFlushed { throw unwritable(part, error.message) }
    }
}
