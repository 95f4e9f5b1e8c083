// Read the file of a compiled tokenizer (spec/02-tokenizer.md): it is mapped, not copied, and every number in it is checked. A
// wrong *order* of pieces is not looked for: it gives other ids and nothing worse.

private let versionEnd = 12
private let fingerprintAt = 16
private let fingerprintEnd = 48

/// Maps a file into memory and checks it.
///
/// - Throws: ``OmniDraftError/tokenizer(_:)``: the file cannot be read, or it is refused.
func openTokenizerFile(_ path: String) throws -> TokenizerTables {
    do {
        return try readTokenizerFile(mapFile(path))
    } catch let error as FileError {
        throw tokenizerError("unreadable", "\(path) cannot be read (\(error.message))")
    } catch OmniDraftError.tokenizer(let refusal) {
        let message = "\(path) is refused: \(refusal.message)"
        throw OmniDraftError.tokenizer(
            Refusal(fault: refusal.fault, message: message, remedy: "run `omnidraft export` again"))
    }
}

/// Checks the bytes of a file; they are used in place.
///
/// - Throws: ``OmniDraftError/tokenizer(_:)``: they are refused; the fault names why.
func readTokenizerFile(_ data: Bytes) throws -> TokenizerTables {
    let sections = try TokenizerSections(data)
    let header = TokenizerHeader(data)
    try checkIds(sections, header.ids)
    try checkMerges(sections, header.ids)
    try checkClasses(sections, header.classes)
    try header.check()
    let strings = try TokenizerStrings(sections)
    guard let kind = TokenizerKind(rawValue: header.kind) else { preconditionFailure("the header was checked") }
    let added = try addedTokens(sections.words(.added), strings, header.ids, header.wordClass)
    let steps = try textSteps(sections, strings, header.classes, header.kind)
    try checkWork(steps, added)
    return TokenizerTables(
        fingerprint: header.fingerprint, kind: kind, flags: header.flags,
        unknownId: header.unknownId, bosId: header.bosId, wordClass: header.wordClass,
        offsets: sections.words(.offsets), text: sections[.text], roles: IntTable(sections[.roles], width: 1),
        sortedIds: sections.words(.sorted), mergeKeys: LongTable(sections[.mergeKeys]),
        mergeValues: sections.words(.mergeValues), byteIds: sections.words(.byteIds).array(),
        modelBytes: sections.words(.modelBytes).array(), added: added,
        ranges: sections.words(.ranges), masks: LongTable(sections[.masks]), steps: steps)
}

func tokenizerError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .tokenizer(Refusal(fault: fault, message: message, remedy: remedy))
}

/// Refuses a tokenizer's file, unless something holds.
func requireSound(_ holds: Bool, _ fault: String, _ message: @autoclosure () -> String) throws {
    if !holds { throw tokenizerError(fault, message()) }
}

/// The sections of a file; each begins at the first multiple of 8 behind the one before it.
struct TokenizerSections {
    private var sections: [TokenizerSection: Bytes] = [:]

    init(_ data: Bytes) throws {
        try checkBeginning(data)
        var end = sectionsStart
        for (index, section) in TokenizerSection.allCases.enumerated() {
            let start = data.u32(tableAt + 8 * index)
            let length = data.u32(tableAt + 8 * index + 4)
            try requireSound(
                start == end && length % sectionSizes[index] == 0, "layout",
                "its section \(section.rawValue) is not where it must be")
            try requireSound(
                start + length <= data.count, "truncated", "its section \(section.rawValue) ends behind its last byte")
            sections[section] = data.part(start, start + length)
            end = (start + length + 7) / 8 * 8
        }
        try requireSound(data.count >= end, "truncated", "it has \(data.count) bytes of \(end)")
        try requireSound(data.count == end, "layout", "it has \(data.count) bytes and its sections need \(end)")
    }

    subscript(_ section: TokenizerSection) -> Bytes { sections[section] ?? Bytes([]) }

    /// A section of integers of 4 bytes.
    func words(_ section: TokenizerSection) -> IntTable { IntTable(self[section], width: 4) }
}

private func checkBeginning(_ data: Bytes) throws {
    let magic = Array(tokenizerMagic.utf8)
    let isOne = data.count >= magic.count && data.array(0, magic.count) == magic
    try requireSound(isOne, "not_a_tokenizer", "it is not a compiled tokenizer")
    try requireSound(data.count >= versionEnd, "truncated", "it has \(data.count) bytes")
    let version = data.u32(magic.count)
    try requireSound(
        version == tokenizerVersion, "version",
        "it has version \(version) and this omnidraft reads version \(tokenizerVersion)")
    try requireSound(
        data.count >= sectionsStart, "truncated", "it has \(data.count) bytes and a header has \(sectionsStart)")
    let count = data.u32(versionEnd)
    try requireSound(
        count == TokenizerSection.allCases.count, "header",
        "it has \(count) sections, and a tokenizer has \(TokenizerSection.allCases.count)")
    try requireSound(data.count <= mostTokenizerBytes, "header", "it has more than \(mostTokenizerBytes) bytes")
}

