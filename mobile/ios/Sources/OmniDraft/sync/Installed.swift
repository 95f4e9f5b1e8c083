import Foundation

// The files of a device: adapter in use, previous adapter, newest release seen (spec/15-sync.md, What a device keeps). Replacing
// the pointer file is the switch.

let pointerName = "current"
/// Ending of file names, after the SHA-256.
let adapterEnd = ".safetensors"

private let title = "omnidraft.installed 1"
private let mostPointerBytes = 2048
private let hashDigits = 64
private let randomDigits = 16
private let temporaryEnd = ".tmp"

/// The newest release that a device verified.
struct Seen: Sendable, Equatable {
    let number: Int
    /// Of its signed lines.
    let sha256: String

    /// Refuse an older release, and another one of the same number.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)`` `older` or `conflict`.
    func check(_ release: SignedRecord) throws {
        if release.number < number {
            let message = "release \(release.number) is older than release \(number), which this device has seen"
            throw syncError("older", message, "do not use this store before its publisher made a newer one")
        }
        if release.number == number && !isSame(release.digest, sha256) {
            let message = "release \(number) is not the one that this device has seen under that number"
            throw syncError("conflict", message, "tell its publisher")
        }
    }
}

struct Used: Sendable, Equatable, CustomStringConvertible {
    /// Of its release; 0 for the device's own adapter.
    let number: Int
    let file: StoredFile

    var description: String { "\(number) \(file)" }
}

/// The content of the pointer file.
struct Installed: Sendable, Equatable {
    let channel: Channel
    /// The newest release that was verified.
    var seen: Seen?
    /// Number of the newest release whose adapter was not taken, 0 for none.
    var refused = 0
    /// The adapter in use; nil for the drafter without an adapter.
    var current: Used?
    /// The adapter before it; nil likewise.
    var previous: Used?

    var files: Set<String> {
        Set([current, previous].compactMap { $0 }.map { $0.file.sha256 + adapterEnd })
    }

    var text: [UInt8] {
        let seen = seen.map { "\($0.number) \($0.sha256)" } ?? "none"
        return Array(
            ("\(title)\n\(channel.lines)seen \(seen)\nrefused \(refused)\n"
                + "current \(current?.description ?? "none")\nprevious \(previous?.description ?? "none")\n").utf8)
    }

    /// This state with another adapter in use; the present adapter becomes the previous one.
    func switched(_ to: Used?) -> Installed {
        if to == current { return self }
        var state = self
        (state.current, state.previous) = (to, current)
        return state
    }
}

/// The content of a directory; nil where nothing is installed.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `unreadable` or `malformed`.
func readInstalled(_ place: String) throws -> Installed? {
    let pointer = joined(place, pointerName)
    do {
        return try parse(OpenFile(pointer).read(mostPointerBytes + 1))
    } catch let error as FileError {
        if error.isAbsent { return nil }
        let message = "\(pointer) cannot be read (\(error.message))"
        throw syncError("unreadable", message, "check the path and its permissions")
    } catch is MalformedRecord {
        throw syncError(
            "malformed", "\(pointer) is not what a pull wrote",
            "give another directory, or delete it, which also forgets the newest release seen")
    }
}

private func parse(_ data: [UInt8]) throws -> Installed {
    var reader = RecordReader(data)
    try reader.line(title)
    let installed = Installed(
        channel: try reader.channel(), seen: try seenIn(reader.value("seen")),
        refused: try countIn(reader.value("refused")), current: try usedIn(reader.value("current")),
        previous: try usedIn(reader.value("previous")))
    try reader.end()
    return installed
}

private func seenIn(_ value: ArraySlice<UInt8>) throws -> Seen? {
    if isNone(value) { return nil }
    let (number, hash) = try pairIn(value)
    return Seen(number: try numberIn(number), sha256: try hashIn(hash))
}

private func usedIn(_ value: ArraySlice<UInt8>) throws -> Used? {
    if isNone(value) { return nil }
    let (number, file) = try pairIn(value)
    return Used(number: try countIn(number), file: try fileIn(file))
}

