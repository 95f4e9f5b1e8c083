import XCTest

@testable import OmniDraft

/// Runs the vectors of where an output ends, and of the text around messages.
final class TextVectorsTests: VectorTestCase {
    func testStop() throws {
        try run("stop") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let stops = given["stop"]!.strings
            if expected["refused"] != nil {
                try same("the refusal of a setting", isRefused { _ = try StopText(stops) }, true)
                return
            }
            let text = try StopText(stops)
            let config = GenerationConfig(maxNewTokens: given["max_new_tokens"]!.int, seed: 0)
            // A prompt of one token: the context is full once as many tokens are out as it has positions.
            let limits = Limits(eosIds: Set(given["eos_ids"]!.int32s), maxLength: given["room"]!.int)
            let generation = Generation(
                rounds: GivenRounds(given, text), config: config, prompt: [1], stopText: text, limits: limits)
            let pieces = try expected["emitted"]!.array.map { _ in try generation.next() }
            try same("emitted", pieces.map { $0?.tokenIds }, expected["emitted"]!.array.map(\.int32s))
            try same("pieces", pieces.map { bytes($0?.text) }, expected["pieces"]!.strings.map { bytes($0) })
            try same("text", bytes(generation.text), bytes(expected["text"]!.string))
            try same("the reason", generation.stopReason?.rawValue, expected["reason"]!.optional?.string)
            try same("the stop string", bytes(text.matched), bytes(expected["stop_string"]!.optional?.string))
            try same("its start", generation.stopStart, expected["stop_start"]!.optional?.int)
        }
    }

    func testTemplate() throws { try run("template", runTemplate) }

    func testPrompt() throws {
        try run("grammar/prompt") { vector in
            if vector.expected["fault"] == nil { return try runTemplate(vector) }
            XCTAssertThrowsError(try readToolForm(vector.input["tools"]!.object)) { XCTAssert($0 is ValueError) }
        }
    }

    private func runTemplate(_ vector: Vector) throws {
        let (given, expected) = (vector.input, vector.expected)
        let tokenizer = try self.tokenizer(given["tokenizer"]!.string)
        let think = given["think"]!.optional.map { thinkTags($0.object) }
        if let text = given["given"]?.string {
            let prompt = PromptTemplate(
                prefix: "", suffix: "", lead: given["lead"]!.string, think: think, trim: trimOf(given))
            try same(
                "ids", givenTurn(tokenizer, prompt: prompt, message: "", answer: text).answer,
                expected["ids"]!.int32s)
            return
        }
        let template = try templateOf(given, think)
        let turns = given["turns"]!.array.map { turn($0.object) }
        let tools = try given["listing"].map {
            ToolText(
                form: try XCTUnwrap(template.toolForm), listing: $0.string, begin: template.begin,
                textOf: { tokenizer.textOf($0) })
        }
        let ids = {
            try conversationIds(
                tokenizer, template: template, turns: turns, asked: turn(given),
                system: given["system"]?.optional?.string, tools: tools)
        }
        if expected["refused"] != nil {
            try same("the refusal of a prompt", isRefused { _ = try ids() }, true)
        } else {
            try same("ids", ids(), expected["ids"]!.int32s)
        }
    }
}

private func turn(_ given: JsonObject) -> Turn {
    Turn(
        message: given["message"]!.string, answer: given["answer"]?.int32s ?? [],
        results: given["results"]?.strings ?? [])
}

private func templateOf(_ given: JsonObject, _ think: ThinkTags?) throws -> PromptTemplate {
    let slot = given["slot"]!.optional?.object
    return PromptTemplate(
        prefix: given["prefix"]!.string, suffix: given["suffix"]!.string, between: given["between"]!.optional?.string,
        after: given["after"]!.optional?.string, begin: given["begin"]!.string, lead: given["lead"]!.string,
        system: slot.map { SystemSlot(before: $0["before"]!.string, after: $0["after"]!.string) }, think: think,
        trim: trimOf(given), tools: try given.given("tools").map { try readToolForm($0.object) })
}

private func trimOf(_ given: JsonObject) -> [TrimmedEnd] {
    given["trim"].map { $0.strings.map { TrimmedEnd(rawValue: $0)! } } ?? trimmedAnswers
}

/// Whether a prompt or a setting is refused; any other error is thrown on.
private func isRefused(_ body: () throws -> Void) throws -> Bool {
    do {
        try body()
        return false
    } catch OmniDraftError.prompt, OmniDraftError.setting {
        return true
    }
}

private func bytes(_ text: String?) -> [UInt8]? { text.map { Array($0.utf8) } }

/// The rounds of a vector, cut where the output ends.
private final class GivenRounds: Rounds {
    private let bytes: JsonObject
    private let eosIds: Set<Int32>
    private let text: StopText
    private var left: [[Int32]]

    init(_ given: JsonObject, _ text: StopText) {
        bytes = given["bytes"]!.object
        eosIds = Set(given["eos_ids"]!.int32s)
        left = given["rounds"]!.array.map(\.int32s)
        self.text = text
    }

    func next(_ generation: Generation) throws -> Round? {
        let emitted = cutAtStop(left.removeFirst(), eosIds: eosIds, text: text) { bytes["\($0)"]!.hex }
        let verdict = Verdict(accepted: 0, token: 0, isBonus: true, evaluated: 0, acceptedDrafts: 0)
        let outcome = Outcome(draft: Draft(), proposal: Proposal(), verdict: verdict, emitted: emitted.tokens)
        return Round(outcome, learned: 0)
    }

    func pause(_ generation: Generation) {}
    func interrupt() {}
}
