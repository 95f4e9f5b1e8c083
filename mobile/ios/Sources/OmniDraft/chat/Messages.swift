// A conversation as programs keep it: a list of messages with a role and a content (spec/01-tokens.md, Conversations).

let maxMessages = 1 << 17
let maxContent = 1 << 22  // bytes; a session file holds no longer message
let roles = ["system", "user", "assistant"]

/// A message of the user with the answer to it, both as texts.
struct GivenTurn: Sendable, Equatable {
    let message: String
    let answer: String
}

struct MessageList: Sendable, Equatable {
    /// The system prompt; nil without one.
    let system: String?
    /// Earlier messages of the user, each with the answer to it.
    let turns: [GivenTurn]
    let message: String
}

/// The messages that a program gives, each as its role and its content.
///
/// A system prompt stands first or is absent; then user and assistant take turns; the last message is the user's.
func readMessages(_ messages: [(role: String, content: String)]) throws -> MessageList {
    if messages.count > maxMessages {
        throw promptError("there are \(messages.count) messages, more than \(maxMessages)", "leave old ones out")
    }
    for (index, message) in messages.enumerated() { try checkMessage(index + 1, message.role, message.content) }
    let system = messages.first.flatMap { $0.role == "system" ? $0.content : nil }
    let rest = Array(messages.dropFirst(system == nil ? 0 : 1))
    let shift = messages.count - rest.count
    for (index, message) in rest.enumerated() { try checkTurn(shift + index + 1, message.role, index % 2 == 1) }
    guard rest.count % 2 == 1, let last = rest.last else {
        throw promptError("the last message is not the user's", "end with the message to answer")
    }
    let turns = (0..<rest.count / 2).map { GivenTurn(message: rest[2 * $0].content, answer: rest[2 * $0 + 1].content) }
    return MessageList(system: system, turns: turns, message: last.content)
}

/// A prompt's text, unchanged.
///
/// - Throws: ``OmniDraftError/prompt(_:)``: empty, white space alone, or too long.
func checkedText(_ text: String, name: String = "the prompt") throws -> String {
    if text.isEmpty { throw promptError("\(name) is empty", "give some text") }
    if text.unicodeScalars.allSatisfy(isSpace) { throw promptError("\(name) is white space alone", "give some text") }
    try checkSize(text, name)
    return text
}

/// A text without the white space at both ends.
func stripped(_ text: String) -> String {
    var scalars = Substring(text).unicodeScalars
    while let first = scalars.first, isSpace(first) { scalars.removeFirst() }
    while let last = scalars.last, isSpace(last) { scalars.removeLast() }
    return String(scalars)
}

/// Unicode's white space, and the four separators of ASCII.
func isSpace(_ scalar: Unicode.Scalar) -> Bool {
    isWhiteSpace(scalar.value) || (scalar.value >= 0x1c && scalar.value <= 0x1f)
}

func promptError(_ message: String, _ remedy: String = "", fault: String = "") -> OmniDraftError {
    .prompt(Refusal(fault: fault, message: message, remedy: remedy))
}

private func checkTurn(_ number: Int, _ role: String, _ isAnswer: Bool) throws {
    let expected = isAnswer ? "assistant" : "user"
    if role == expected { return }
    throw promptError(
        "message \(number) has the role \(role) where one of the \(expected) is due",
        "give at most one system message, first, and then user and assistant in turn")
}

private func checkMessage(_ number: Int, _ role: String, _ content: String) throws {
    let name = "message \(number)"
    if !roles.contains(role) {
        throw promptError("\(name) has the role '\(role.prefix(38))'", "the roles are system, user and assistant")
    }
    if role != "assistant" && content.unicodeScalars.allSatisfy(isSpace) {
        throw promptError("\(name), of the \(role), has no text", "leave it out, or give it a text")
    }
    try checkSize(content, name)
}

func checkSize(_ text: String, _ name: String) throws {
    if text.utf8.count > maxContent { throw promptError("\(name) has more than \(maxContent) bytes", "shorten it") }
}
