// A release: an adapter and a cache that the training side published for a pair of models (spec/15-sync.md, release).
//
// The file is a signature (spec/10-signing.md) over the lines that follow it. A release has exactly one form in bytes,
// and the reader refuses every other input with a named fault.

/// Bytes of the file of a release at most; the longest possible has 819.
let mostReleaseBytes = Defaults.syncMaxReleaseBytes

private let title = "omnidraft.release "
private let version = "1"
private let shownBytes = 20
private let another = "ask its publisher for another"

/// The lines of a release.
struct Release: Sendable, Equatable {
    /// Higher than that of every earlier release.
    let number: Int
    /// The pair of models.
    let channel: Channel
    /// ISO 8601 in UTC.
    let created: String
    /// ISO 8601 in UTC. A device refuses the release after it, so that a store cannot hold back newer ones.
    let expires: String
    /// Of the drafter; nil for none.
    let adapter: StoredFile?
    /// N-grams; nil for none. A release has an adapter, a cache or both.
    let cache: StoredFile?
    /// Accepted tokens, the weights of the average; 0 where the adapter was trained.
    var accepted = 0
    /// Devices that took part.
    var devices = 0

    /// The signed lines.
    var text: [UInt8] {
        Array(
            ("\(title)\(version)\nnumber \(number)\n\(channel.lines)created \(created)\nexpires \(expires)\n"
                + "adapter \(shownFile(adapter))\ncache \(shownFile(cache))\naccepted \(accepted)\n"
                + "devices \(devices)\n").utf8)
    }
}

/// A release, and the id of the key that its signature was checked with; nil where it was not checked.
struct SignedRelease: Sendable {
    let release: Release
    let keyId: String?
}

/// The file of a release.
func encodeRelease(_ release: Release, _ signature: Signature) -> [UInt8] {
    encodeSignature(signature) + release.text
}

/// The release in a file.
///
/// - Parameters:
///   - data: the file.
///   - publicKey: 32 bytes; nil leaves the signature unchecked.
/// - Throws: ``OmniDraftError/sync(_:)`` `too_large`, `malformed`, `other_key`, `wrong_signature`, `not_a_release` or
///   `version`; ``OmniDraftError/signature(_:)`` `unverifiable`: the platform has no Ed25519.
func decodeRelease(_ data: [UInt8], publicKey: [UInt8]?) throws -> SignedRelease {
    if data.count > mostReleaseBytes {
        throw syncError("too_large", "the release has more than \(mostReleaseBytes) bytes", another)
    }
    let signature = try signatureOf(data)
    let text = Array(data.dropFirst(signatureBytes))
    if let publicKey { try check(text, signature, publicKey) }  // before its content is used
    return SignedRelease(release: try parseRelease(text), keyId: publicKey == nil ? nil : signature.keyId)
}

private func signatureOf(_ data: [UInt8]) throws -> Signature {
    do {
        return try decodeSignature(Array(data.prefix(signatureBytes)))
    } catch OmniDraftError.signature {
        throw syncError("malformed", "the release does not begin with a signature", another)
    }
}

private func check(_ text: [UInt8], _ signature: Signature, _ publicKey: [UInt8]) throws {
    guard let fault = try signatureFault(text, signature, publicKey: publicKey) else { return }
    if fault == "other_key" {
        throw syncError(
            fault,
            "the release was signed with key \(signature.keyId) and the public key given is \(keyId(publicKey))",
            "give its signer's key, or do not use this store")
    }
    throw syncError(
        fault, "the release was changed after it was signed", "do not use this store, and tell its owner")
}

/// Parse the signed lines of a release.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `not_a_release`, `version`, `malformed` or `too_large`.
func parseRelease(_ text: [UInt8]) throws -> Release {
    let line = firstLine(text)
    if !line.starts(with: title.utf8) {
        throw syncError("not_a_release", "the file is not a release", "give a store that `omnidraft sync` wrote")
    }
    let found = line.dropFirst(title.utf8.count)
    if !found.elementsEqual(version.utf8) {
        let named = String(decoding: found.prefix(shownBytes), as: UTF8.self)
        let message = "the release has format version \(named) and this omnidraft reads \(version)"
        throw syncError("version", message, "update omnidraft")
    }
    let release: Release
    do {
        release = try lines(text)
    } catch is MalformedRecord {
        throw syncError("malformed", "the release is not written as spec/15-sync.md says", another)
    }
    if [release.adapter, release.cache].contains(where: { ($0?.size ?? 0) > maxStoredBytes }) {
        let message = "the release has a file of more than \(maxStoredBytes) bytes"
        throw syncError("too_large", message, "ask for a smaller one")
    }
    return release
}

private func lines(_ text: [UInt8]) throws -> Release {
    var reader = RecordReader(text)
    try reader.line(title + version)
    let release = Release(
        number: try numberIn(reader.value("number")), channel: try reader.channel(),
        created: try timeIn(reader.value("created")), expires: try timeIn(reader.value("expires")),
        adapter: try fileOrNoneIn(reader.value("adapter")), cache: try fileOrNoneIn(reader.value("cache")),
        accepted: try countIn(reader.value("accepted")), devices: try countIn(reader.value("devices")))
    try reader.end()
    if release.adapter == nil && release.cache == nil { throw MalformedRecord() }
    return release
}

/// The newest release that a device verified.
struct Seen: Sendable, Equatable {
    /// Of the release.
    let number: Int
    /// Of its signed lines.
    let sha256: String

    init(number: Int, sha256: String) {
        self.number = number
        self.sha256 = sha256
    }

    /// What a device remembers of a release.
    init(_ release: Release) { self.init(number: release.number, sha256: digestOf(release.text)) }
}

/// Refuse a release that a device must not take.
///
/// - Parameters:
///   - release: from ``decodeRelease(_:publicKey:)``.
///   - channel: of the device's bundle.
///   - seen: the newest release that the device verified; nil before the first.
///   - now: ISO 8601 in UTC.
/// - Throws: ``OmniDraftError/sync(_:)`` `foreign`, `older`, `conflict` or `expired`.
func checkRelease(_ release: Release, channel: Channel, seen: Seen?, now: String) throws {
    try channel.check(release.channel, "release \(release.number)")
    if let seen, release.number < seen.number {
        throw syncError(
            "older",
            "the store offers release \(release.number) and this device has seen \(seen.number): an old release was "
                + "put back",
            "do not use this store before its publisher has made a newer release")
    }
    if let seen, release.number == seen.number, Seen(release) != seen {
        throw syncError(
            "conflict",
            "the store's release \(release.number) is not the one that this device has seen under that number",
            "tell its publisher, who has to publish the next number")
    }
    if precedes(release.expires, now) {
        throw syncError(
            "expired", "release \(release.number) was valid until \(release.expires) and it is \(now)",
            "check this device's clock, or ask its publisher for a new one")
    }
}
