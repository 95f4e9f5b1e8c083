// The bytes of an output's text, with its tags; the ids that a conversation keeps (spec/01-tokens.md, Thoughts).

private let mostTail = 128  // ids at the end of a prompt in which an open tag is looked for
private let whiteBytes = Array(" \t\n\r".utf8)  // behind the open tag

/// Reads the ids of outputs as text in which tags of thoughts and calls are written.
struct OutputText: Sendable {
    private let tokenizer: Tokenizer
    private let think: ThinkTags?
    private let plainBytesOf: @Sendable (Int32) -> [UInt8]
    /// What the text has of a control token.
    let shown: [Int32: [UInt8]]
    private let silent: Set<Int32>

    /// - Parameters:
    ///   - think: tags of the model; nil for a model that writes no thoughts.
    ///   - calls: how calls of tools are written; nil for a model that cannot call any.
    init(
        _ tokenizer: Tokenizer, think: ThinkTags?, calls: CallForm? = nil,
        _ plainBytesOf: @escaping @Sendable (Int32) -> [UInt8]
    ) {
        self.tokenizer = tokenizer
        self.think = think
        self.plainBytesOf = plainBytesOf
        var tags: [Int32: [UInt8]] = [:]
        for name in [think?.open, think?.close].compactMap({ $0 }) {
            if let control = tokenizer.control(named: name) { tags[control.id] = Array(name.utf8) }
        }
        silent = Set(tokenizer.controls.map(\.id)).subtracting(tags.keys)
        if let calls {
            let called = Array((calls.open + calls.close).utf8)
            for control in tokenizer.controls {
                let name = Array(control.content.utf8)
                if called.indices.contains(where: { called[$0...].starts(with: name) }) { tags[control.id] = name }
            }
        }
        shown = tags
    }

    /// Bytes of an id: tags of thoughts and calls are written, every other control token is silent.
    func bytesOf(_ token: Int32) -> [UInt8] { shown[token] ?? plainBytesOf(token) }

    func text(_ ids: some Sequence<Int32>) -> [UInt8] { ids.flatMap(bytesOf) }

    /// Whether an output after a prompt begins inside a thought: the prompt ends with the open tag.
    ///
    /// White space may stand behind the tag, but no other control token.
    func endsInThought(_ prompt: [Int32]) -> Bool {
        guard let think else { return false }
        var first = prompt.count
        while first > max(0, prompt.count - mostTail) && !silent.contains(prompt[first - 1]) { first -= 1 }
        var data = text(prompt[first...])
        while let last = data.last, whiteBytes.contains(last) { data.removeLast() }
        return data.suffix(think.open.utf8.count).elementsEqual(think.open.utf8)
    }

    /// The ids of an answer that a conversation keeps: without its thought, if the template leaves it out.
    ///
    /// - Parameter ids: of the answer, without the token or string that ended it.
    func kept(_ ids: [Int32], inside: Bool) -> [Int32] {
        let start = think.map { keptStart(text(ids), $0, inside: inside) } ?? 0
        if start == 0 { return ids }
        let whole = wholeTokens(ids.map { bytesOf($0).count }, start)
        if whole.bytes == 0 { return Array(ids[whole.tokens...]) }
        // The thought ends inside a token: the bytes behind it are spelled again.
        let data = bytesOf(ids[whole.tokens])
        return (tokenizer.spell(Array(data[whole.bytes...])) ?? []) + ids[(whole.tokens + 1)...]
    }
}
