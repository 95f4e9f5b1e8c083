// JSON from outside, read strictly, and JSON that has one way to be written (spec/03-bundle.md, "JSON").

/// Arrays and objects inside each other at most; the outermost is 1.
let maxDepth = 32
/// Arrays and objects together at most.
let maxContainers = 1 << 18
/// Characters of a number at most.
let maxNumber = 32

enum JsonValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// An integer that no `Int64` holds; its digits.
    case large(String)
    case double(Double)
    case string(String)
    case array([JsonValue])
    case object(JsonObject)

    static func int(_ value: Int) -> JsonValue { .integer(Int64(value)) }

    /// Texts are compared by their bytes: Swift's own comparison takes canonically equivalent texts as equal.
    static func == (a: JsonValue, b: JsonValue) -> Bool {
        switch (a, b) {
        case (.null, .null): return true
        case (.bool(let a), .bool(let b)): return a == b
        case (.integer(let a), .integer(let b)): return a == b
        case (.large(let a), .large(let b)): return a == b
        case (.double(let a), .double(let b)): return a == b
        case (.string(let a), .string(let b)): return a.utf8.elementsEqual(b.utf8)
        case (.array(let a), .array(let b)): return a == b
        case (.object(let a), .object(let b)): return a == b
        default: return false
        }
    }
}

extension JsonValue: ExpressibleByDictionaryLiteral {
    init(dictionaryLiteral members: (String, JsonValue)...) { self = .object(JsonObject(members)) }
}

/// Names and values in the order of the text.
typealias JsonObject = ByName<JsonValue>

/// The value of a JSON text.
///
/// - Parameters:
///   - data: UTF-8 without a byte order mark; the caller bounds its length.
///   - containers: arrays and objects together at most.
func parseJson(_ data: [UInt8], containers: Int = maxContainers) throws -> JsonValue {
    guard isUtf8(data) else { throw ValueError("it is not UTF-8") }
    return try data.withUnsafeBufferPointer { buffer in
        var reader = JsonReader(text: buffer, maxContainers: containers)
        return try reader.whole()
    }
}

func isUtf8(_ data: [UInt8]) -> Bool {
    // The initializer that only validates came with iOS 18. This one replaces what is not UTF-8, so its bytes are others.
    String(decoding: data, as: UTF8.self).utf8.elementsEqual(data)
}

/// The one JSON text of null, booleans, integers, strings, arrays and objects in their own order.
///
/// - Throws: ``ValueError``: a number with a fraction, which has no form here.
func dumpJson(_ value: JsonValue) throws -> [UInt8] {
    var out: [UInt8] = []
    try write(value, &out)
    return out
}

/// A float as text: the 16 hexadecimal digits of its IEEE-754 binary64 bits, the highest first.
func bitsOf(_ number: Double) -> String { hex64(number.bitPattern) }

private func write(_ value: JsonValue, _ out: inout [UInt8]) throws {
    switch value {
    case .null: out += Array("null".utf8)
    case .bool(let value): out += Array((value ? "true" : "false").utf8)
    case .integer(let value): out += Array(String(value).utf8)
    case .large(let digits): out += Array(digits.utf8)
    case .double: throw ValueError("a number with a fraction has no form in JSON here")
    case .string(let text): writeText(text, &out)
    case .array(let items):
        out.append(UInt8(ascii: "["))
        for (index, item) in items.enumerated() {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            try write(item, &out)
        }
        out.append(UInt8(ascii: "]"))
    case .object(let object):
        out.append(UInt8(ascii: "{"))
        for (index, member) in object.members.enumerated() {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            writeText(member.name, &out)
            out.append(UInt8(ascii: ":"))
            try write(member.value, &out)
        }
        out.append(UInt8(ascii: "}"))
    }
}

private func writeText(_ text: String, _ out: inout [UInt8]) {
    out.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): out += [UInt8(ascii: "\\"), byte]
        case 0..<0x20: out += Array("\\u00".utf8) + Array(hexOf([byte]).utf8)
        default: out.append(byte)
        }
    }
    out.append(UInt8(ascii: "\""))
}