/// Replace the pointer file; the caller has claimed the directory. A kill at any moment leaves the old state or the new
/// one, whole.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `unwritable`.
func install(_ place: String, _ state: Installed) throws { try write(place, pointerName, state.text) }

/// Remove files that the pointer file does not name, and files of killed processes; the caller has claimed the
/// directory.
func tidy(_ place: String, _ state: Installed) {
    let named = state.files
    for name in namesIn(place) where isKept(name.utf8) && !named.contains(name) || isLeft(name) {
        unlink(joined(place, name))  // a file that stays only takes space
    }
}

private func isKept(_ name: some BidirectionalCollection<UInt8>) -> Bool {
    let end = name.dropFirst(hashDigits)
    return isHexadecimal(name.prefix(hashDigits), digits: hashDigits) && end.elementsEqual(adapterEnd.utf8)
}

/// Whether a name is that of a temporary file of this directory.
private func isLeft(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    let random = bytes.dropLast(temporaryEnd.utf8.count).suffix(randomDigits)
    let tail = 1 + randomDigits + temporaryEnd.utf8.count
    guard begins(name, with: "."), bytes.suffix(temporaryEnd.utf8.count).elementsEqual(temporaryEnd.utf8),
        isHexadecimal(random, digits: randomDigits), bytes.count > 1 + tail,
        bytes[bytes.count - tail] == UInt8(ascii: ".")
    else { return false }
    let of = bytes.dropFirst().dropLast(tail)
    return of.elementsEqual(pointerName.utf8) || isKept(of)
}

/// Put an adapter into a directory where it is absent or damaged; the pointer file does not change.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `unwritable`.
@discardableResult
func keep(_ place: String, _ data: [UInt8]) throws -> StoredFile {
    let file = StoredFile(data)
    if kept(place, file) == nil { try write(place, file.sha256 + adapterEnd, data) }
    return file
}

/// The bytes of an adapter in a directory; nil where it is absent or damaged.
func kept(_ place: String, _ file: StoredFile) -> [UInt8]? {
    guard let data = try? readFile(joined(place, file.sha256 + adapterEnd), most: file.size) else { return nil }
    return StoredFile(data) == file ? data : nil
}

/// The bytes of the adapter in use.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `checksum`: the file was changed.
func inUse(_ place: String, _ current: Used) throws -> [UInt8] {
    if let data = kept(place, current.file) { return data }
    let message = "the adapter in use in \(place) is not the file that was pulled"
    throw syncError("checksum", message, "pull the release again")
}

/// Use the previous adapter again. The release of the present adapter is not taken again by itself.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `absent`: no adapter is in use; `in_use` or `unwritable`.
@discardableResult
func rollBack(_ place: String) throws -> Installed {
    try claimedDirectory(place) {
        guard var state = try readInstalled(place), let current = state.current else {
            let message = "\(place) has no adapter in use, so there is nothing before it"
            throw syncError("absent", message, "pull one first")
        }
        (state.current, state.previous) = (state.previous, current)
        state.refused = max(state.refused, current.number)
        try install(place, state)
        tidy(place, state)
        return state
    }
}

/// Lock a directory for this process while `work` runs; make it if it is absent.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `in_use` or `unwritable`.
func claimedDirectory<T>(_ place: String, _ work: () throws -> T) throws -> T {
    let claim = try claimed(place)
    defer { claim.close() }
    return try work()
}

private func claimed(_ place: String) throws -> Claim {
    do {
        return try Claim(place)
    } catch is ClaimError {
        throw syncError(
            "in_use", "another process is pulling into \(place)", "wait for it, or give another directory")
    } catch let error as FileError {
        throw unwritablePlace(place, error)
    }
}

private func write(_ place: String, _ name: String, _ data: [UInt8]) throws {
    do {
        try writeAtomically(joined(place, name), data)
    } catch let error as FileError {
        throw unwritablePlace(place, error)
    }
}

/// The error of a directory that cannot be written.
func unwritablePlace(_ place: String, _ error: FileError) -> OmniDraftError {
    let message = "\(place) cannot be written (\(error.message))"
    return syncError("unwritable", message, "make room, or give another directory")
}
