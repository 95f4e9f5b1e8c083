// A compiled tokenizer: it reads a mapped file and needs no regular expressions (spec/02-tokenizer.md).

private let mostWords = 1 << 13  // that are kept with their ids
private let longestKept = 64  // code points of a word

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

/// Encodes texts, and keeps what it looked up. One thread uses it at a time.
private struct WordEncoder {
    private let tables: TokenizerTables
    private let runner: TextStepRunner
    private let merges: MergeTable
    private let pointIds: PointTable<Int32>
    private let raw: AddedTokens
    private let normalized: AddedTokens
    let goingOn: AddedTokens
    private var known: [ArraySlice<UInt32>: [Int32]] = [:]

    init(_ tables: TokenizerTables) {
        self.tables = tables
        let masks = PointTable { classMask(tables.ranges, tables.masks, $0) }
        runner = TextStepRunner(steps: tables.steps, masks: masks)
        merges = MergeTable(tables.mergeKeys, tables.mergeValues)
        pointIds = PointTable { (0xd800...0xdfff).contains($0) ? noId : pieceId(tables, utf8([$0])) }
        let plain = tables.added.filter { $0.flags & AddedFlag.control == 0 }
        let isWord: (UInt32) -> Bool = {
            tables.wordClass != noId && (masks[$0] >> UInt64(tables.wordClass)) & 1 != 0
        }
        raw = AddedTokens(plain.filter { $0.flags & AddedFlag.normalized == 0 }, isWord)
        normalized = AddedTokens(plain.filter { $0.flags & AddedFlag.normalized != 0 }, isWord)
        let other = AddedFlag.normalized | AddedFlag.singleWord
        goingOn = AddedTokens(plain.filter { $0.flags & other == 0 }) { _ in false }
    }

    mutating func encode(_ points: [UInt32]) -> [Int32] {
        var ids: [Int32] = []
        for part in raw.parts(points) {
            if let id = part.id { ids.append(id) } else { addNormalised(points[part.range], &ids) }
        }
        return ids
    }

    private mutating func addNormalised(_ text: ArraySlice<UInt32>, _ ids: inout [Int32]) {
        let points = runner.normalise(Array(text))
        for part in normalized.parts(points) {
            if let id = part.id {
                ids.append(id)
                continue
            }
            let atStart = text.startIndex == 0 && part.range.lowerBound == 0
            for word in runner.words(Array(points[part.range]), atStart: atStart) { ids += pieces(word) }
        }
    }

    mutating func spellWords(_ points: [UInt32]) -> [Int32] {
        let whole = utf8(points).map { byteLetters[Int($0)] }
        let words = runner.words(points, atStart: true)
        // A pre-tokenizer that adds a prefix space changes the bytes: then the fragment is one word.
        if !words.joined().elementsEqual(whole) { return pieces(whole[...]) }
        var ids: [Int32] = []
        for word in words { ids += pieces(word) }
        return ids
    }

    mutating func pieces(_ word: ArraySlice<UInt32>) -> [Int32] {
        if word.count > longestKept { return merged(word) }
        if let ids = known[word] { return ids }
        let ids = merged(word)
        if known.count >= mostWords { known.removeAll(keepingCapacity: true) }
        known[Array(word)[...]] = ids  // a copy, so that no slice keeps a long text alive
        return ids
    }

    /// The ids of a word: the word itself where merges are ignored, else its symbols, merged.
    private func merged(_ word: ArraySlice<UInt32>) -> [Int32] {
        if tables.flags & ModelFlag.ignoreMerges != 0, let data = data(of: word) {
            let id = pieceId(tables, data)
            if id != noId { return [id] }
        }
        var symbols = Symbols(tables)
        for point in word {
            if tables.kind == .byteLevel {
                symbols.add(byteOf(point).map { tables.modelBytes[Int($0)] } ?? noId, nil)
            } else {
                symbols.add(pointIds[point], point)
            }
        }
        return merges.merge(symbols.end())
    }

    /// The bytes that a word of the model stands for; nil where steps behind BYTES put something else into it.
    private func data(of word: ArraySlice<UInt32>) -> [UInt8]? {
        if tables.kind == .sentencePiece { return utf8(word) }
        let bytes = word.compactMap(byteOf)
        return bytes.count == word.count ? bytes : nil
    }
}

/// The id of a piece of the model by its text, `noId` if there is none; binary search.
private func pieceId(_ tables: TokenizerTables, _ data: [UInt8]) -> Int32 {
    let ids = tables.sortedIds
    var (low, high) = (0, ids.count)
    while low < high {
        let middle = (low + high) / 2
        if tables.compareText(Int(ids[middle]), data) < 0 { low = middle + 1 } else { high = middle }
    }
    return low < ids.count && tables.compareText(Int(ids[low]), data) == 0 ? ids[low] : noId
}

/// The symbols that merging begins with.
private struct Symbols {
    private let tables: TokenizerTables
    private var symbols: [Int32] = []
    private var waits = false  // an unknown token comes before the next piece, but behind byte tokens

    init(_ tables: TokenizerTables) { self.tables = tables }

    /// Adds the piece of a character, `noId` if it has none; byte fallback may write `point` then, if it is not nil.
    mutating func add(_ id: Int32, _ point: UInt32?) {
        if id != noId {
            if waits { symbols.append(tables.unknownId) }
            symbols.append(id)
            waits = false
        } else if !fallsBack(point) && tables.unknownId != noId {
            if waits && tables.flags & ModelFlag.fuseUnknown == 0 { symbols.append(tables.unknownId) }
            waits = true
        }
    }

    private mutating func fallsBack(_ point: UInt32?) -> Bool {
        guard let point, tables.flags & ModelFlag.byteFallback != 0 else { return false }
        let ids = utf8([point]).map { tables.modelBytes[Int($0)] }
        if ids.contains(noId) { return false }
        symbols += ids
        return true
    }

    mutating func end() -> [Int32] {
        if waits { symbols.append(tables.unknownId) }
        return symbols
    }
}

/// Added tokens that are read in plain text.
private struct AddedTokens {
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
