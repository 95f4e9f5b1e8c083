// The thought of an answer: where it ends, and how a stream tells it apart (spec/01-tokens.md, Thoughts).

private let white = Array(" \t\n\r".utf8)  // before the open tag

/// The byte of an output at which its answer begins: 0 without a thought, its length if one is not closed.
func answerStart(_ output: [UInt8], _ tags: ThinkTags, inside: Bool) -> Int {
    let begun = output.firstIndex { !white.contains($0) } ?? output.count
    if !inside && !begins(output, begun, Array(tags.open.utf8)) { return 0 }
    let close = Array(tags.close.utf8)
    let at = output.indices.first { begins(output, $0, close) }
    return at.map { $0 + close.count } ?? output.count
}

/// The byte of an output at which the part begins that a conversation keeps of it (``ThinkTags/earlier``).
///
/// The parameters are those of `answerStart`.
func keptStart(_ output: [UInt8], _ tags: ThinkTags, inside: Bool) -> Int {
    if tags.earlier == .keep { return 0 }
    var start = answerStart(output, tags, inside: inside)
    if start > 0 && tags.earlier == .trim {
        while start < output.count && output[start] == UInt8(ascii: "\n") { start += 1 }
    }
    return start
}

private func begins(_ data: [UInt8], _ at: Int, _ part: [UInt8]) -> Bool {
    at + part.count <= data.count && data[at..<at + part.count].elementsEqual(part)
}

/// A text in two parts.
struct SplitText: Sendable, Equatable {
    /// What the model thought, without the tags.
    let thought: String
    let answer: String
}

/// The thought and the answer of an output, without tags and without the white space around the tags.
///
/// - Parameter tags: of the model; nil for a model that writes no thoughts.
func splitThought(_ output: String, _ tags: ThinkTags?, inside: Bool = false) -> SplitText {
    guard let tags else { return SplitText(thought: "", answer: output) }
    let data = Array(output.utf8)
    let start = answerStart(data, tags, inside: inside)
    let answer = String(decoding: data[start...], as: UTF8.self)
    if start == 0 { return SplitText(thought: "", answer: answer) }
    var thought = Array(stripped(String(decoding: data[..<start], as: UTF8.self)).utf8)
    let (open, close) = (Array(tags.open.utf8), Array(tags.close.utf8))
    if begins(thought, 0, open) { thought.removeFirst(open.count) }
    if thought.count >= close.count, begins(thought, thought.count - close.count, close) {
        thought.removeLast(close.count)
    }
    var scalars = Substring(answer).unicodeScalars
    while let first = scalars.first, isSpace(first) { scalars.removeFirst() }
    return SplitText(thought: stripped(String(decoding: thought, as: UTF8.self)), answer: String(scalars))
}

/// The answer in a text that a program gives as an earlier answer: no thought, no white space behind it.
///
/// - Parameters:
///   - text: of the program; the open tag may be missing, where the template writes it.
///   - tags: of the model; nil for a model that writes no thoughts.
func givenAnswer(_ text: String, _ tags: ThinkTags?, _ ends: Ends = Ends(start: true, end: true)) -> String {
    guard let tags else { return trimmed(text, ends) }
    let data = Array(text.utf8)
    let inside = data.indices.contains { begins(data, $0, Array(tags.close.utf8)) }
    return trimmed(splitThought(text, tags, inside: inside).answer, ends)
}

struct StreamPart: Sendable, Equatable {
    /// The text that became certain.
    let text: String
    /// Whether it is thought; the tags belong to the thought.
    let isThought: Bool
}

/// Tells thought from answer while an output streams. The tags belong to the thought.
///
/// Text that may be the beginning of a tag is held back. All comparisons are of bytes.
struct ThoughtStream {
    private enum State { case start, thought, answer }

    private let open: [UInt8]
    private let close: [UInt8]
    private var held: [UInt8] = []
    private var state: State

    init(_ tags: ThinkTags, inside: Bool) {
        (open, close) = (Array(tags.open.utf8), Array(tags.close.utf8))
        state = inside ? .thought : .start
    }

    /// Whether the text so far ends inside a thought.
    var isThinking: Bool { state == .thought }

    /// The text that became certain, in order.
    mutating func push(_ text: String) -> [StreamPart] {
        if state == .answer { return parts(Array(text.utf8), false) }
        held += Array(text.utf8)
        if state == .start {
            let begun = Array(held.drop { white.contains($0) })
            if begins(begun, 0, open) {
                state = .thought
            } else if begins(open, 0, begun) {
                return []
            } else {
                state = .answer
                return end()
            }
        }
        return thought()
    }

    /// The text that was held back, at the end of the output.
    mutating func end() -> [StreamPart] {
        defer { held = [] }
        return parts(held, isThinking)
    }

    private mutating func thought() -> [StreamPart] {
        let all = held
        if let at = all.indices.first(where: { begins(all, $0, close) }) {
            state = .answer
            held = []
            let end = at + close.count
            return parts(Array(all[..<end]), true) + parts(Array(all[end...]), false)
        }
        let longest = min(close.count - 1, all.count)
        let keep = stride(from: longest, to: 0, by: -1).first { all.suffix($0).elementsEqual(close.prefix($0)) } ?? 0
        held = Array(all.suffix(keep))
        return parts(Array(all.dropLast(keep)), true)
    }

    private func parts(_ text: [UInt8], _ isThought: Bool) -> [StreamPart] {
        text.isEmpty ? [] : [StreamPart(text: String(decoding: text, as: UTF8.self), isThought: isThought)]
    }
}