/// The numbers of the header; sections and version were checked before.
private struct TokenizerHeader {
    let fingerprint: String
    let ids: Int
    let kind: Int
    let flags: Int
    let unknownId: Int32
    let bosId: Int32
    let wordClass: Int32
    let classes: Int
    private let zero: Int

    init(_ data: Bytes) {
        fingerprint = hexOf(data.array(fingerprintAt, fingerprintEnd))
        let numbers = IntTable(data.part(fingerprintEnd, tableAt), width: 4)
        ids = numbers.unsigned(0)
        kind = numbers.unsigned(1)
        flags = numbers.unsigned(2)
        unknownId = numbers[3]
        bosId = numbers[4]
        wordClass = numbers[5]
        classes = numbers.unsigned(6)
        zero = numbers.unsigned(7)
    }

    func check() throws {
        let isSound = kind < 2 && flags < 8 && zero == 0
        let idsFit = [unknownId, bosId].allSatisfy { $0 >= noId && Int($0) < ids }
        try requireSound(
            isSound && idsFit && wordClass >= noId && Int(wordClass) < classes, "header",
            "a number of its header is out of range")
    }
}

/// Whether all entries, unsigned, are below a bound that is below 2^31.
private func isBelow(_ table: IntTable, _ bound: Int) -> Bool {
    (0..<table.count).allSatisfy { table[$0] >= 0 && Int(table[$0]) < bound }
}

/// The tables with an entry for each id.
private func checkIds(_ sections: TokenizerSections, _ ids: Int) throws {
    let offsets = sections.words(.offsets)
    let roles = IntTable(sections[.roles], width: 1)
    let text = sections[.text]
    try requireSound(ids >= 1 && ids <= mostIds, "header", "it has \(ids) ids")
    try requireSound(offsets.count == ids + 1 && roles.count == ids, "layout", "a table has another number of ids")
    try requireSound(offsetsFit(offsets, text.count), "offset", "the offsets of its ids do not ascend")
    try requireSound(isBelow(roles, TokenRole.added.rawValue + 1), "role", "an id has an unknown role")
    let byteTokens = (0..<ids).filter { Int(roles[$0]) == TokenRole.byte.rawValue }
    try requireSound(byteTokens.count <= mostByteTokens, "role", "it has \(byteTokens.count) byte tokens")
    for id in byteTokens {
        let form = text.array(Int(offsets[id]), Int(offsets[id + 1]))
        try requireSound(isByteToken(form), "role", "\(id) is not a byte token")
    }
    try requireSound(isBelow(sections.words(.sorted), ids), "id", "a piece has an id that is too large")
    for section in [TokenizerSection.byteIds, .modelBytes] {
        let table = sections.words(section)
        try requireSound(
            table.count == 256, "layout", "its section \(section.rawValue) has \(table.count) entries of 256")
        let fits = table.array().allSatisfy { $0 >= noId && Int($0) < ids }
        try requireSound(fits, "id", "a byte has an id that does not exist")
    }
}

private func isByteToken(_ form: [UInt8]) -> Bool {
    form.count == 6 && form[..<3].elementsEqual("<0x".utf8) && form[5] == UInt8(ascii: ">") && hexDigit(form[3]) >= 0
        && hexDigit(form[4]) >= 0
}

private func checkMerges(_ sections: TokenizerSections, _ ids: Int) throws {
    let keys = LongTable(sections[.mergeKeys])
    let values = sections.words(.mergeValues)
    try requireSound(
        values.count == 2 * keys.count && keys.count <= mostMerges, "layout", "its merges have two lengths")
    var isBelow = true
    var last: UInt64 = 0
    for index in 0..<keys.count {
        let key = keys[index]
        try requireSound(index == 0 || last < key, "merges", "its merges do not ascend")
        isBelow = isBelow && Int(key >> 32) < ids && Int(key & 0xffff_ffff) < ids
        let merged = values[2 * index + 1]
        isBelow = isBelow && merged >= 0 && Int(merged) < ids
        last = key
    }
    try requireSound(isBelow, "id", "a merge has an id that is too large")
}

/// The ranges of code points, and masks without bits of other classes.
private func checkClasses(_ sections: TokenizerSections, _ classes: Int) throws {
    let ranges = sections.words(.ranges)
    let masks = LongTable(sections[.masks])
    let isSound =
        ranges.count == masks.count && ranges.count > 0 && ranges[0] == 0 && isBelow(ranges, 0x110000)
        && (1..<max(1, ranges.count)).allSatisfy { ranges[$0 - 1] < ranges[$0] }
    try requireSound(isSound, "classes", "its ranges of code points do not ascend from 0")
    let all = (0..<masks.count).reduce(UInt64(0)) { $0 | masks[$1] }
    try requireSound(
        classes >= 64 - all.leadingZeroBitCount && classes <= mostClasses, "classes",
        "it has \(classes) classes of code points")
}
