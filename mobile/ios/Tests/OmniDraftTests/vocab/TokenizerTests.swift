import XCTest

@testable import OmniDraft

/// Code points, contents and merges beside plain rules; what a tokenizer refuses.
final class TokenizerTests: XCTestCase {
    private func tokenizer(_ name: String) throws -> Tokenizer {
        try Tokenizer(file: "\(vectorRoot)/tokenizer/\(name).bin")
    }

    func testCharactersOfBytesAreThoseOfThePlatformsDecoder() {
        let random = SplitMix64(6)
        let bytes: [UInt8] = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0,
            0xf4, 0xf5, 0xff,
        ]
        func below(_ count: Int) -> Int { Int(random.uniform() * Double(count)) }
        for _ in 0..<20_000 {
            let data = (0...below(5)).map { _ in bytes[below(bytes.count)] }
            let lengths = (1...min(4, data.count)).filter { length in
                let part = Array(data[..<length])
                return isUtf8(part) && String(decoding: part, as: UTF8.self).unicodeScalars.count == 1
            }
            XCTAssertEqual(characterLength(data, 0), lengths.first ?? 0, "\(data)")
        }
    }

    func testContentsAreFoundLeftmostFirstTheLongestOfThose() {
        let letters = codePoints("ab\u{100}")
        for seed in 0..<UInt64(1_000) {
            let random = SplitMix64(seed)
            func below(_ count: Int) -> Int { Int(random.uniform() * Double(count)) }
            func word(_ size: Int) -> [UInt32] { (0..<size).map { _ in letters[below(3)] } }
            let contents = Array(Set((0...below(6)).map { _ in word(1 + below(4)) })).sorted {
                $0.lexicographicallyPrecedes($1)
            }
            let text = word(below(30))
            let found = ContentFinder(contents).matches(text).map { ($0.range.lowerBound, contents[$0.number]) }
            var expected: [(Int, [UInt32])] = []
            var at = 0
            while at < text.count {
                let longest = contents.filter { text[at...].starts(with: $0) }.max { $0.count < $1.count }
                if let longest { expected.append((at, longest)) }
                at += longest?.count ?? 1
            }
            XCTAssertEqual(found.map(\.0), expected.map(\.0), "seed \(seed)")
            XCTAssertEqual(found.map(\.1), expected.map(\.1), "seed \(seed)")
        }
    }

    func testALongWordTakesNoQuadraticTime() throws {
        let count = 4_000  // letters; at 50 times as many a quadratic rule takes minutes in a release build
        #if DEBUG
            let times = 1
        #else
            let times = 50
        #endif
        for name in ["gpt2", "llama2", "llama3", "qwen"] {
            let tokenizer = try tokenizer(name)
            for unit in ["ab", "  ", "'\n"] {
                let text = String(repeating: unit, count: count * times)
                let data = Array(text.utf8)
                XCTAssertEqual(tokenizer.spell(data).map { tokenizer.textOf($0) }, data)
                XCTAssertFalse(tokenizer.encode(text).isEmpty)
            }
        }
    }

    func testAFileThatIsNoneOrIsTooShortIsRefusedByName() throws {
        try inDirectory { folder in
            let file = joined(folder, "t.bin")
            func fault(_ path: String) throws -> String? { try faultOf { _ = try openTokenizerFile(path) } }
            XCTAssertEqual(try fault(file), "unreadable")
            XCTAssertEqual(try fault(folder), "unreadable")
            try put(file, [])
            XCTAssertEqual(try fault(file), "not_a_tokenizer")
            try put(file, Array("ODTOKENS".utf8))
            XCTAssertEqual(try fault(file), "truncated")
        }
    }
}
