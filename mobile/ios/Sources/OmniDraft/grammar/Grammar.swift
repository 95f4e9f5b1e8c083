import Foundation

// A grammar: an automaton of bytes with a bounded stack (spec/17-grammar.md).
//
// A text belongs to the grammar if its bytes lead from the start to a configuration without a stack whose state is
// accepting.

/// A state, and the states to return to, the next one last.
struct Configuration: Hashable, Sendable {
    var state: Int32
    var stack: [Int32] = []

    static let start = Configuration(state: 0)
}

/// A move that is nearer to the end of a text or a rule.
struct NearerMove: Sendable {
    /// The lowest byte of its class.
    let byte: UInt8
    let to: Int32
    /// The state to return to, of a move that calls a rule.
    let back: Int32?
}

/// What a text must be: a JSON Schema, a pattern or choices, compiled on a desktop with `omnidraft grammar`.
///
///     let person = try Grammar(contentsOf: url)
///     let result = try await session.result(of: session.chat("Who wrote Emma?", grammar: person))
///
/// One file serves every model. A session keeps what it worked out for a grammar, so the next text with it begins at once.
public struct Grammar: Sendable {
    /// The class of each byte; bytes of one class lead to the same states.
    let classes: [UInt8]
    /// The next state by state and class, -1 for none; a row of ``classCount`` for each state.
    let next: [Int32]
    let classCount: Int
    /// The state to return to, by the place in ``next`` of a move that calls a rule.
    let returns: [Int: Int32]
    /// Whether a text or a rule may end, by state.
    let accepting: [Bool]
    /// The fewest bytes from each state to the end of its text or rule, of those ways that nest least.
    let closing: [Int32]
    /// How much deeper the stack gets on that way, by state.
    let nesting: [Int32]
    /// How deep the stack may get.
    let depth: Int
    /// The SHA-256 of the file.
    let digest: [UInt8]
    /// That the texts call, as a prompt lists them; empty for other grammars.
    let tools: String

    /// Reads a grammar file, of at most 32 MiB.
    ///
    /// - Parameter url: the file.
    /// - Throws: ``OmniDraftError/grammar(_:)``: the file cannot be read, is no grammar file, or its tables contradict each
    ///   other. ``OmniDraftError/setting(_:)``: `url` is not a file URL.
    public init(contentsOf url: URL) throws { self = try loadGrammar(pathOf(url, "url")) }

    /// Of tables whose sizes and ranges were checked.
    init(
        classes: [UInt8], next: [Int32], returns: [Int: Int32], accepting: [Bool], closing: [Int32], nesting: [Int32],
        depth: Int, digest: [UInt8], tools: String = ""
    ) {
        self.classes = classes
        self.next = next
        classCount = next.count / accepting.count
        self.returns = returns
        self.accepting = accepting
        self.closing = closing
        self.nesting = nesting
        self.depth = depth
        self.digest = digest
        self.tools = tools
    }

    /// The configuration behind one more byte; nil where no text goes on so.
    func step(_ at: Configuration, _ byte: UInt8) -> Configuration? { move(at, Int(classes[Int(byte)])) }

    /// The configuration behind a byte of a class.
    func move(_ at: Configuration, _ ofByte: Int) -> Configuration? {
        let place = Int(at.state) * classCount + ofByte
        var behind = Configuration(state: next[place], stack: at.stack)
        if behind.state < 0 { return nil }
        if let back = returns[place] {
            if at.stack.count + Int(nesting[Int(back)]) > depth { return nil }
            behind.stack.append(back)
        }
        if behind.stack.count + Int(nesting[Int(behind.state)]) > depth { return nil }
        while accepting[Int(behind.state)], let back = behind.stack.popLast() { behind.state = back }
        return behind
    }

    /// The configuration behind some bytes.
    func read(_ at: Configuration, _ data: [UInt8]) -> Configuration? {
        var found: Configuration? = at
        for byte in data { found = found.flatMap { step($0, byte) } }
        return found
    }

    /// Whether a text may end here.
    func isComplete(_ at: Configuration) -> Bool { at.stack.isEmpty && accepting[Int(at.state)] }

    /// Whether a text may end here and any byte may follow: the text is no business of the grammar yet.
    func isFree(_ at: Configuration) -> Bool {
        let row = Int(at.state) * classCount
        return isComplete(at) && next[row..<row + classCount].allSatisfy { $0 >= 0 }
    }

    /// Whether a byte may follow a state.
    func goesOn(_ state: Int32) -> Bool {
        let row = Int(state) * classCount
        return next[row..<row + classCount].contains { $0 >= 0 }
    }

    /// The only byte that may follow a state; nil where none or several may.
    func singleByte(_ state: Int32) -> UInt8? {
        let row = Int(state) * classCount
        let following = (0...UInt8.max).lazy.filter { next[row + Int(classes[Int($0)])] >= 0 }.prefix(2)
        return following.count == 1 ? following.first : nil
    }

    /// The move of a state that is nearer to the end; nil where there is none, as in an accepting state.
    func nearer(_ state: Int) -> NearerMove? {
        for ofByte in 0..<classCount {
            let place = state * classCount + ofByte
            let to = Int(next[place])
            if to < 0 || closing[to] >= closing[state] { continue }
            var (left, deep) = (Int(closing[to]), nesting[to])
            let back = returns[place]
            if let back { (left, deep) = (left + Int(closing[Int(back)]), max(1 + deep, nesting[Int(back)])) }
            if left >= Int(closing[state]) || deep > nesting[state] { continue }
            guard let byte = classes.firstIndex(of: UInt8(ofByte)) else { preconditionFailure("each class has a byte") }
            return NearerMove(byte: UInt8(byte), to: Int32(to), back: back)
        }
        return nil
    }
}

/// A refusal of a grammar, or of a file that should hold one.
func grammarError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .grammar(Refusal(fault: fault, message: message, remedy: remedy))
}
