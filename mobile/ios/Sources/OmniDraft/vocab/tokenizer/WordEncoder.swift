// The ids of words by a compiled tokenizer; it needs no regular expressions (spec/02-tokenizer.md).

private let mostWords = 1 << 13  // that are kept with their ids
private let longestKept = 64  // code points of a word

/// Encodes texts, and keeps what it looked up. One thread uses it at a time.
struct WordEncoder {
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
    let low = firstIndex(in: 0..<ids.count) { tables.compareText(Int(ids[$0]), data) < 0 }
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
