import Foundation
import XCTest

@testable import OmniDraft

// Reads spec/vectors, as tests/conformance/vectors.py does.

/// The repository: the environment variable OMNIDRAFT_ROOT, or the directory that holds this file's package.
let repository: String = {
    if let root = ProcessInfo.processInfo.environment["OMNIDRAFT_ROOT"] { return root }
    return #filePath.components(separatedBy: "/mobile/ios/")[0]
}()

let vectorRoot = repository + "/spec/vectors"

/// The parsed content of a JSON file below spec/vectors.
func jsonOf(_ path: String) throws -> JsonValue {
    try parseJson([UInt8](Data(contentsOf: URL(fileURLWithPath: "\(vectorRoot)/\(path)"))), containers: 1 << 22)
}

struct Vector {
    let folder: String
    let name: String
    let why: String
    /// What is given.
    let input: JsonObject
    /// What must come of it; an object in most folders.
    let expect: JsonValue

    var expected: JsonObject { expect.object }

    func file(_ name: String) -> String { "\(vectorRoot)/\(folder)/\(name)" }
}

/// All vectors of a folder, in every list of objects that it holds; folders inside it are folders of their own.
func vectorsOf(_ folder: String) throws -> [Vector] {
    let names = try FileManager.default.contentsOfDirectory(atPath: "\(vectorRoot)/\(folder)").sorted()
    return try names.filter { $0.hasSuffix(".json") }.flatMap { name -> [Vector] in
        guard case .array(let items) = try jsonOf("\(folder)/\(name)"), case .object? = items.first else { return [] }
        return items.map {
            let object = $0.object
            return Vector(
                folder: folder, name: object["name"]!.string, why: object["why"]!.string,
                input: object["input"]!.object,
                expect: object["expect"] ?? .null)
        }
    }
}

/// The number of vectors of each folder, by the manifest.
func vectorCounts() throws -> [String: Int] {
    let levels = try jsonOf("manifest.json").object["levels"]!.object
    return Dictionary(
        uniqueKeysWithValues: levels.members.flatMap { $0.value.object.members.map { ($0.name, $0.value.int) } })
}

/// A test case of vectors: `try run("folder") { vector in ... }` runs all of a folder and compares their number.
class VectorTestCase: XCTestCase {
    private var tokenizers: [String: Tokenizer] = [:]

    /// The tokenizer in a file, read once in a test.
    func tokenizer(file: String) throws -> Tokenizer {
        if let known = tokenizers[file] { return known }
        let tokenizer = try Tokenizer(file: file)
        tokenizers[file] = tokenizer
        return tokenizer
    }

    func tokenizer(_ name: String) throws -> Tokenizer {
        let name = name.hasSuffix(".json") ? String(name.dropLast(5)) : name
        return try tokenizer(file: "\(vectorRoot)/tokenize/\(name).bin")
    }

    /// Runs all vectors of a folder. An error, or a failed assertion of `VectorFailure`, names the vector and why it is there.
    func run(_ folder: String, _ body: (Vector) throws -> Void) throws {
        let vectors = try vectorsOf(folder)
        var passed = 0
        for vector in vectors {
            do {
                try body(vector)
                passed += 1
            } catch {
                XCTFail("\(folder)/\(vector.name): \(error) (\(vector.why))")
            }
        }
        XCTAssertEqual(vectors.count, try vectorCounts()[folder], "vectors of \(folder)")
        print("vectors \(folder) \(passed)/\(vectors.count)")
    }
}

struct VectorFailure: Error, CustomStringConvertible {
    let description: String
}

/// Throws unless two values are equal.
func same<T: Equatable>(_ what: String, _ actual: T, _ expected: T) throws {
    if actual != expected {
        throw VectorFailure(description: "\(what) is \(brief(actual)) and not \(brief(expected))")
    }
}

/// Throws unless two lists of numbers agree: absolutely or relatively to the tolerance, and zero only with zero.
func close(_ what: String, _ actual: [Double], _ expected: [Double], _ tolerance: Double = 1e-12) throws {
    try same("the length of \(what)", actual.count, expected.count)
    for (index, (a, b)) in zip(actual, expected).enumerated() {
        if b.isNaN ? a.isNaN : (b == 0 || b.isInfinite) ? a == b : a != 0 && abs(a - b) <= tolerance * (1 + abs(b)) {
            continue
        }
        throw VectorFailure(description: "\(what)[\(index)] is \(a) and not \(b)")
    }
}

/// The name of the fault that `body` throws; nil where it throws none. Any other error is thrown on.
func faultOf(_ body: () throws -> Void) throws -> String? {
    do {
        try body()
        return nil
    } catch let error as OmniDraftError {
        return error.fault
    }
}

private func brief(_ value: Any) -> String { String(String(describing: value).prefix(2000)) }

// Fields of vectors: a value of another kind is a bug of the test, which ends it.
extension JsonValue {
    var isNull: Bool { self == .null }
    var object: JsonObject {
        if case .object(let value) = self { return value } else { fatalError("\(self) is not an object") }
    }
    var array: [JsonValue] {
        if case .array(let value) = self { return value } else { fatalError("\(self) is not an array") }
    }
    var string: String {
        if case .string(let value) = self { return value } else { fatalError("\(self) is not a string") }
    }
    var bool: Bool { if case .bool(let value) = self { return value } else { fatalError("\(self) is not a boolean") } }
    var int: Int {
        if case .integer(let value) = self { return Int(value) } else { fatalError("\(self) is not an integer") }
    }
    /// A number, or the texts `NaN`, `Infinity` and `-Infinity`.
    var num: Double {
        switch self {
        case .integer(let value): return Double(value)
        case .double(let value): return value
        case .large(let digits): return Double(digits)!
        case .string("NaN"): return .nan
        case .string("Infinity"): return .infinity
        case .string("-Infinity"): return -.infinity
        default: fatalError("\(self) is not a number")
        }
    }
    var ints: [Int] { array.map(\.int) }
    var int32s: [Int32] { array.map { Int32($0.int) } }
    var nums: [Double] { array.map(\.num) }
    var floats: [Float] { array.map { Float($0.num) } }
    var strings: [String] { array.map(\.string) }
    var hex: [UInt8] { try! bytesOf(hex: string) }
    /// The 64 bits of a text such as `0x0000019a00000001`.
    var bits: UInt64 { UInt64(string.dropFirst(2), radix: 16)! }
    /// Nil for null.
    var optional: JsonValue? { isNull ? nil : self }
}
