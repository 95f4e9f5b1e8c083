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

/// A tokenizer on the checked tables of a file. What it looked up is kept behind a lock, so any threads share it.
final class Tokenizer: Sendable {
    let name: String
    /// Control tokens, in the order of the file.
    let controls: [Control]
    /// Content of the control token that begins a text; nil for none.
    let addsBos: String?
    private let tables: TokenizerTables
    private let encoder: Guarded<WordEncoder>

    init(_ tables: TokenizerTables, name: String = "tokenizer.bin") {
        self.tables = tables
        self.name = name
        controls = tables.added.filter { $0.flags & AddedFlag.control != 0 }.map {
            var content = String.UnicodeScalarView()
            content.append(contentsOf: $0.content.compactMap(Unicode.Scalar.init))
            return Control(
                id: $0.id, content: String(content), stripsLeft: $0.flags & AddedFlag.lstrip != 0,
                stripsRight: $0.flags & AddedFlag.rstrip != 0)
        }
        addsBos = controls.last { $0.id == tables.bosId }?.content
        encoder = Guarded(WordEncoder(tables))
    }

    /// Maps a file.
    ///
    /// - Throws: ``OmniDraftError/tokenizer(_:)``: the file cannot be read, or it is refused.
    convenience init(file path: String) throws { self.init(try openTokenizerFile(path), name: path) }

    /// What its pieces are made of.
    var kind: TokenizerKind { tables.kind }
    var count: Int { tables.roles.count }
    /// Id of each single byte, -1 for none; if two ids have it, the `<0xNN>` form, which byte fallback uses.
    var byteIds: [Int32] { tables.byteIds }
    /// SHA-256 over every id's bytes and the control tokens: equal vocabularies, equal fingerprints.
    var fingerprint: String { tables.fingerprint }

    /// Bytes of an id; nil for control tokens, unused ids and ids that do not exist.
    func bytes(of id: Int32) -> [UInt8]? {
        if id < 0 || Int(id) >= count { return nil }
        let text = tables.textOf(Int(id))
        switch TokenRole(rawValue: Int(tables.roles[Int(id)])) {
        case .piece: return kind == .sentencePiece ? spaces(text) : text
        case .byte: return [UInt8(truncatingIfNeeded: 16 * hexDigit(text[3]) + hexDigit(text[4]))]
        case .added: return text
        default: return nil
        }
    }

    /// Ids of plain text, with the tokenizer's own dummy prefix and normalisation, without bos or eos.
    func encode(_ points: [UInt32]) -> [Int32] { encoder.with { $0.encode(points) } }
    /// Ids of a text of whole characters in a byte-level vocabulary, not normalised.
    func spellWords(_ points: [UInt32]) -> [Int32] { encoder.with { $0.spellWords(points) } }
    /// The ids of a word of the model, in which U+2581 is a space.
    func pieces(_ word: [UInt32]) -> [Int32] { encoder.with { $0.pieces(word[...]) } }
    /// Plain added tokens of a text that goes on, and the text between; text has no id.
    func parts(_ points: [UInt32]) -> [(range: Range<Int>, id: Int32?)] { encoder.with { $0.goingOn.parts(points) } }

    /// The ids of stray bytes; nil if the vocabulary cannot write them.
    func spellBytes(_ data: [UInt8]) -> [Int32]? {
        if kind == .byteLevel { return pieces(data.map { byteLetters[Int($0)] }) }
        let ids = data.map { tables.byteIds[Int($0)] }
        return ids.contains(noId) ? nil : ids
    }
}

/// The text of a piece with U+2581 as a space.
private func spaces(_ text: [UInt8]) -> [UInt8] {
    var out: [UInt8] = []
    var at = 0
    while at < text.count {
        let isSpace = at + 2 < text.count && text[at] == 0xe2 && text[at + 1] == 0x96 && text[at + 2] == 0x81
        out.append(isSpace ? 0x20 : text[at])
        at += isSpace ? 3 : 1
    }
    return out
}

extension Tokenizer {
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

/// SHA-256 of a vocabulary: spec/03-bundle.md has the bytes.
///
/// - Parameter tokens: bytes of each id; nil for control tokens and unused ids.
func vocabularyFingerprint(_ tokens: [[UInt8]?], _ controls: [(id: Int32, content: String)]) -> String {
    let out = ByteWriter()
    for token in tokens { out.i32(Int32(token?.count ?? -1)).put(token ?? []) }
    for control in controls.sorted(by: { $0.id < $1.id }) { out.put("\(control.id):\(control.content)\n".utf8) }
    return hexOf(sha256(out.bytes))
}
