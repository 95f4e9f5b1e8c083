import Foundation

// The signed file of a push or a release: a signature, lines that name the files, and the files (spec/15-sync.md).

private let version = "1"
private let shownTitle = 40
private let newline = UInt8(ascii: "\n")

/// What a signed file is.
enum SignedKind: String, Sendable {
    case push, release

    var title: String { "omnidraft.\(rawValue)" }
}

/// A pair of models. Devices of one channel can use each other's adapters and caches.
struct Channel: Sendable, Equatable {
    /// Fingerprint of the drafter's checkpoint, to which adapters are added.
    let base: String
    let target: String
    let draftTokenizer: String
    let targetTokenizer: String

    var lines: String {
        "base \(base)\ntarget \(target)\ndraft_tokenizer \(draftTokenizer)\ntarget_tokenizer \(targetTokenizer)\n"
    }

    /// Its name in a store: SHA-256 of its lines, 64 hexadecimal digits.
    var id: String { digestOf(Array(lines.utf8)) }

    /// Refuse another channel.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)`` `foreign`.
    func check(_ channel: Channel, _ what: String) throws {
        try checkSame("drafter's weights", base, channel.base, what)
        try checkSame("target's weights", target, channel.target, what)
        try checkSame("drafter's tokenizer", draftTokenizer, channel.draftTokenizer, what)
        try checkSame("target's tokenizer", targetTokenizer, channel.targetTokenizer, what)
    }

    private func checkSame(_ name: String, _ ours: String, _ theirs: String, _ what: String) throws {
        if isSame(ours, theirs) { return }
        throw syncError(
            "foreign", "\(what) is of a \(name) \(theirs.prefix(12)) and this bundle's is \(ours.prefix(12))",
            "use it with the pair of models that it was made for")
    }
}

struct StoredFile: Sendable, Equatable, CustomStringConvertible {
    /// In hexadecimal digits.
    let sha256: String
    /// Bytes.
    let size: Int

    var description: String { "\(sha256) \(size)" }
}

extension StoredFile {
    init(_ data: [UInt8]) { self.init(sha256: digestOf(data), size: data.count) }
}

/// The signed lines.
struct SignedRecord: Sendable, Equatable {
    let kind: SignedKind
    /// The signer's public key, 64 hexadecimal digits; of a push, the identity of the device.
    let key: String
    let channel: Channel
    /// Higher than that of every earlier record of this key.
    let number: Int
    /// ISO 8601 in UTC; it is refused after that.
    let expires: String
    /// Target tokens that drafts proposed and the target accepted; the weight of the adapter.
    var accepted = 0
    /// Of the drafter; nil for none.
    var adapter: StoredFile?
    /// N-grams; nil for none.
    var cache: StoredFile?
    /// Segments, the oldest first; of a push alone.
    var traces: [StoredFile] = []

    var text: [UInt8] {
        Array(
            ("\(kind.title) \(version)\nkey \(key)\n\(channel.lines)number \(number)\nexpires \(expires)\n"
                + "accepted \(accepted)\nadapter \(shownFile(adapter))\ncache \(shownFile(cache))\n"
                + traces.map { "trace \($0)\n" }.joined() + "\n").utf8)
    }

    var digest: String { digestOf(text) }

    /// The files in the order of their bytes.
    var files: [StoredFile] { [adapter, cache].compactMap { $0 } + traces }

    /// Bytes of the whole file. A size in a record is below 10^15, and its lines name fewer than 2^10 files.
    var size: Int { signatureBytes + text.count + files.reduce(0) { $0 + $1.size } }
}

/// A verified file: its record, and the bytes of the files that it names.
struct Signed: Sendable {
    let record: SignedRecord
    var adapter: [UInt8]?
    var cache: [UInt8]?
    var traces: [[UInt8]] = []
}

/// Sign a record.
///
/// - Parameter files: in the order of the record.
/// - Throws: ``OmniDraftError/sync(_:)`` `too_large`, or `malformed` where there is no file.
func writeSigned(_ record: SignedRecord, _ files: [[UInt8]], seed: [UInt8]) throws -> [UInt8] {
    _ = try parseRecord(record.text, record.kind)  // what a reader would refuse is not written
    let (publicKey, value) = try signedByKey(record.text, seed: seed)
    return encodeSignature(Signature(keyId: keyId(publicKey), value: value)) + record.text + Array(files.joined())
}

/// A whole file, verified.
///
/// - Parameters:
///   - kind: that it must be.
///   - publicKey: that must have signed it, 32 bytes; nil takes the key that the record names.
/// - Throws: ``OmniDraftError/sync(_:)`` `malformed`, `other_kind`, `version`, `too_large`, `other_key`,
///   `wrong_signature`, `size` or `checksum`, ``OmniDraftError/signature(_:)`` `unverifiable`.
func readSigned(_ data: [UInt8], _ kind: SignedKind, publicKey: [UInt8]?) throws -> Signed {
    let record = try verifiedRecord(data, kind, publicKey)
    if data.count != record.size {
        throw syncError(
            "size", "the \(kind) has \(data.count) bytes where \(record.size) were announced",
            "try again, or ask who put it there")
    }
    var at = signatureBytes + record.text.count
    var parts: [[UInt8]] = []
    for file in record.files {
        let part = Array(data[at..<(at + file.size)])
        at += file.size
        if StoredFile(part) != file {
            throw syncError(
                "checksum", "the \(kind) is damaged (the SHA-256 of a file is not \(file.sha256.prefix(12)))",
                "try again, or ask who put it there")
        }
        parts.append(part)
    }
    let adapter = record.adapter == nil ? nil : parts.removeFirst()
    let cache = record.cache == nil ? nil : parts.removeFirst()
    return Signed(record: record, adapter: adapter, cache: cache, traces: parts)
}

