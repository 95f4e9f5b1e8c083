// The compiled form of a chat template: strings around messages (spec/03-bundle.md, "The prompt"; spec/01-tokens.md).

let maxTag = 64  // bytes of a think tag

/// What a conversation keeps of the thought of an earlier answer; the raw value is the name in a manifest.
enum EarlierThoughts: String, Sendable {
    /// All of it.
    case keep
    /// The answer's text up to the end of the close tag is removed.
    case cut
    /// Also the line feeds behind it.
    case trim
}

/// An end of a message at which a template leaves out white space; the raw value is the name in a manifest.
///
/// `first` is the first message of the user, whose start is `behindStart` where a system prompt stands before it, `later`
/// each later one, `answer` an answer that a program gives.
enum TrimmedEnd: String, Sendable, CaseIterable {
    case systemStart = "system_start"
    case systemEnd = "system_end"
    case behindStart = "behind_start"
    case firstStart = "first_start"
    case firstEnd = "first_end"
    case laterStart = "later_start"
    case laterEnd = "later_end"
    case answerStart = "answer_start"
    case answerEnd = "answer_end"
}

let trimmedAnswers: [TrimmedEnd] = [.answerStart, .answerEnd]

/// Whether white space is left out at the start and at the end of a message.
struct Ends: Sendable, Equatable {
    let start: Bool
    let end: Bool
}

/// The text around a system prompt; with it, this takes the place of the template's prefix.
struct SystemSlot: Sendable, Equatable {
    /// From the beginning of the conversation to the system prompt.
    let before: String
    /// From the system prompt to the first message.
    let after: String
}

/// The tags around what a model thinks before it answers.
struct ThinkTags: Sendable, Equatable {
    /// The tag before a thought, such as `<think>`.
    let open: String
    /// The tag behind a thought, such as `</think>`.
    let close: String
    /// What a conversation keeps of the thought of an earlier answer.
    let earlier: EarlierThoughts
}

/// The text around messages; control tokens are read only here, never in a message.
struct PromptTemplate: Sendable, Equatable {
    /// Before the first message.
    let prefix: String
    /// After the first message.
    let suffix: String
    /// From the end of an answer to the next message.
    var between: String?
    /// Between that message and its answer. Both are nil if strings cannot express the template in several turns.
    var after: String?
    /// What follows `suffix` or `after` before the answer that is to be written, and not before an earlier answer.
    var begin = ""
    /// White space that the model writes at the beginning of an answer; an answer that a program gives gets it.
    var lead = ""
    /// The place of a system prompt; nil where the template has none, or strings cannot express it.
    var system: SystemSlot?
    /// The tags of thoughts; nil for a model that writes none.
    var think: ThinkTags?
    /// The ends of messages at which the template leaves out white space.
    var trim = trimmedAnswers
    /// How tools are listed, called and answered; nil where the template has no text for them.
    var tools: ToolForm?

    /// How tools are listed, called and answered: as the template has it, else in the generic form; nil for a model without a
    /// chat template, or without a place for a system prompt or later turns.
    var toolForm: ToolForm? {
        guard tools == nil, let system, let between, let after else { return tools }
        return genericForm(system, between: between, behind: after)
    }

    /// Whether no text stands around messages: the model has no template, and continues what it reads.
    var isBare: Bool {
        suffix.isEmpty && begin.isEmpty && system == nil && (between?.isEmpty ?? false) && (after?.isEmpty ?? false)
    }

    /// The strings around the messages of a conversation, `turns` by the user: before and after the message of each turn. The
    /// string before a later message begins right after the answer to the message before it. With a system prompt the
    /// strings before and after it take the place of the first.
    ///
    /// - Throws: ``OmniDraftError/prompt(_:)``: the template cannot render as many turns, or no system prompt.
    func parts(turns: Int, system: Bool = false) throws -> [String] {
        if turns > 1 && (between == nil || after == nil) {
            throw promptError("this bundle's chat template serves a single turn", "begin a new conversation")
        }
        if system && self.system == nil {
            let remedy = "put the instructions into the first message"
            let nothing = "this model has no chat template, and so no place for a system prompt"
            throw promptError(isBare ? nothing : "this bundle's chat template has no place for a system prompt", remedy)
        }
        var parts: [String] = []
        if system, let slot = self.system {
            parts += [slot.before, slot.after]
        } else {
            parts.append(prefix)
        }
        parts.append(suffix)
        for _ in 1..<max(1, turns) { parts += [between ?? "", after ?? ""] }
        parts.append(parts.removeLast() + begin)
        return parts
    }

