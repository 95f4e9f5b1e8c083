/// What the screen is doing.
enum Phase: Sendable {
    case empty
    case opening
    case ready
    case answering
}

/// With drafts or without; the text is the same at temperature 0.
enum Speed: Sendable {
    case speculative
    case plain
}

/// Text of one round.
struct Span: Equatable, Sendable {
    let text: String
    /// Share of its tokens that the drafter proposed and the target accepted, 0 to 1: the tint.
    let drafted: Double
}

/// A message of the user and its answer.
struct Turn: Equatable, Identifiable, Sendable {
    /// Its place in the conversation.
    let id: Int
    let message: String
    /// The answer so far, in order.
    var spans: [Span] = []

    /// The answer so far.
    var answer: String { spans.map(\.text).joined() }
}