private func verifiedRecord(_ data: [UInt8], _ kind: SignedKind, _ publicKey: [UInt8]?) throws -> SignedRecord {
    let signature: Signature
    do {
        signature = try decodeSignature(Array(data.prefix(signatureBytes)))
    } catch OmniDraftError.signature {
        throw malformed(kind, "does not begin with a signature")
    }
    let record = try parseRecord(textOf(data), kind)
    let key = try bytesOf(hex: record.key)
    if let publicKey, publicKey != key {
        let message = "the \(kind) was signed with key \(keyId(key)) and the public key given is \(keyId(publicKey))"
        throw syncError("other_key", message, "give its signer's key, or do not use it")
    }
    if try signatureFault(record.text, signature, publicKey: key) != nil {
        throw syncError(
            "wrong_signature", "the \(kind) was changed after it was signed", "do not use it, and tell who gave it")
    }
    return record
}

/// The lines with their empty line; all that may be lines where there is none.
private func textOf(_ data: [UInt8]) -> [UInt8] {
    let lines = data.dropFirst(signatureBytes).prefix(Defaults.syncMaxTextBytes)
    for at in lines.indices.dropFirst() where lines[at] == newline && lines[at - 1] == newline {
        return Array(lines[...at])
    }
    return Array(lines)
}

/// The record of the signed lines, whose signature nobody has verified.
func parseRecord(_ text: [UInt8], _ kind: SignedKind) throws -> SignedRecord {
    try checkTitle(text, kind)
    let record: SignedRecord
    do {
        record = try parsed(text, kind)
    } catch is MalformedRecord {
        throw malformed(kind, "is not written as spec/15-sync.md says")
    }
    if record.files.isEmpty { throw malformed(kind, "has no files") }
    if kind == .release && !record.traces.isEmpty { throw malformed(kind, "has traces") }
    if text.count > Defaults.syncMaxTextBytes || record.size > Defaults.syncMaxBytes {
        throw syncError("too_large", "the \(kind) has more than \(Defaults.syncMaxBytes) bytes", "leave files out")
    }
    return record
}

private func checkTitle(_ text: [UInt8], _ kind: SignedKind) throws {
    let line = text.prefix(shownTitle).prefix { $0 != newline }
    let space = line.lastIndex(of: UInt8(ascii: " ")) ?? line.startIndex
    if !line[..<space].elementsEqual(kind.title.utf8) {
        throw syncError("other_kind", "the file is not a \(kind)", "give what `omnidraft sync` wrote")
    }
    if !line[space...].dropFirst().elementsEqual(version.utf8) {
        throw syncError("version", "the \(kind) has another format version", "update omnidraft")
    }
}

private func parsed(_ text: [UInt8], _ kind: SignedKind) throws -> SignedRecord {
    var reader = RecordReader(text)
    try reader.line("\(kind.title) \(version)")
    var record = SignedRecord(
        kind: kind, key: try hashIn(reader.value("key")), channel: try reader.channel(),
        number: try numberIn(reader.value("number")), expires: try timeIn(reader.value("expires")),
        accepted: try countIn(reader.value("accepted")), adapter: try fileOrNoneIn(reader.value("adapter")),
        cache: try fileOrNoneIn(reader.value("cache")))
    while let value = reader.valueIfThere("trace") { record.traces.append(try fileIn(value)) }
    try reader.line("")
    try reader.end()
    return record
}

private func malformed(_ kind: SignedKind, _ why: String) -> OmniDraftError {
    syncError("malformed", "the \(kind) \(why)", "ask its writer for another")
}

/// Refuse a record of other models, or one that has expired.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `foreign` or `expired`.
func checkCurrent(_ record: SignedRecord, _ channel: Channel, now: String = utc()) throws {
    try channel.check(record.channel, "the \(record.kind)")
    if record.expires.utf8.lexicographicallyPrecedes(now.utf8) {
        throw syncError(
            "expired", "the \(record.kind) was valid until \(record.expires) and it is \(now)",
            "check this device's clock, or ask for a new one")
    }
}

/// The channel of a bundle's pair of models.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `no_fingerprint`.
func channelOf(_ place: AdapterPlace) throws -> Channel {
    guard let base = place.drafter.fingerprint, let target = place.target.fingerprint else {
        let role = place.drafter.fingerprint == nil ? "drafter" : "target"
        throw syncError(
            "no_fingerprint",
            "\(place.name) does not name the weights of its \(role), so nothing can be checked to fit it",
            "run `omnidraft export` again from the checkpoints")
    }
    return Channel(
        base: base, target: target, draftTokenizer: place.draftFingerprint, targetTokenizer: place.targetFingerprint)
}

/// The time in some days from now, ISO 8601 in UTC.
func utc(days: Int = 0) -> String {
    var now = time(nil) + days * 86_400
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
