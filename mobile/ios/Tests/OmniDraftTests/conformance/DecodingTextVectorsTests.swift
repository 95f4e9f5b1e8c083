import XCTest

@testable import OmniDraft

/// Runs the vectors of bytes to text and of thoughts.
final class DecodingTextVectorsTests: VectorTestCase {
    func testUtf8() throws {
        try run("utf8") { vector in
            var stream = Utf8Stream()
            let chunks = try vector.input["chunks"]!.strings.map { try bytesOf(hex: $0.filter { $0 != " " }) }
            let pieces = chunks.map { Array(stream.push($0).utf8) }
            try same("pieces", pieces, vector.expected["pieces"]!.strings.map { Array($0.utf8) })
            try same("the rest", Array(stream.flush().utf8), Array(vector.expected["rest"]!.string.utf8))
        }
    }

    func testThought() throws {
        try run("thought") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let tags = thinkTags(given)
            let inside = given["inside"]!.bool
            if let ids = given["ids"]?.int32s {
                let tokenizer = try self.tokenizer(given["tokenizer"]!.string)
                let output = OutputText(tokenizer, think: tags) { tokenizer.bytes(of: $0) ?? [] }
                try same("ids", output.kept(ids, inside: inside), expected["ids"]!.int32s)
            } else {
                let texts = given["texts"]!.strings
                var stream = ThoughtStream(tags, inside: inside)
                var parts = texts.map { stream.push($0) }
                parts.append(stream.end())
                let plain = parts.map { JsonValue.array($0.map { .array([.string($0.text), .bool($0.isThought)]) }) }
                try same("parts", plain, expected["parts"]!.array)
                let output = texts.flatMap { Array($0.utf8) }
                try same("answer", answerStart(output, tags, inside: inside), expected["answer"]!.int)
                try same("kept", keptStart(output, tags, inside: inside), expected["kept"]!.int)
            }
        }
    }
}

func thinkTags(_ given: JsonObject) -> ThinkTags {
    ThinkTags(
        open: given["open"]!.string, close: given["close"]!.string,
        earlier: EarlierThoughts(rawValue: given["earlier"]!.string)!)
}
