// A tokenizer as bytes: every id is a byte string, every byte string has a spelling (spec/01-tokens.md). All rules are on code
// points or bytes: as strings, different tokens look equal and equal tokens different.

let sentencePieceSpace: UInt32 = 0x2581

/// A control token: it never matches by bytes, and plain text never encodes to it.
///
/// It is an added token that is `special` or has a role; all other added tokens are text (spec/01-tokens.md).
struct Control: Sendable {
    let id: Int32
    let content: String
    /// The white space before it is dropped.
    let stripsLeft: Bool
    /// The white space behind it is dropped.
    let stripsRight: Bool
}

extension Tokenizer {
    /// The control token of a content.
    func control(named content: String) -> Control? {
        controls.last { $0.content.utf8.elementsEqual(content.utf8) }
    }

    /// Ids of plain text, with the tokenizer's own dummy prefix and normalisation, without bos or eos.
    func encode(_ text: String) -> [Int32] { encode(codePoints(text)) }

    /// Ids of a prompt: control tokens are read in the template's strings, never in the texts between.
    func encodePrompt(_ parts: [String], goesOn: Bool = false) -> [Int32] {
        let controls = controls
        let finder = ContentFinder(controls.map { codePoints($0.content) })
        var prompt = PromptRuns(self, goesOn)
        for (number, part) in parts.enumerated() {
            let points = codePoints(part)
            if number % 2 == 1 {
                prompt.add(points[...])
                continue
            }
            var last = 0
            for match in finder.matches(points) {
                prompt.add(points[last..<match.range.lowerBound])
                prompt.add(controls[match.number])
                last = match.range.upperBound
            }
            prompt.add(points[last...])
        }
        return prompt.end()
    }

    /// Bytes of ids in order; control tokens and ids that do not exist are silent.
    func textOf(_ ids: some Sequence<Int32>) -> [UInt8] { ids.flatMap { bytes(of: $0) ?? [] } }

    /// This tokenizer's own tokenization of a fragment: no dummy prefix, no bos, no normalisation.
    ///
    /// - Returns: nil if the vocabulary cannot write exactly these bytes.
    func spell(_ data: [UInt8]) -> [Int32]? {
        var ids: [Int32] = []
        var at = 0
        while at < data.count {
            let isStray = characterLength(data, at) == 0
            var end = at
            while end < data.count {
                let length = characterLength(data, end)
                if (length == 0) != isStray { break }
                end += max(length, 1)
            }
            let part = Array(data[at..<end])
            let spelled = isStray ? spellBytes(part) : spellText(codePoints(String(decoding: part, as: UTF8.self)))
            guard let spelled else { return nil }
            ids += spelled
            at = end
        }
        return textOf(ids) == data ? ids : nil
    }

    /// The ids of a text behind an answer: its plain added tokens, and the text between them spelled.
    ///
    /// - Returns: nil if the vocabulary cannot write exactly this text.
    func goingOnIds(_ points: [UInt32]) -> [Int32]? {
        var ids: [Int32] = []
        for part in parts(points) {
            if let id = part.id {
                ids.append(id)
            } else {
                guard let spelled = spell(utf8(points[part.range])) else { return nil }
                ids += spelled
            }
        }
        return ids
    }

    private func spellText(_ points: [UInt32]) -> [Int32]? {
        if kind == .byteLevel { return spellWords(points) }
        // U+2581 itself: only bytes can write it, because as a piece it means a space.
        var ids: [Int32] = []
        for (index, part) in points.split(separator: sentencePieceSpace, omittingEmptySubsequences: false).enumerated()
        {
            if index > 0 {
                guard let bytes = spellBytes([0xe2, 0x96, 0x81]) else { return nil }
                ids += bytes
            }
            if !part.isEmpty { ids += pieces(part.map { $0 == 0x20 ? sentencePieceSpace : $0 }) }
        }
        return ids
    }
}

/// The ids of a prompt so far, and the text behind its last control token.
private struct PromptRuns {
    private let tokenizer: Tokenizer
    private let goesOn: Bool
    private var ids: [Int32] = []
    private var plain: [UInt32] = []
    private var strips = false

