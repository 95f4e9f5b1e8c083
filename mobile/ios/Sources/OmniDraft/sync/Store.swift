#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// A store: files by their names below a folder, a web server, or whatever an app reads from (spec/15-sync.md, Layout).

private let hashDigits = 64
private let shownDigits = 12

/// Reads files of a store and names what went wrong; no one who can write to a store is trusted.
final class Store: Sendable {
    private let source: any ReleaseSource
    /// What is being read, and whether it was cancelled.
    private let reading = Guarded<(task: Task<[UInt8]?, any Error>?, isCancelled: Bool)>((nil, false))

    init(_ source: any ReleaseSource) { self.source = source }

    /// The bytes of a file. Waits for them: call it from a ``Worker``.
    ///
    /// - Parameters:
    ///   - name: of the file.
    ///   - most: bytes at most.
    /// - Throws: ``OmniDraftError/sync(_:)`` `missing`, `too_large` or `unreachable`; `CancellationError`.
    func read(_ name: String, most: Int) throws -> [UInt8] {
        let found: [UInt8]?
        do {
            found = try waitFor { [self] in try await begin(name, most).value }
        } catch let error as OmniDraftError {
            throw error
        } catch {
            if reading.with({ $0.isCancelled }) { throw CancellationError() }
            let message = "\(shortName(name)) in the store cannot be reached (\(reason(error)))"
            throw syncError("unreachable", message, "try again")
        }
        guard let data = found else {
            let message = "the store has no readable \(shortName(name))"
            throw syncError("missing", message, "check its address, or ask who runs it")
        }
        if data.count > most { throw tooLarge(name, most) }
        return data
    }

    /// Ends what is being read, and lets nothing more be read; from any thread.
    func cancel() {
        let task = reading.with { now in
            now.isCancelled = true
            return now.task
        }
        task?.cancel()
    }

    private func begin(_ name: String, _ most: Int) -> Task<[UInt8]?, any Error> {
        let source = source
        let task = Task { try await source.read(name, most: most) }
        let isCancelled = reading.with { now in
            now.task = task
            return now.isCancelled
        }
        if isCancelled { task.cancel() }
        return task
    }
}

/// The error of a file with more bytes than it may have.
func tooLarge(_ name: String, _ most: Int) -> OmniDraftError {
    syncError("too_large", "\(shortName(name)) in the store has more than \(most) bytes", "ask its publisher")
}

/// The bytes of a file of a folder. What someone else put under a name, such as a pipe or a link to itself, counts as
/// an absent file.
///
/// - Throws: ``FileError``: the folder cannot be read; ``OmniDraftError/sync(_:)`` `too_large`.
func readInFolder(_ root: String, _ name: String, most: Int) throws -> [UInt8]? {
    let data: [UInt8]
    do {
        let file = try OpenFile(joined(root, name))
        if file.size > most { throw tooLarge(name, most) }
        data = try file.read(file.size + 1)
    } catch let error as FileError {
        // A missing folder holds no file. Anything else at its place is an error.
        if !isDirectory(root) && !error.isAbsent { throw error }
        return nil
    }
    if data.count > most { throw tooLarge(name, most) }
    return data
}

/// A name for messages, with the first 12 digits of each SHA-256.
func shortName(_ name: String) -> String {
    let parts = partsOf(path: name).map { part in
        let digits = part.utf8.prefix { isHexadecimal([$0], digits: 1) }
        if digits.count != hashDigits { return part }
        return String(decoding: digits.prefix(shownDigits), as: UTF8.self)
            + String(decoding: part.utf8.dropFirst(hashDigits), as: UTF8.self)
    }
    return parts.joined(separator: "/")
}

/// The time now in the form of records, ISO 8601 in UTC.
func utc() -> String {
    var now = time(nil)
    var parts = tm()
    gmtime_r(&now, &parts)
    let date = [padded(parts.tm_year + 1900, 4), padded(parts.tm_mon + 1, 2), padded(parts.tm_mday, 2)]
    let hour = [padded(parts.tm_hour, 2), padded(parts.tm_min, 2), padded(parts.tm_sec, 2)]
    return date.joined(separator: "-") + "T" + hour.joined(separator: ":") + "Z"
}

private func padded(_ number: Int32, _ digits: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
}
