// How a model is told of tools and of their results, as strings (spec/03-bundle.md, Tools).

let maxPrompt = 1 << 16  // bytes of each text of the field `prompt`
private let mostIndent = 8
private let mostId = 64
private let genericCalls = CallForm(open: "<tool_call>[", between: ", ", close: "]</tool_call>", arguments: "arguments")
private let told =
    "You can call these tools. Each line describes one, with the JSON Schema of its arguments.\n<tools>\n"
private let asked =
    "\n</tools>\nTo call tools, write a list of calls and nothing behind it:\n"
    + "<tool_call>[{\"name\": \"the tool\", \"arguments\": {\"an argument\": \"its value\"}}]</tool_call>"
private let beforeResult = "The result of the call:\n<tool_response>\n"
private let betweenResults = "\n</tool_response>\n<tool_response>\n"
private let behindResult = "\n</tool_response>\nSay it in a sentence."

/// The text around a system prompt and the tools: before, between, and after both.
struct ListingSlot: Sendable, Equatable {
    let before: String
    let between: String
    let after: String
}

/// The text around results, up to where an answer begins.
struct ResultForm: Sendable, Equatable {
    let before: String
    /// Two results.
    let between: String
    let after: String
    /// Whether a result is written as a JSON string.
    let isQuoted: Bool
    /// Between a result and the id of its call; nil where results have no ids.
    var named: String?
}

/// The text around tools, calls and results; control tokens are read here, never in what is between.
///
/// The list of the tools comes with a grammar: `omnidraft grammar` writes it as the template does.
struct ToolForm: Sendable, Equatable {
    /// From the beginning of the text to the tools.
    let before: String
    /// From the tools to the message.
    let after: String
    /// The same with a system prompt before the tools; nil where there is no place for one.
    let system: ListingSlot?
    let calls: CallForm
    let results: ResultForm
    /// From the end of an answer to the tools, where they stand before the last message; nil: before the first.
    var later: String?

    /// The strings before the first message, as `Tokenizer.encodePrompt` takes them.
    func opening(_ listing: String, system prompt: String?) -> [String] {
        guard let prompt else { return [before, listing, after] }
        guard let system else { preconditionFailure("the template was asked for its place of a system prompt") }
        return [system.before, prompt, system.between, listing, system.after]
    }

    /// The strings before a later message, where the tools move to the last one.
    func moved(_ listing: String) -> [String] { [later ?? "", listing, after] }

    /// The strings from the end of the calls to the answer to their results.
    ///
    /// - Parameters:
    ///   - begin: of the template, before an answer that is to be written.
    ///   - called: the answer with the calls, which has their ids.
    func answered(_ given: [String], begin: String, called: [UInt8]) -> [String] {
        let ids = results.named == nil ? [] : calls.read(called).map(\.id)
        var parts = [results.before]
        for (number, result) in given.enumerated() {
            let name = results.named.map { $0 + (number < ids.count ? ids[number] : "") } ?? ""
            parts.append(results.isQuoted ? quotedJson(result) : result)
            parts.append(name + (number < given.count - 1 ? results.between : results.after + begin))
        }
        return parts
    }
}

/// The form for a model whose chat template has none.
///
/// - Parameters:
///   - slot: of the template, around a system prompt.
///   - between: of the template, before a later message.
///   - behind: of the template, behind it.
func genericForm(_ slot: SystemSlot, between: String, behind: String) -> ToolForm {
    ToolForm(
        before: slot.before + told, after: asked + slot.after,
        system: ListingSlot(before: slot.before, between: "\n\n" + told, after: asked + slot.after),
        calls: genericCalls,
        results: ResultForm(
            before: between + beforeResult, between: betweenResults, after: behindResult + behind, isQuoted: false))
}

/// The field `prompt.tools` of a manifest.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readToolForm(_ data: JsonObject) throws -> ToolForm {
    let (calls, results) = (try mapping(data.at("calls")), try mapping(data.at("results")))
    let arguments = try promptText(calls, "arguments")
    if !isSame(arguments, "arguments") && !isSame(arguments, "parameters") {
        throw ValueError("prompt.tools.calls.arguments is '\(arguments.prefix(78))'")
    }
    if let indent = try data.orNull("indent") { _ = try integer(indent, in: 0...mostIndent) }
    _ = try promptText(data, "between")
    return ToolForm(
        before: try promptText(data, "before"), after: try promptText(data, "after"),
        system: try data.orNull("system").map { try listingSlot(mapping($0)) },
        calls: CallForm(
            open: try promptText(calls, "open"), between: try optionalText(calls, "between"),
            close: try promptText(calls, "close"), arguments: arguments,
            idLength: try integer(calls.at("id_length"), in: 0...mostId)),
        results: ResultForm(
            before: try promptText(results, "before"), between: try promptText(results, "between"),
            after: try promptText(results, "after"), isQuoted: try boolean(results.at("is_quoted")),
            named: try optionalText(results, "named")),
        later: try optionalText(data, "later"))
}

private func listingSlot(_ data: JsonObject) throws -> ListingSlot {
    ListingSlot(
        before: try promptText(data, "before"), between: try promptText(data, "between"),
        after: try promptText(data, "after"))
}

func promptText(_ data: JsonObject, _ name: String) throws -> String { try text(data.at(name), most: maxPrompt) }

/// The same; nil where it is null.
func optionalText(_ data: JsonObject, _ name: String) throws -> String? {
    try data.orNull(name).map { try text($0, most: maxPrompt) }
}

private func quotedJson(_ text: String) -> String {
    let short: [Unicode.Scalar: String] = [
        "\"": "\\\"", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u{8}": "\\b", "\u{c}": "\\f",
    ]
    let escaped = text.unicodeScalars.map { scalar in
        short[scalar] ?? (scalar.value < 0x20 ? "\\u00" + hexOf([UInt8(scalar.value)]) : String(scalar))
    }
    return "\"" + escaped.joined() + "\""
}
