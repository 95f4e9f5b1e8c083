// The record of a device in a store: a short text that names all its files (spec/15-sync.md, push).
//
// A record has exactly one form in bytes, and the reader refuses every other input with a named fault.

/// Bytes of the record of a push at most.
let mostPushBytes = Defaults.syncMaxPushBytes

private let title = "omnidraft.push "
private let version = "1"
private let mostDevice = 64
private let pushAgain = "let the device push again"

/// A segment of a trace: its name and its file.
struct PushedTrace: Sendable, Equatable {
    let name: String
    let file: StoredFile
}

/// The files of a device in a store.
struct Push: Sendable, Equatable {
    /// Name of the device.
    let device: String
    /// The pair of models.
    let channel: Channel
    /// ISO 8601 in UTC.
    let created: String
    /// Target tokens that the device's drafts proposed and the target accepted; the weight of its adapter.
    let accepted: Int
    /// The device's own; nil for none.
    var adapter: StoredFile?
    /// The device's own; nil for none.
    var cache: StoredFile?
    /// Name and file of each segment, by ascending name.
    var traces: [PushedTrace] = []
}

/// The name, if it is a valid name of a device.
///
/// - Throws: ``OmniDraftError/setting(_:)``: the name is not valid.
@discardableResult
func checkDevice(_ name: String) throws -> String {
    if isDevice(name.utf8) { return name }
    throw settingError(
        "device name \"\(name.prefix(80))\" is not 1 to \(mostDevice) letters, digits, dots, hyphens and underscores "
            + "that begin with a letter or digit", "give another one")
}

/// The bytes of a record.
func encodePush(_ push: Push) -> [UInt8] {
    var text = "\(title)\(version)\ndevice \(push.device)\n\(push.channel.lines)created \(push.created)\n"
    text += "accepted \(push.accepted)\nadapter \(shownFile(push.adapter))\ncache \(shownFile(push.cache))\n"
    for trace in push.traces { text += "trace \(trace.name) \(trace.file)\n" }
    return Array(text.utf8)
}

/// Parse the bytes of a record.
///
/// - Throws: ``OmniDraftError/sync(_:)`` `not_a_push`, `version`, `malformed` or `too_large`.
func decodePush(_ data: [UInt8]) throws -> Push {
    try checkTitle(data)
    let push: Push
    do {
        if data.count > mostPushBytes { throw MalformedRecord() }
        push = try lines(data)
    } catch is MalformedRecord {
        throw syncError("malformed", "the push is not written as spec/15-sync.md says", pushAgain)
    }
    let files = [push.adapter, push.cache].compactMap { $0 } + push.traces.map(\.file)
    if files.contains(where: { $0.size > maxStoredBytes }) {
        throw syncError("too_large", "the push has a file of more than \(maxStoredBytes) bytes", "leave it out")
    }
    return push
}

private func checkTitle(_ data: [UInt8]) throws {
    let line = firstLine(data)
    if !line.starts(with: title.utf8) {
        throw syncError("not_a_push", "the file is not the record of a push", pushAgain)
    }
    if !line.elementsEqual((title + version).utf8) {
        throw syncError("version", "the push has another format version", "update omnidraft")
    }
}

private func lines(_ data: [UInt8]) throws -> Push {
    var reader = RecordReader(data)
    try reader.line(title + version)
    let device = try reader.value("device")
    if !isDevice(device) { throw MalformedRecord() }
    let push = Push(
        device: String(decoding: device, as: UTF8.self), channel: try reader.channel(),
        created: try timeIn(reader.value("created")), accepted: try countIn(reader.value("accepted")),
        adapter: try fileOrNoneIn(reader.value("adapter")), cache: try fileOrNoneIn(reader.value("cache")),
        traces: try traces(&reader))
    try reader.end()
    return push
}

private func traces(_ reader: inout RecordReader) throws -> [PushedTrace] {
    var found: [PushedTrace] = []
    while let value = reader.valueIfThere("trace") {
        let (start, rest) = try pairIn(value)
        let name = String(decoding: start, as: UTF8.self)
        if numberOf(name) == nil { throw MalformedRecord() }
        if let last = found.last, !precedes(last.name, name) { throw MalformedRecord() }
        found.append(PushedTrace(name: name, file: try fileIn(rest)))
    }
    return found
}

private func isDevice(_ name: some Collection<UInt8>) -> Bool {
    guard (1...mostDevice).contains(name.count), let first = name.first, isNameByte(first) else { return false }
    return name.allSatisfy { isNameByte($0) || "._-".utf8.contains($0) }
}

private func isNameByte(_ byte: UInt8) -> Bool {
    isDigit(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
}
