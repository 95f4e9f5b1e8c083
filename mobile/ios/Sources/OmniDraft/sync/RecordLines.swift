// The lines that a release and the record of a device have in common: a channel, files, numbers, times
// (spec/15-sync.md, Records).

/// Bytes of an adapter, a cache or a segment.
let maxStoredBytes = Defaults.syncMaxFileBytes
/// The largest number of a record.
let largestNumber = 999_999_999_999_999

private let none = "none"
private let numberDigits = 15
private let hashDigits = 64
private let timeForm = Array("0000-00-00T00:00:00Z".utf8)

/// A refusal of a store, a release or the files of a device.
func syncError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .sync(Refusal(fault: fault, message: message, remedy: remedy))
}

/// A record that is not written as its table says; the reader of a record turns it into a refusal.
struct MalformedRecord: Error {}

/// A pair of models. Devices of one channel can use each other's adapters and caches.
struct Channel: Sendable, Equatable {
    /// Fingerprint of the drafter's checkpoint, to which adapters are added.
    let base: String
    /// Fingerprint of the target's checkpoint.
    let target: String
    /// Fingerprint of the drafter's tokenizer.
    let draftTokenizer: String
    /// Fingerprint of the target's tokenizer.
    let targetTokenizer: String

    /// The lines of the channel in records.
    var lines: String {
        "base \(base)\ntarget \(target)\ndraft_tokenizer \(draftTokenizer)\ntarget_tokenizer \(targetTokenizer)\n"
    }

    /// Its name in a store: SHA-256 of its lines, 64 hexadecimal digits.
    var id: String { digestOf(Array(lines.utf8)) }

    /// Refuse another channel.
    ///
    /// - Parameters:
    ///   - channel: of a file or record.
    ///   - what: the file or record, for the message.
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

/// A file in a record.
struct StoredFile: Sendable, Equatable, CustomStringConvertible {
    /// In hexadecimal digits.
    let sha256: String
    /// Bytes.
    let size: Int

    init(sha256: String, size: Int) {
        self.sha256 = sha256
        self.size = size
    }

    /// The entry of some bytes.
    init(_ data: [UInt8]) { self.init(sha256: digestOf(data), size: data.count) }

    /// The form of a file in a record.
    var description: String { "\(sha256) \(size)" }

    /// Refuse bytes of another size or hash.
    ///
    /// - Parameters:
    ///   - data: the bytes that were read.
    ///   - what: the file, for the message.
    /// - Throws: ``OmniDraftError/sync(_:)`` `size` or `checksum`.
    func check(_ data: [UInt8], _ what: String) throws {
        let remedy = "try again, or ask who put it there"
        if data.count != size {
            throw syncError("size", "\(what) has \(data.count) bytes where \(size) were announced", remedy)
        }
        if StoredFile(data) != self {
            throw syncError("checksum", "\(what) is damaged (its SHA-256 is not \(sha256.prefix(12)))", remedy)
        }
    }
}

/// The form of a file in a record, `HASH BYTES` or `none`.
func shownFile(_ file: StoredFile?) -> String { file?.description ?? none }

/// Reads the lines of a record, each exactly as it must be.
///
/// Values are bytes, so a byte that is not ASCII fits no form. Each function throws ``MalformedRecord`` where the text
/// is another.
struct RecordReader {
    private let data: [UInt8]
    private var at = 0

    init(_ data: [UInt8]) { self.data = data }

    /// The value of the next line, which must have this name.
    mutating func value(_ name: String) throws -> ArraySlice<UInt8> {
        guard let value = after("\(name) ") else { throw MalformedRecord() }
        return value
    }

    /// The value of the next line if the line begins with `name` and a space; else nil, and nothing was read.
    mutating func valueIfThere(_ name: String) -> ArraySlice<UInt8>? { after("\(name) ") }

    /// A line with this whole text.
    mutating func line(_ text: String) throws {
        guard let rest = after(text), rest.isEmpty else { throw MalformedRecord() }
    }

