// The values of the lines of a record, and of the pointer of a device (spec/15-sync.md).

let largestNumber = 999_999_999_999_999

private let none = "none"
private let numberDigits = 15
private let hashDigits = 64
private let timeForm = Array("0000-00-00T00:00:00Z".utf8)

func syncError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .sync(Refusal(fault: fault, message: message, remedy: remedy))
}

/// A record that is not written as its table says; the reader of a record turns it into a refusal.
struct MalformedRecord: Error {}

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

func fileIn(_ value: ArraySlice<UInt8>) throws -> StoredFile {
    let (hash, size) = try pairIn(value)
    return StoredFile(sha256: try hashIn(hash), size: try numberIn(size))
}

/// What stands before and behind the first space.
func pairIn(_ value: ArraySlice<UInt8>) throws -> (ArraySlice<UInt8>, ArraySlice<UInt8>) {
    guard let space = value.firstIndex(of: UInt8(ascii: " ")) else { throw MalformedRecord() }
    return (value[..<space], value[(space + 1)...])
}

func isNone(_ value: ArraySlice<UInt8>) -> Bool { value.elementsEqual(none.utf8) }

func digestOf(_ data: [UInt8]) -> String { hexOf(sha256(data)) }
