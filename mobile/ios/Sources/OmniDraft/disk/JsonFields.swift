// Checked fields of parsed JSON: each function returns a value of its kind, or throws ValueError.

/// Items of an array, or names of an object, at most.
let mostItems = 1 << 20
/// The largest id or count of a file, unless its chapter says another.
let mostInteger = (1 << 31) - 1

/// A string of at most `most` bytes of UTF-8.
func text(_ value: JsonValue, most: Int = 1 << 22) throws -> String {
    guard case .string(let text) = value else { throw ValueError("\(quoted(value)) is not a string") }
    let size = text.utf8.count
    if size > most { throw ValueError("a string has \(size) bytes, more than \(most)") }
    return text
}

/// A string of exactly this many lower-case hexadecimal digits.
func hexadecimal(_ value: JsonValue, _ digits: Int) throws -> String {
    let text = try text(value)
    if !isHexadecimal(text.utf8, digits: digits) {
        throw ValueError("\(quoted(value)) is not \(digits) hexadecimal digits")
    }
    return text
}

func boolean(_ value: JsonValue) throws -> Bool {
    guard case .bool(let value) = value else { throw ValueError("\(quoted(value)) is neither true nor false") }
    return value
}

/// An integer in a range; 1.0 and true are not integers.
func integer(_ value: JsonValue, in range: ClosedRange<Int>) throws -> Int {
    switch value {
    case .integer(let number):
        if number >= Int64(range.lowerBound) && number <= Int64(range.upperBound) { return Int(number) }
        throw outside(value, range)
    case .large: throw outside(value, range)
    default: throw ValueError("\(quoted(value)) is not an integer")
    }
}

/// An integer of at least `least` and at most ``mostInteger``.
func integer(_ value: JsonValue, from least: Int) throws -> Int { try integer(value, in: least...mostInteger) }

/// A number in a range; NaN, infinities and integers that no float holds are refused.
func number(
    _ value: JsonValue, in range: ClosedRange<Double> = -.greatestFiniteMagnitude ... .greatestFiniteMagnitude
) throws -> Double {
    let number: Double
    switch value {
    case .double(let value): number = value
    case .integer(let integer):
        number = Double(integer)
        // An integer may round into the range as a float.
        let (least, most) = (Int64(exactly: range.lowerBound), Int64(exactly: range.upperBound))
        if number == range.lowerBound, let least, integer < least { throw outside(value, range) }
        if number == range.upperBound, let most, integer > most { throw outside(value, range) }
    case .large(let digits): number = Double(digits) ?? .infinity
    default: throw ValueError("\(quoted(value)) is not a number")
    }
    if !range.contains(number) { throw outside(value, range) }
    return number
}

/// A float in a range, written as the 16 hexadecimal digits of its bits.
func real(_ value: JsonValue, in range: ClosedRange<Double>) throws -> Double {
    let digits = try hexadecimal(value, 16)
    guard let bits = UInt64(digits, radix: 16) else { throw ValueError("\(quoted(value)) is not a real") }
    return try number(.double(Double(bitPattern: bits)), in: range)
}

private func outside<Bound>(_ value: JsonValue, _ range: ClosedRange<Bound>) -> ValueError {
    ValueError("\(quoted(value)) is not from \(range.lowerBound) to \(range.upperBound)")
}

/// An array of `least` to `most` items, which are unchecked.
func array(_ value: JsonValue, most: Int = mostItems, least: Int = 0) throws -> [JsonValue] {
    guard case .array(let items) = value else { throw ValueError("\(quoted(value)) is not an array") }
    if items.count < least || items.count > most {
        throw ValueError("an array has \(items.count) items, not \(least) to \(most)")
    }
    return items
}

/// An array of token ids, 0 to 2^31 - 1.
func ids(_ value: JsonValue, most: Int = mostItems) throws -> [Int32] {
    try array(value, most: most).map { Int32(try integer($0, from: 0)) }
}

/// An object of at most `most` names, its values unchecked.
func mapping(_ value: JsonValue, most: Int = mostItems) throws -> JsonObject {
    guard case .object(let object) = value else { throw ValueError("\(quoted(value)) is not an object") }
    if object.count > most { throw ValueError("an object has \(object.count) names, more than \(most)") }
    return object
}

extension ByName where Value == JsonValue {
    /// The value of a name that an object must have, unchecked.
    func at(_ name: String) throws -> JsonValue {
        guard let value = self[name] else { throw ValueError("'\(name)' is missing") }
        return value
    }

    /// The value of a name that an object must have; nil where it is null.
    func orNull(_ name: String) throws -> JsonValue? {
        let value = try at(name)
        return value == .null ? nil : value
    }

    /// The value of a name; nil where it is absent or null.
    func given(_ name: String) -> JsonValue? { self[name].flatMap { $0 == .null ? nil : $0 } }
}

/// A value for a message: at most 80 characters, and a string between quotes.
func quoted(_ value: JsonValue) -> String {
    switch value {
    case .null: return "null"
    case .bool(let value): return String(value)
    case .integer(let value): return String(value)
    case .large(let digits): return digits
    case .double(let value): return String(value)
    case .string(let text): return "'\(text.prefix(78))'"
    case .array(let items): return "an array of \(items.count) items"
    case .object(let object): return "an object of \(object.count) names"
    }
}
