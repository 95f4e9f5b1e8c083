/// Added tokens that are read in plain text.
struct AddedTokens {
    private let tokens: [AddedToken]
    private let finder: ContentFinder
    private let isWord: (UInt32) -> Bool

    /// - Parameter isWord: whether a code point belongs to a word; asked for tokens that are single words alone.
    init(_ tokens: [AddedToken], _ isWord: @escaping (UInt32) -> Bool) {
        self.tokens = tokens
        self.isWord = isWord
        finder = ContentFinder(tokens.map(\.content))
    }

    /// Added tokens and the text between them, in order; text has no id.
    func parts(_ text: [UInt32]) -> [(range: Range<Int>, id: Int32?)] {
        var parts: [(Range<Int>, Int32?)] = []
        var last = 0
        var space = 0  // up to there all is white space behind a token with RSTRIP
        for match in finder.matches(text) {
            let token = tokens[match.number]
            let (from, until) = (match.range.lowerBound, match.range.upperBound)
            if token.flags & AddedFlag.singleWord != 0 && isInsideWord(text, from, until) { continue }
            let start = token.flags & AddedFlag.lstrip != 0 ? beforeSpace(text, last, from) : from
            if last < start { parts.append((last..<start, nil)) }
            last = until
            if token.flags & AddedFlag.rstrip != 0 {
                space = behindSpace(text, max(until, space))
                last = space
            }
            parts.append((min(start, last)..<last, token.id))
        }
        if last < text.count { parts.append((last..<text.count, nil)) }
        return parts
    }

    private func isInsideWord(_ text: [UInt32], _ start: Int, _ end: Int) -> Bool {
        (start > 0 && isWord(text[start - 1])) || (end < text.count && isWord(text[end]))
    }

    /// The first place from `last` on that has only white space up to `start`; `last` where that is behind it.
    private func beforeSpace(_ text: [UInt32], _ last: Int, _ start: Int) -> Int {
        var at = max(start, last)
        while at > last && isWhiteSpace(text[at - 1]) { at -= 1 }
        return at
    }

    private func behindSpace(_ text: [UInt32], _ end: Int) -> Int {
        var at = end
        while at < text.count && isWhiteSpace(text[at]) { at += 1 }
        return at
    }
}
