import XCTest

@testable import OmniDraft

/// The strict reader of JSON, and checked fields.
final class StrictJsonTests: XCTestCase {
    private func read(_ text: String) throws -> JsonValue { try parseJson(Array(text.utf8)) }

    private func refused(_ text: String, _ message: String, line: UInt = #line) {
        XCTAssertThrowsError(try read(text), String(text.prefix(40)), line: line) { error in
            XCTAssert((error as? ValueError)?.message.contains(message) == true, "\(error)", line: line)
        }
    }

    func testValuesHaveTheirKinds() throws {
        let value = try read(" {\"a\" : [1, -2.5e1, true, null, \"\\ud83d\\ude00\\n\"], \"b\": 18446744073709551615}")
        XCTAssertEqual(value.object["a"], .array([.integer(1), .double(-25), .bool(true), .null, .string("😀\n")]))
        XCTAssertEqual(value.object["b"], .large("18446744073709551615"))
    }

    func testNamesThatAreCanonicallyEquivalentAreTwoNames() throws {
        XCTAssertEqual(try read("{\"e\\u0301\":1,\"\\u00e9\":2}").object.count, 2)
    }

    func testWhatReadersOfJsonDisagreeOnIsRefused() {
        let texts = [
            "", " ", "01", "+1", ".5", "1.", "1e", "1e+", "-", "--1", "NaN", "Infinity", "-Infinity", "nul",
            "truefalse",
            "[1,]", "[,1]", "[1 2]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{\"a\":}", "[", "{", "\"", "\"\\", "\"\\x\"",
            "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "1 2", "[]]", "'a'", "\u{feff}1", "\u{a0}1", "1\u{0}", "\u{661}",
            "/**/1",
        ]
        for text in texts { refused(text, "it is not JSON") }
        refused("{\"a\":1,\"\\u0061\":2}", "twice")
        for half in ["\"\\ud800\"", "\"\\ud800x\""] { refused(half, "half a surrogate pair") }
        refused("{\"\\udc00\\ud800\":1}", "half a surrogate pair")
        refused("1e999", "too large")
        refused(String(repeating: "1", count: 33), "characters")
        for bytes: [UInt8] in [
            [0x22, 0xed, 0xa0, 0x80, 0x22], [0x22, 0xc0, 0x80, 0x22], [0x22, 0xf0, 0x9f, 0x98, 0x22],
        ] {
            XCTAssertThrowsError(try parseJson(bytes)) { XCTAssert($0 is ValueError) }
        }
    }

    func testDepthAndNumberOfArraysAreBounded() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        XCTAssertEqual(try read(nested(maxDepth)).array.count, 1)
        refused(nested(maxDepth + 1), "deep")
        refused(String(repeating: "{\"a\":", count: 400_000), "deep")
        let most = "[" + String(repeating: "[],", count: 98) + "[]]"
        XCTAssertEqual(try parseJson(Array(most.utf8), containers: 100).array.count, 99)
        XCTAssertThrowsError(try parseJson(Array(most.utf8), containers: 99))
    }

    func testWhatIsWrittenHasOneFormAndIsReadAgain() throws {
        let text = "\"\\/\u{8}\n\u{1f}\u{7f}\u{e9}\u{1f680}"
        XCTAssertEqual(
            try dumpJson(.string(text)), Array("\"\\\"\\\\/\\u0008\\u000a\\u001f\u{7f}\u{e9}\u{1f680}\"".utf8))
        let value: JsonValue = [
            "b": .array([.integer(1), .null, .bool(true), .string(text)]), "a": .object(JsonObject()),
        ]
        XCTAssertEqual(try parseJson(dumpJson(value)), value)
        XCTAssertThrowsError(try dumpJson(.double(0.5))) { XCTAssert($0 is ValueError) }
    }

    func testTheParserIsTotal() {
        let random = SplitMix64(1)
        let alphabet = Array("[]{}\",:\\u0123e-.tn ".utf8)
        var valid = 0
        for _ in 0..<ChangedFiles.number {
            let count = Int(random.uniform() * 12)
            let text = (0..<count).map { _ in alphabet[Int(random.uniform() * Double(alphabet.count))] }
            do {
                _ = try parseJson(text)
                valid += 1
            } catch {
                XCTAssertFalse((error as? ValueError)?.message.isEmpty ?? true, "\(error)")
            }
        }
        XCTAssertGreaterThan(valid, 0)
    }

    func testFieldsRefuseOtherKindsAndNumbersOutside() throws {
        let bad: [() throws -> Any] = [
            { try integer(.bool(true), from: 0) }, { try integer(.double(1), from: 0) },
            { try integer(.integer(-1), from: 0) },
            { try integer(.integer(1 << 31), from: 0) }, { try integer(.string("1"), from: 0) },
            { try integer(.large("18446744073709551616"), in: 0 ... .max) }, { try integer(.null, from: 0) },
            { try number(.bool(true)) }, { try number(.string("1")) }, { try number(.double(.nan)) },
            { try number(.double(.infinity)) }, { try number(.integer(2), in: 0...1) },
            { try number(.double(1.5), in: 0...1) },
            { try number(.integer((1 << 53) + 1), in: 0...9_007_199_254_740_992) },
            { try hexadecimal(.string("0G"), 2) },
            { try hexadecimal(.string("AB"), 2) }, { try hexadecimal(.string("abc"), 2) },
            { try text(.string("\u{e9}"), most: 1) }, { try array(.object(JsonObject())) },
            { try array(.array([.integer(1)]), most: 0) }, { try array(.array([]), most: 2, least: 1) },
            { try real(.string("7ff8000000000000"), in: 0...1) }, { try boolean(.integer(1)) },
        ]
        for (index, call) in bad.enumerated() {
            XCTAssertThrowsError(try call(), "call \(index)") { XCTAssert($0 is ValueError) }
        }
        XCTAssertEqual(try number(.integer(1), in: 0...1), 1)
        XCTAssertEqual(try number(.large("1" + String(repeating: "0", count: 30))), 1e30)
        XCTAssertEqual(try integer(.integer((1 << 31) - 1), from: 0), Int(Int32.max))
        XCTAssertEqual(try ids(.array([.integer(3), .integer(0)])), [3, 0])
    }

    func testBitsAreTheNumber() throws {
        XCTAssertEqual(bitsOf(1), "3ff0000000000000")
        XCTAssertEqual(bitsOf(-0.0), "8000000000000000")
        let random = SplitMix64(2)
        for _ in 0..<1000 {
            let number = Double(bitPattern: random.nextU64())
            if !number.isFinite { continue }
            let most = Double.greatestFiniteMagnitude
            XCTAssertEqual(try real(.string(bitsOf(number)), in: -most...most).bitPattern, number.bitPattern)
        }
    }
}
