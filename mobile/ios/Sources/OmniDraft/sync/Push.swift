import Foundation

// What a device shares: the parts that its user chose, in one file that the device signs (spec/15-sync.md).

private let seedBytes = 32

/// What a push holds; the user chose it.
struct PushContents {
    /// The device's own; nil for none.
    var adapter: [UInt8]?
    /// The device's own n-grams; nil for none.
    var cache: [UInt8]?
    /// Segments, from ``segmentsIn(_:_:)``.
    var traces: [[UInt8]] = []
    /// Target tokens that the device's drafts proposed and the target accepted; the weight of the adapter.
    var accepted = 0
}

/// The file of a push, and the public key of the device in hexadecimal digits.
///
/// - Throws: ``OmniDraftError/setting(_:)``, ``OmniDraftError/sync(_:)`` `too_large`, ``OmniDraftError/signature(_:)``
///   `unverifiable`.
func writePush(_ channel: Channel, _ contents: PushContents, seed: [UInt8]) throws -> (key: String, data: [UInt8]) {
    let files = [contents.adapter, contents.cache].compactMap { $0 } + contents.traces
    if files.isEmpty { throw settingError("nothing is to be sent", "choose an adapter, n-grams or traces") }
    let key = hexOf(try signedByKey([], seed: seed).publicKey)
    let record = SignedRecord(
        kind: .push, key: key, channel: channel, number: time(nil), expires: utc(days: Defaults.syncDays),
        accepted: min(max(contents.accepted, 0), largestNumber), adapter: contents.adapter.map { StoredFile($0) },
        cache: contents.cache.map { StoredFile($0) }, traces: contents.traces.map { StoredFile($0) })
    return (key, try writeSigned(record, files, seed: seed))
}

/// The seed of this device's key; the first call makes it.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `unwritable`, or `malformed` where the file is damaged.
func deviceSeed(_ file: String) throws -> [UInt8] {
    do {
        if !exists(file) {
            try writeAtomically(file, (0..<seedBytes).map { _ in UInt8.random(in: .min ... .max) })
        }
        let seed = try readFile(file, most: seedBytes)
        if seed.count == seedBytes { return seed }
    } catch let error as FileError {
        throw unwritablePlace(file, error)
    }
    throw syncError("malformed", "\(file) is not the key of this device", "delete it, which makes a new identity")
}

/// The segments of a trace.
///
/// - Throws: ``OmniDraftError/traceFile(_:)``: a segment is refused, or there is none.
func segmentsIn(_ place: String, _ vocabularies: Vocabularies) throws -> [[UInt8]] {
    let files = try onFileError(of: try segmentsOf(place)) {
        traceError("unreadable", "\(place) cannot be read (\($0))", "check the path")
    }
    if files.isEmpty { throw traceError("not_a_trace", "\(place) holds no trace", "record some text first") }
    return try files.map { try segment($0, vocabularies) }
}

private func segment(_ file: String, _ vocabularies: Vocabularies) throws -> [UInt8] {
    do {
        let data = try readFile(file, most: maxSegmentBytes)
        try vocabularies.check(decodeSegment(Bytes(data)).header.vocabularies)
        return data
    } catch let error as FileError {
        throw traceError("unreadable", "\(file) cannot be read (\(error.message))")
    } catch OmniDraftError.traceFile(let refusal) {
        throw traceError(refusal.fault, "\(file) is refused: \(refusal.message)", "leave it out")
    }
}