    /// Nothing may follow.
    func end() throws {
        if at != data.count { throw MalformedRecord() }
    }

    /// The four lines of a channel.
    mutating func channel() throws -> Channel {
        Channel(
            base: try hashIn(value("base")), target: try hashIn(value("target")),
            draftTokenizer: try hashIn(value("draft_tokenizer")),
            targetTokenizer: try hashIn(value("target_tokenizer")))
    }

    /// The rest of a line that begins with `start`; nil where it does not.
    private mutating func after(_ start: String) -> ArraySlice<UInt8>? {
        guard data[at...].starts(with: start.utf8) else { return nil }
        let from = at + start.utf8.count
        guard let end = data[from...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        at = end + 1
        return data[from..<end]
    }
}

/// A value that is 64 hexadecimal digits.
func hashIn(_ value: ArraySlice<UInt8>) throws -> String {
    if !isHexadecimal(value, digits: hashDigits) { throw MalformedRecord() }
    return String(decoding: value, as: UTF8.self)
}

/// A number from 1 to ``largestNumber`` without leading zeros.
func numberIn(_ value: ArraySlice<UInt8>) throws -> Int {
    let number = try countIn(value)
    if number == 0 { throw MalformedRecord() }
    return number
}

/// A number, or 0.
func countIn(_ value: ArraySlice<UInt8>) throws -> Int {
    guard let first = value.first, value.count <= numberDigits, value.allSatisfy(isDigit),
        value.count == 1 || first != UInt8(ascii: "0")
    else { throw MalformedRecord() }
    return value.reduce(0) { 10 * $0 + Int($1) - 0x30 }
}

/// A time `YYYY-MM-DDThh:mm:ssZ`; times compare as text.
func timeIn(_ value: ArraySlice<UInt8>) throws -> String {
    let text = Array(value)
    let fits =
        text.count == timeForm.count
        && zip(timeForm, text).allSatisfy { $0 == UInt8(ascii: "0") ? isDigit($1) : $0 == $1 }
    if !fits { throw MalformedRecord() }
    func two(_ at: Int) -> Int { (Int(text[at]) - 0x30) * 10 + Int(text[at + 1]) - 0x30 }
    let isTime =
        (1...12).contains(two(5)) && (1...31).contains(two(8)) && two(11) <= 23 && two(14) <= 59 && two(17) <= 59
    if !isTime { throw MalformedRecord() }
    return String(decoding: text, as: UTF8.self)
}

/// The file of `HASH BYTES`, nil for `none`.
func fileOrNoneIn(_ value: ArraySlice<UInt8>) throws -> StoredFile? { isNone(value) ? nil : try fileIn(value) }

/// The file of `HASH BYTES`.
func fileIn(_ value: ArraySlice<UInt8>) throws -> StoredFile {
    let (hash, size) = try pairIn(value)
    return StoredFile(sha256: try hashIn(hash), size: try numberIn(size))
}

/// What stands before and behind the first space.
func pairIn(_ value: ArraySlice<UInt8>) throws -> (ArraySlice<UInt8>, ArraySlice<UInt8>) {
    guard let space = value.firstIndex(of: UInt8(ascii: " ")) else { throw MalformedRecord() }
    return (value[..<space], value[(space + 1)...])
}

/// Whether a value is `none`.
func isNone(_ value: ArraySlice<UInt8>) -> Bool { value.elementsEqual(none.utf8) }

/// Whether bytes are exactly this many lower-case hexadecimal digits.
func isHexadecimal(_ value: some Collection<UInt8>, digits: Int) -> Bool {
    value.count == digits && value.allSatisfy { isDigit($0) || (0x61...0x66).contains($0) }
}

/// Whether a byte is one of `0-9`.
func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

/// The bytes before the first newline.
func firstLine(_ data: [UInt8]) -> ArraySlice<UInt8> { data.prefix { $0 != UInt8(ascii: "\n") } }

/// The SHA-256 of bytes, 64 hexadecimal digits.
func digestOf(_ data: [UInt8]) -> String { hexOf(sha256(data)) }
