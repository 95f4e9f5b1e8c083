import Foundation

/// Reads one JSON text, which is strict UTF-8, from its beginning to its end. The depth is bounded, so is the recursion.
struct JsonReader {
    private let text: UnsafeBufferPointer<UInt8>
    private let maxContainers: Int
    private var at = 0
    private var depth = 0
    private var containers = 0

    init(text: UnsafeBufferPointer<UInt8>, maxContainers: Int) {
        self.text = text
        self.maxContainers = maxContainers
    }

    /// The value, if nothing but white space is around it.
    mutating func whole() throws -> JsonValue {
        let value = try value()
        if at != text.count { throw bad("text after the value") }
        return value
    }

    private mutating func value() throws -> JsonValue {
        skipSpace()
        defer { skipSpace() }
        switch peek() {
        case UInt8(ascii: "{"): return try inside { .object(try $0.members()) }
        case UInt8(ascii: "["): return try inside { .array(try $0.items()) }
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func inside(_ read: (inout JsonReader) throws -> JsonValue) throws -> JsonValue {
        depth += 1
        containers += 1
        if depth > maxDepth { throw ValueError("its arrays and objects are nested more than \(maxDepth) deep") }
        if containers > maxContainers { throw ValueError("it has more than \(maxContainers) arrays and objects") }
        at += 1
        skipSpace()
        let value = try read(&self)
        depth -= 1
        return value
    }

    private mutating func members() throws -> JsonObject {
        var object = JsonObject()
        if taken("}") { return object }
        repeat {
            skipSpace()
            let name = try string()
            skipSpace()
            if !taken(":") { throw bad("no colon after a name") }
            let value = try value()
            if object[name] != nil { throw ValueError("an object has a name twice") }
            object[name] = value
        } while taken(",")
        if !taken("}") { throw bad("an object without its end") }
        return object
    }

    private mutating func items() throws -> [JsonValue] {
        var items: [JsonValue] = []
        if taken("]") { return items }
        repeat { items.append(try value()) } while taken(",")
        if !taken("]") { throw bad("an array without its end") }
        return items
    }

    private mutating func word(_ word: String, _ value: JsonValue) throws -> JsonValue {
        for byte in word.utf8 {
            if peek() != byte { throw bad("neither a value nor a bracket") }
            at += 1
        }
        return value
    }

    private mutating func string() throws -> String {
        if !taken("\"") { throw bad("no string") }
        var out: [UInt8] = []
        var high: UInt32?
        while true {
            if at >= text.count { throw bad("a string without its end") }
            let byte = text[at]
            at += 1
            if byte == UInt8(ascii: "\\"), let unit = try escaped(&out, high) {
                if unit >= 0xd800 && unit < 0xdc00 && high == nil {
                    high = unit
                    continue
                }
                if let first = high, unit >= 0xdc00 && unit < 0xe000 {
                    append(0x10000 + (first - 0xd800) << 10 + (unit - 0xdc00), &out)
                    high = nil
                    continue
                }
                if high != nil || (unit >= 0xd800 && unit < 0xe000) { throw halfPair }
                append(unit, &out)
                continue
            }
            if byte == UInt8(ascii: "\\") { continue }
            if high != nil { throw halfPair }
            if byte == UInt8(ascii: "\"") { break }
            if byte < 0x20 { throw bad("a control character in a string") }
            out.append(byte)
        }
        return String(decoding: out, as: UTF8.self)
    }

    private var halfPair: ValueError { ValueError("a string has half a surrogate pair") }

    /// Reads an escape after its backslash. A unit of UTF-16 is returned, any other character is added to `out`.
    private mutating func escaped(_ out: inout [UInt8], _ high: UInt32?) throws -> UInt32? {
        let char = peek()
        at += 1
        if char == UInt8(ascii: "u") { return try unit() }
        if high != nil { throw halfPair }
        switch char {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): out.append(char)
        case UInt8(ascii: "b"): out.append(8)
        case UInt8(ascii: "f"): out.append(12)
        case UInt8(ascii: "n"): out.append(10)
        case UInt8(ascii: "r"): out.append(13)
        case UInt8(ascii: "t"): out.append(9)
        default: throw bad("an unknown escape")
        }
        return nil
    }

    private mutating func unit() throws -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            let digit = hexDigit(peek())
            if digit < 0 { throw bad("an escape without four hexadecimal digits") }
            code = code * 16 + UInt32(digit)
            at += 1
        }
        return code
    }

    private mutating func number() throws -> JsonValue {
        let start = at
        _ = taken("-")
        if !taken("0"), digits() == 0 { throw bad("neither a value nor a bracket") }
        let whole = at
        if taken("."), digits() == 0 { throw bad("a number without a digit behind its point") }
        if taken("e") || taken("E") {
            if !taken("+") { _ = taken("-") }
            if digits() == 0 { throw bad("a number without an exponent") }
        }
        if at - start > maxNumber {
            throw ValueError("a number has \(at - start) characters, more than \(maxNumber)")
        }
        let digits = String(decoding: text[start..<at], as: UTF8.self)
        if at == whole { return Int64(digits).map(JsonValue.integer) ?? .large(digits) }
        let number = strtod(digits, nil)
        if number.isInfinite { throw ValueError("the number \(digits) is too large") }
        return .double(number)
    }

    private mutating func digits() -> Int {
        let start = at
        while peek() >= UInt8(ascii: "0") && peek() <= UInt8(ascii: "9") { at += 1 }
        return at - start
    }

    private mutating func skipSpace() {
        while at < text.count, text[at] == 0x20 || text[at] == 0x0a || text[at] == 0x0d || text[at] == 0x09 { at += 1 }
    }

    /// The next byte; zero, which no rule of JSON takes, at the end.
    private func peek() -> UInt8 { at < text.count ? text[at] : 0 }

    private mutating func taken(_ char: Unicode.Scalar) -> Bool {
        if at >= text.count || text[at] != UInt8(ascii: char) { return false }
        at += 1
        return true
    }

    private func bad(_ what: String) -> ValueError { ValueError("it is not JSON: \(what) at byte \(at)") }
}

private func append(_ code: UInt32, _ out: inout [UInt8]) {
    // The caller checked that the code is no half of a pair.
    if let scalar = Unicode.Scalar(code) { out.append(contentsOf: Array(String(Character(scalar)).utf8)) }
}