    init(_ tokenizer: Tokenizer, _ goesOn: Bool) {
        self.tokenizer = tokenizer
        self.goesOn = goesOn
    }

    mutating func add(_ text: ArraySlice<UInt32>) { plain += text }

    mutating func add(_ control: Control) {
        addFragment(stripsEnd: control.stripsLeft)
        ids.append(control.id)
        plain = []
        strips = control.stripsRight
    }

    mutating func end() -> [Int32] {
        addFragment(stripsEnd: false)
        return ids
    }

    private mutating func addFragment(stripsEnd: Bool) {
        var part = plain[...]
        if strips { part = part.drop(while: isWhiteSpace) }
        if stripsEnd { while let last = part.last, isWhiteSpace(last) { part.removeLast() } }
        let points = Array(part)
        let goingOn = goesOn && ids.isEmpty ? tokenizer.goingOnIds(points) : nil
        ids += goingOn ?? tokenizer.encode(points)
    }
}

/// Whether a code point has Unicode's property White_Space, unchanged since Unicode 6.3.
func isWhiteSpace(_ point: UInt32) -> Bool {
    switch point {
    case 0x09...0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2000...0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000: return true
    default: return false
    }
}

/// Finds the contents of added tokens in a text: leftmost first, the longest of those that begin there.
///
/// The contents are sorted, and those that share their beginning are a range of them, as in the trie of spellings.
struct ContentFinder: Sendable {
    private let numbers: [Int]
    private let sorted: [[UInt32]]
    private let begins: Set<UInt32>

    /// - Parameter contents: to be found, none of them empty, all different.
    init(_ contents: [[UInt32]]) {
        numbers = contents.indices.sorted { contents[$0].lexicographicallyPrecedes(contents[$1]) }
        sorted = numbers.map { contents[$0] }
        begins = Set(contents.compactMap(\.first))
    }

    /// The matches in a text, none of which overlaps the one before it, each with the number of its content.
    func matches(_ text: [UInt32]) -> [(range: Range<Int>, number: Int)] {
        if sorted.isEmpty { return [] }
        var found: [(Range<Int>, Int)] = []
        var start = 0
        while start < text.count {
            if begins.contains(text[start]), let match = longest(text, start) {
                let end = start + sorted[match].count
                found.append((start..<end, numbers[match]))
                start = end
            } else {
                start += 1
            }
        }
        return found
    }

    /// The place in `sorted` of the longest content that begins at a place of a text.
    private func longest(_ text: [UInt32], _ start: Int) -> Int? {
        var (low, high) = (0, sorted.count)
        var best: Int?
        for depth in 0..<(text.count - start) {
            low = bound(low, high, depth, text[start + depth])
            high = bound(low, high, depth, text[start + depth] + 1)
            if low == high { break }
            // A content comes before those that go on behind it.
            if sorted[low].count == depth + 1 {
                best = low
                low += 1
            }
        }
        return best
    }

    /// The first content from `low` on, of those that agree up to `depth`, whose code point there is not below `point`.
    private func bound(_ low: Int, _ high: Int, _ depth: Int, _ point: UInt32) -> Int {
        var (from, until) = (low, high)
        while from < until {
            let middle = (from + until) / 2
            if sorted[middle][depth] < point { from = middle + 1 } else { until = middle }
        }
        return from
    }
}

/// SHA-256 of a vocabulary: spec/03-bundle.md has the bytes.
///
/// - Parameter tokens: bytes of each id; nil for control tokens and unused ids.
func vocabularyFingerprint(_ tokens: [[UInt8]?], _ controls: [(id: Int32, content: String)]) -> String {
    var out = ByteWriter()
    for token in tokens {
        out.i32(Int32(token?.count ?? -1))
        out.put(token ?? [])
    }
    for control in controls.sorted(by: { $0.id < $1.id }) { out.put("\(control.id):\(control.content)\n".utf8) }
    return hexOf(sha256(out.bytes))
}
