// How a model writes calls of tools, and how they are read from its output (spec/17-grammar.md, Tools).

private let begun = Array("{\"name\": \"".utf8)

/// The text of calls: `open`, objects such as `{"name": "f", "arguments": {}}`, and `close`.
struct CallForm: Sendable, Equatable {
    let open: String
    /// Two calls; nil for a model that writes one call in an answer.
    let between: String?
    let close: String
    /// The name of the property with the arguments.
    let arguments: String
    /// Letters and digits of the property `id` behind them; 0 for a model that writes none.
    var idLength = 0

    private var opened: [UInt8] {
        var scalars = Substring(open).unicodeScalars
        while let first = scalars.first, isSpace(first) { scalars.removeFirst() }
        return Array(String(scalars).utf8)
    }

    /// The bytes at which calls begin: the first tag of `open`, else all of it, else that of an object.
    var marker: [UInt8] {
        let opened = opened
        let ends: [UInt8: UInt8] = [UInt8(ascii: "<"): UInt8(ascii: ">"), UInt8(ascii: "["): UInt8(ascii: "]")]
        if let end = opened.first.flatMap({ ends[$0] }), let at = opened.firstIndex(of: end) {
            return Array(opened[...at])
        }
        return opened.isEmpty ? begun : opened
    }

    /// Whether nothing marks calls, so that they are calls only at the beginning of an answer.
    var isWholeAnswer: Bool { opened.isEmpty }

    /// Whether a grammar calls tools in this form: what begins a call is no free text in it.
    func fits(_ grammar: Grammar) -> Bool {
        [Array(open.utf8) + begun, opened + begun].contains { text in
            grammar.read(.start, text).map { !grammar.isFree($0) } ?? false
        }
    }

    /// The byte of an output at which its calls begin; its length where there are none.
    func start(_ output: [UInt8]) -> Int {
        let marker = marker
        if isWholeAnswer { return output.starts(with: marker) ? 0 : output.count }
        return output.indices.first { output[$0...].starts(with: marker) } ?? output.count
    }

    /// The calls of an output, up to one that is not whole.
    func read(_ output: [UInt8]) -> [ToolCall] {
        var rest = output[start(output)...]
        if rest.starts(with: opened) { rest = rest.dropFirst(opened.count) }
        var calls: [ToolCall] = []
        while rest.first == UInt8(ascii: "{"), let end = objectEnd(rest), let call = call(Array(rest[..<end])) {
            calls.append(call)
            rest = rest[end...]
            guard let between, rest.starts(with: between.utf8) else { break }
            rest = rest.dropFirst(between.utf8.count)
        }
        return calls
    }

    private func call(_ text: [UInt8]) -> ToolCall? {
        guard let value = try? parseJson(text), case .object(let object) = value,
            case .string(let name) = object["name"], case .object = object[arguments]
        else { return nil }
        let before = begun + Array(name.utf8) + Array("\", \"\(arguments)\": ".utf8)
        let rest = text.dropFirst(before.count)
        guard text.starts(with: before), let end = objectEnd(rest) else { return nil }
        var id = ""
        if idLength > 0 {
            guard case .string(let given) = object["id"], given.utf8.count == idLength,
                given.utf8.allSatisfy(isLetterOrDigit)
            else { return nil }
            id = given
        }
        return ToolCall(name: name, arguments: String(decoding: rest[..<end], as: UTF8.self), id: id)
    }
}

/// Where the object at the beginning of a text ends; nil where it does not.
private func objectEnd(_ text: ArraySlice<UInt8>) -> Int? {
    var (depth, isText, isEscaped) = (0, false, false)
    for (at, byte) in zip(text.indices, text) {
        switch byte {
        case _ where isEscaped: isEscaped = false
        case UInt8(ascii: "\\") where isText: isEscaped = true
        case UInt8(ascii: "\""): isText.toggle()
        case _ where isText: break
        case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            depth -= 1
            if depth == 0 { return at + 1 }
        default: break
        }
    }
    return nil
}

/// Tells calls from the text before them while an output streams; what may begin a marker is held back.
struct CallStream {
    private enum State { case start, text, call }

    private let form: CallForm
    private let marker: [UInt8]
    private var held: [UInt8] = []
    private var state = State.start

    init(_ form: CallForm) {
        self.form = form
        marker = form.marker
    }

    /// The text before calls, and the text of calls, that became certain.
    mutating func push(_ text: String) -> (said: String, called: String) {
        if state == .call { return ("", text) }
        if state == .text && form.isWholeAnswer { return (text, "") }
        held += text.utf8
        let start = form.start(held)
        if start < held.count {
            state = .call
            return (take(start), take(held.count))
        }
        let keep: Int
        if form.isWholeAnswer {
            keep = marker.starts(with: held) ? held.count : 0
        } else {
            let longest = min(marker.count - 1, held.count)
            keep = stride(from: longest, to: 0, by: -1).first { held.suffix($0).elementsEqual(marker.prefix($0)) } ?? 0
        }
        if keep < held.count { state = .text }
        return (take(held.count - keep), "")
    }

    /// The text that was held back, at the end of the output.
    mutating func end() -> String { take(held.count) }

    private mutating func take(_ size: Int) -> String {
        defer { held.removeFirst(size) }
        return String(decoding: held[..<size], as: UTF8.self)
    }
}