    /// At which ends the template leaves out the white space of the system prompt, if there is one, and of each message.
    func trimmed(turns: Int, system: Bool = false) -> [Ends] {
        var all = system ? [ends(.systemStart, .systemEnd)] : []
        all.append(ends(system ? .behindStart : .firstStart, .firstEnd))
        for _ in 1..<max(1, turns) { all.append(ends(.laterStart, .laterEnd)) }
        return all
    }

    /// At which ends white space is left out of an answer that a program gives.
    var trimmedAnswer: Ends { ends(.answerStart, .answerEnd) }

    private func ends(_ start: TrimmedEnd, _ end: TrimmedEnd) -> Ends {
        Ends(start: trim.contains(start), end: trim.contains(end))
    }
}

/// A text without the white space at these ends, as jinja2's `trim` leaves it out.
func trimmed(_ text: String, _ ends: Ends) -> String {
    var scalars = Substring(text).unicodeScalars
    if ends.start { while let first = scalars.first, isSpace(first) { scalars.removeFirst() } }
    if ends.end { while let last = scalars.last, isSpace(last) { scalars.removeLast() } }
    return String(scalars)
}

/// The compiled template in the field `prompt` of a manifest.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readPrompt(_ data: JsonObject) throws -> PromptTemplate {
    let between = try optionalText(data, "between")
    let after = try optionalText(data, "after")
    if (between == nil) != (after == nil) { throw ValueError("one of prompt.between and prompt.after is null") }
    return PromptTemplate(
        prefix: try promptText(data, "prefix"),
        suffix: try promptText(data, "suffix"),
        between: between,
        after: after,
        begin: try promptText(data, "begin"),
        lead: try promptText(data, "lead"),
        system: try data.orNull("system").map { try systemSlot(mapping($0)) },
        think: try data.orNull("think").map { try thinkTags(mapping($0)) },
        trim: try data.given("trim").map(trimmedEnds) ?? trimmedAnswers,
        tools: try data.given("tools").map { try readToolForm(mapping($0)) })
}

private func trimmedEnds(_ data: JsonValue) throws -> [TrimmedEnd] {
    let most = TrimmedEnd.allCases.count
    guard case .array(let values) = data, values.count <= most else {
        throw ValueError("prompt.trim \(quoted(data)) is not an array of at most \(most) names")
    }
    let ends = values.compactMap { value -> TrimmedEnd? in
        guard case .string(let name) = value else { return nil }
        return TrimmedEnd(rawValue: name)
    }
    if ends.count < values.count || Set(ends).count < ends.count {
        throw ValueError("prompt.trim \(quoted(data)) does not name different ends of messages")
    }
    return ends
}

private func systemSlot(_ data: JsonObject) throws -> SystemSlot {
    SystemSlot(before: try promptText(data, "before"), after: try promptText(data, "after"))
}

private func thinkTags(_ data: JsonObject) throws -> ThinkTags {
    let word = try data.at("earlier")
    guard case .string(let name) = word, let earlier = EarlierThoughts(rawValue: name) else {
        throw ValueError("prompt.think.earlier \(quoted(word)) is not keep, cut or trim")
    }
    let open = try text(data.at("open"), most: maxTag)
    let close = try text(data.at("close"), most: maxTag)
    if open.isEmpty || close.isEmpty || open.utf8.elementsEqual(close.utf8) {
        throw ValueError("prompt.think has the tags '\(open)' and '\(close)'")
    }
    return ThinkTags(open: open, close: close, earlier: earlier)
}
