import XCTest

@testable import OmniDraft

/// Runs the folders of `grammar`.
final class GrammarVectorsTests: VectorTestCase {
    func testValid() throws {
        try run("grammar/valid") { vector in
            let (grammar, expected) = (try grammarOf(vector.input["file"]!), vector.expected)
            try same("the depth", grammar.depth, expected["depth"]!.int)
            try same("the tools", grammar.tools, expected["tools"]!.string)
            let due = zip(expected["configurations"]!.array, expected["complete"]!.array)
            for (text, (places, isComplete)) in zip(vector.input["texts"]!.array, due) {
                for (end, place) in places.array.enumerated() {
                    let at = grammar.read(.start, Array(text.hex.prefix(end)))
                    try same("the place behind \(end) bytes of \(text)", at, configuration(place))
                }
                try same("whether \(text) is whole", grammar.matches(text.hex), isComplete.bool)
            }
        }
    }

    func testInvalid() throws {
        try run("grammar/invalid") { vector in
            let fault = try faultOf { _ = try readGrammar(Bytes(vector.input["bytes"]!.hex)) }
            try same("the fault", fault, vector.expected["fault"]!.string)
        }
    }

    func testTokens() throws {
        try run("grammar/tokens") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let (grammar, width) = (try grammarOf(given["file"]!), given["width"]!.int)
            let tokens = tokensOf(given["tokens"]!)
            let trie = ByteTrie(tokens, width: width)
            let eosIds = given["eos_ids"]!.int32s
            if let fault = expected["fault"]?.string {
                try same("the fault", try faultOf { _ = try TokenMasks(grammar, trie, eosIds: eosIds) }, fault)
                return
            }
            let controls = (given["controls"]?.object.members ?? []).map { (Int32($0.name)!, $0.value.hex) }
            // What is forgotten is computed again.
            for limits in [MaskLimits(), MaskLimits(bytes: 1, configurations: 2)] {
                let masks = try TokenMasks(
                    grammar, trie, eosIds: eosIds, controls: Dictionary(uniqueKeysWithValues: controls),
                    spell: { spelled($0, tokens) }, limits: limits)
                try check(masks, zip(given["places"]!.array, expected["places"]!.array.map(\.object)), width)
            }
        }
    }

    func testCalls() throws {
        try run("grammar/calls") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let fields = given["form"]!.object
            let form = CallForm(
                open: fields["open"]!.string, between: fields["between"]!.optional?.string,
                close: fields["close"]!.string, arguments: fields["arguments"]!.string,
                idLength: fields["id_length"]!.int)
            if let file = given["file"] {
                try same("whether it fits", form.fits(try grammarOf(file)), expected["fault"]!.isNull)
                return
            }
            let texts = given["texts"]!.strings
            var stream = CallStream(form)
            var parts = texts.map { text in
                let (said, called) = stream.push(text)
                return [said, called]
            }
            parts.append([stream.end(), ""])
            try same("the parts", parts, expected["parts"]!.array.map(\.strings))
            try same("the marker", form.marker, Array(expected["marker"]!.string.utf8))
            let calls = try form.read(Array(texts.joined().utf8)).map { call -> JsonValue in
                let arguments = try parseJson(Array(call.arguments.utf8))
                return ["name": .string(call.name), "arguments": arguments, "id": .string(call.id)]
            }
            try same("the calls", calls, expected["calls"]!.array)
        }
    }

    private func check(
        _ masks: TokenMasks, _ places: some Sequence<(JsonValue, JsonObject)>, _ width: Int
    ) throws {
        for (text, place) in places {
            let at = masks.grammar.read(.start, text.hex)!
            let bound = Int(masks.bound(at))
            try same("the bound behind \(text)", bound, place["bound"]!.optional?.int ?? Int(UInt16.max))
            try same("the fixed bytes behind \(text)", masks.forced(at), place["fixed"]!.hex)
            let certain = masks.certain(at).map { Int($0.token) }
            try same("what is certain behind \(text)", certain, place["certain"]!.optional?.int)
            try same("whether \(text) is last", masks.isLast(at, room: 0), place["last"]!.bool)
            for row in place["allowed"]!.array.map(\.array) {
                let mask = masks.mask(at, room: row[0].int)
                let ids = (0..<Int32(width)).filter { mask?.allows($0) ?? false }
                try same("what is allowed behind \(text) with room \(row[0])", ids, row[1].int32s)
                try same("whether \(text) is last with it", masks.isLast(at, room: row[0].int), row[2].bool)
            }
        }
    }
}

/// The constraint of a vector of `grammar/generate`; nil for another vector.
func constraintOf(_ given: JsonObject, draftAllowed: [Bool]) throws -> Constraint? {
    guard let file = given["grammar"] else { return nil }
    let grammar = try grammarOf(file)
    let (tokens, pieces) = (tokensOf(given["target_tokens"]!), tokensOf(given["draft_tokens"]!))
    let masks = try TokenMasks(
        grammar, ByteTrie(tokens, width: tokens.count), eosIds: given["eos_ids"]!.int32s,
        spell: { spelled($0, tokens) })
    let bytesOf: (Int32) -> [UInt8] = { tokens[Int($0)] ?? [] }
    if given["mode"]!.string == "plain" { return Constraint(masks, bytesOf: bytesOf) }
    var draft: DraftSide?
    let trie = ByteTrie(pieces, width: pieces.count)
    let fault = try faultOf {
        draft = DraftSide(masks: try TokenMasks(grammar, trie, eosIds: []), allowed: draftAllowed) {
            pieces[Int($0)] ?? []
        }
    }
    try same("the fault of the drafter's tokens", fault ?? "vocabulary", "vocabulary")
    return Constraint(masks, bytesOf: bytesOf, proposes: true, draft: draft)
}

/// The longest tokens from the left, of equal ones the lowest id; nil where none fits.
private func spelled(_ data: [UInt8], _ tokens: [[UInt8]?]) -> [Int32]? {
    var (ids, rest) = ([Int32](), data[...])
    while !rest.isEmpty {
        let fitting = tokens.indices.filter { tokens[$0].map { !$0.isEmpty && rest.starts(with: $0) } ?? false }
        guard let id = fitting.min(by: { (-tokens[$0]!.count, $0) < (-tokens[$1]!.count, $1) }) else { return nil }
        ids.append(Int32(id))
        rest = rest.dropFirst(tokens[id]!.count)
    }
    return ids
}

extension Grammar {
    /// Whether a whole text belongs to the grammar.
    func matches(_ data: [UInt8]) -> Bool { read(.start, data).map(isComplete) ?? false }
}

func grammarOf(_ file: JsonValue) throws -> Grammar { try loadGrammar("\(vectorRoot)/grammar/valid/\(file.string)") }

private func tokensOf(_ tokens: JsonValue) -> [[UInt8]?] { tokens.array.map { $0.optional?.hex } }

private func configuration(_ place: JsonValue) -> Configuration? {
    place.optional.map { Configuration(state: Int32($0.array[0].int), stack: $0.array[1].int32s) }
}
