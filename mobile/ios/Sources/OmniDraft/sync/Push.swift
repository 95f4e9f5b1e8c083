#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Write a push into a folder of this device (spec/15-sync.md, push). Nothing is sent: an app uploads the files with its
// own means, in their order, so that the record comes last.
//
// Files are named by their SHA-256, so a push that was interrupted goes on where it stopped.

private let traceEnd = ".odt"
private let hashDigits = 64

/// A file to send.
private struct PushItem {
    let data: [UInt8]
    let file: StoredFile
    let storedName: String

    init(_ data: [UInt8], _ end: String) {
        self.data = data
        file = StoredFile(data)
        storedName = file.sha256 + end
    }
}

/// What a push holds; the user chose it.
struct PushContents {
    /// The device's own; nil for none.
    var adapter: Adapter?
    /// The device's own n-grams; nil for none.
    var cache: CacheTable?
    /// Directory whose segments are sent, word for word; nil for none.
    var traces: String?
    /// Target tokens that the device's drafts proposed and the target accepted; the weight of the adapter.
    var accepted = 0
}

/// Write the files of a push, then its record.
///
/// - Parameters:
///   - folder: where the layout of a store begins; made if it is absent.
///   - device: name of the device.
///   - channel: of the bundle.
///   - contents: what is sent.
///   - vocabularies: of the bundle; a segment of other ones is refused.
///   - now: ISO 8601 in UTC.
/// - Returns: the files in the order in which they are to be uploaded.
/// - Throws: ``OmniDraftError/setting(_:)``: the name is no name of a device, there is nothing to send, or a file is
///   too large; ``OmniDraftError/traceFile(_:)``: a segment is refused; ``OmniDraftError/sync(_:)`` `unwritable`.
func writePush(
    _ folder: String, device: String, _ channel: Channel, _ contents: PushContents, _ vocabularies: Vocabularies,
    now: String = utc()
) throws -> [String] {
    try checkDevice(device)
    let adapter = try contents.adapter.map { PushItem(try encodeAdapter($0), adapterEnd) }
    let cache = try contents.cache.map { PushItem(try encodeCache($0), cacheEnd) }
    let traces = try contents.traces.map { try segments($0, vocabularies) } ?? []
    let items = [adapter, cache].compactMap { $0 } + traces.map(\.item)
    if items.isEmpty { throw settingError("nothing is to be sent", "choose an adapter, n-grams or traces") }
    if let large = items.first(where: { $0.data.count > maxStoredBytes }) {
        throw settingError("a file has \(large.data.count) bytes, more than \(maxStoredBytes)", "leave it out")
    }
    let record = Push(
        device: device, channel: channel, created: now, accepted: min(max(contents.accepted, 0), largestNumber),
        adapter: adapter?.file, cache: cache?.file,
        traces: traces.map { PushedTrace(name: $0.name, file: $0.item.file) })
    return try write(items, encodePush(record), joined(folder, deviceFolder(channel, device)))
}

/// Writes each file once, and then the record; what an earlier push wrote and this one does not name is removed.
private func write(_ items: [PushItem], _ record: [UInt8], _ place: String) throws -> [String] {
    var named: Set<String> = [pushRecordName]
    var files: [String] = []
    do {
        try makeDirectories(place)
        for item in items where named.insert(item.storedName).inserted {
            let file = joined(place, item.storedName)
            try writeAtomically(file, item.data)
            files.append(file)
        }
        try writeAtomically(joined(place, pushRecordName), record)
    } catch let error as FileError {
        throw unwritablePlace(place, error)
    }
    for old in namesIn(place) where isStored(old) && !named.contains(old) { unlink(joined(place, old)) }
    return files + [joined(place, pushRecordName)]
}

/// Whether a name is that of a file of a push.
private func isStored(_ name: String) -> Bool {
    let end = name.utf8.dropFirst(hashDigits)
    return isHexadecimal(name.utf8.prefix(hashDigits), digits: hashDigits)
        && [adapterEnd, cacheEnd, traceEnd].contains { end.elementsEqual($0.utf8) }
}

private func segments(_ place: String, _ vocabularies: Vocabularies) throws -> [(name: String, item: PushItem)] {
    let files: [String]
    do {
        files = try segmentsOf(place)
    } catch let error as FileError {
        throw traceError("unreadable", "\(place) cannot be read (\(error.message))", "check the path")
    }
    if files.isEmpty { throw traceError("not_a_trace", "\(place) holds no trace", "record some text first") }
    return try files.map { (name: split($0).name, item: try segment($0, vocabularies)) }
}

private func segment(_ file: String, _ vocabularies: Vocabularies) throws -> PushItem {
    do {
        let data = try readFile(file, most: maxSegmentBytes)
        try vocabularies.check(decodeSegment(Bytes(data)).header.vocabularies)
        return PushItem(data, traceEnd)
    } catch let error as FileError {
        throw traceError("unreadable", "\(file) cannot be read (\(error.message))")
    } catch OmniDraftError.traceFile(let refusal) {
        throw traceError(refusal.fault, "\(file) is refused: \(refusal.message)", "leave it out")
    }
}
