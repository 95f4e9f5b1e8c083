// The file of an n-gram cache, format version 2: spec/06-ngram-cache.md.

/// The first bytes of every version.
let cacheMagic: [UInt8] = [0x89, 0x4f, 0x44, 0x4e, 0x43, 0x0d, 0x0a, 0x1a]
/// Bytes of the header, with its own CRC-32.
let cacheHeaderBytes = 136
let maxCacheBytes = 1 << 28

private let formatVersion = 2
private let widthsAt = 12
private let draftAt = 16
private let targetAt = 48
private let entriesAt = 80
private let tickAt = 84
private let reservedAt = 88
private let sectionsAt = 92
private let checksumAt = 132
private let sectionNames = ["targets", "lengths", "pieces", "ticks", "counts"]

/// The first 136 bytes, verified: the sections that follow and their lengths.
struct CacheHeader: Sendable {
    /// Of targets, pieces, ticks, counts.
    let widths: [Int]
    let draftFingerprint: String
    let targetFingerprint: String
    let entries: Int
    let tick: Int
    /// Bytes of each section.
    let lengths: [Int]
    /// CRC-32 of each section.
    let checksums: [Int]

    var fileBytes: Int { cacheHeaderBytes + lengths.reduce(0, +) }
}

/// The bytes of a table: equal tables give equal bytes.
///
/// - Throws: ``OmniDraftError/cacheFile(_:)``: `limits`, where the file would be larger than a reader takes.
func encodeCache(_ table: CacheTable) throws -> [UInt8] {
    let widths = widthsOf(table)
    let size =
        cacheHeaderBytes + table.count * (widths[0] + 1 + widths[2] + 2 * widths[3])
        + table.spellings.values.count * widths[1]
    try demand(size <= maxCacheBytes, "limits", "it would have \(size) bytes, more than \(maxCacheBytes)")
    let lengths = IntTable((0..<table.count).map { Int32(table.spellings.length($0)) })
    let sections = [
        packed(widths[0], [table.targets]), packed(1, [lengths]), packed(widths[1], [table.spellings.values]),
        packed(widths[2], [table.ticks]), packed(widths[3], [table.hits, table.accepted]),
    ]
    let out = ByteWriter().put(cacheMagic).u32(formatVersion)
    for width in widths { out.u8(width) }
    for fingerprint in [table.draftFingerprint, table.targetFingerprint] {
        out.put(try bytesOf(hex: fingerprint))
    }
    out.u32(table.count).u32(table.tick).u32(0)
    for section in sections { out.u32(section.count).u32(Int(crc32(section))) }
    out.u32(Int(crc32(out.bytes)))
    for section in sections { out.put(section) }
    return out.bytes
}

/// Columns one after another, each number in `width` bytes.
private func packed(_ width: Int, _ columns: [IntTable]) -> [UInt8] {
    var data: [UInt8] = []
    for column in columns {
        for index in 0..<column.count {
            let value = column.unsigned(index)
            for byte in 0..<width { data.append(UInt8(truncatingIfNeeded: value >> (8 * byte))) }
        }
    }
    return data
}

func decodeCache(_ data: Bytes) throws -> CacheTable {
    let header = try decodeCacheHeader(data)
    let size = header.fileBytes
    try demand(size <= maxCacheBytes, "limits", "it says that it has \(size) bytes, more than \(maxCacheBytes)")
    try demand(data.count >= size, "truncated", cut(data.count, size))
    try demand(data.count == size, "trailing_bytes", "it goes on for \(data.count - size) bytes after its end")
    let table = try tableOf(header, sectionsOf(data, header))
    try checkIds(table)
    try checkCounts(table)
    let right = widthsOf(table)
    // Another way to write the same table is refused, so that equal tables are equal files.
    try demand(
        header.widths == right, "not_canonical", "its columns are \(header.widths) bytes wide where \(right) are enough"
    )
    return table
}

/// The header of a file of at least these bytes.
///
/// - Throws: ``OmniDraftError/cacheFile(_:)`` as for ``decodeCache(_:)``.
func decodeCacheHeader(_ data: Bytes) throws -> CacheHeader {
    try demand(startsWithMagic(data), "not_a_cache", "it is not an n-gram cache")
    try demand(data.count >= widthsAt, "truncated", cut(data.count, cacheHeaderBytes))
    let version = data.u32(cacheMagic.count)
    try demand(
        version == formatVersion, "version", "it has format version \(version), this omnidraft reads \(formatVersion)")
    try demand(data.count >= cacheHeaderBytes, "truncated", cut(data.count, cacheHeaderBytes))
    try demand(Int(crc32(data.array(0, checksumAt))) == data.u32(checksumAt), "checksum", "its header is damaged")
    let header = CacheHeader(
        widths: (0..<4).map { data.u8(widthsAt + $0) }, draftFingerprint: hexOf(data.array(draftAt, targetAt)),
        targetFingerprint: hexOf(data.array(targetAt, entriesAt)), entries: data.u32(entriesAt), tick: data.u32(tickAt),
        lengths: sectionNames.indices.map { data.u32(sectionsAt + 8 * $0) },
        checksums: sectionNames.indices.map { data.u32(sectionsAt + 8 * $0 + 4) })
    try demand(data.u32(reservedAt) == 0, "reserved", "its reserved field is \(data.u32(reservedAt)), not 0")
    try demand(
        header.widths.allSatisfy { [1, 2, 4].contains($0) }, "width",
        "its columns are \(header.widths) bytes wide, not 1, 2 or 4")
    try checkLengths(header)
    return header
}

/// Whether bytes begin as every cache does.
func startsWithMagic(_ data: Bytes) -> Bool {
    data.count >= cacheMagic.count && data.array(0, cacheMagic.count) == cacheMagic
}

/// The sections must be as long as the number of entries says.
private func checkLengths(_ header: CacheHeader) throws {
    let n = header.entries
    try demand(n <= Defaults.cacheMaxEntries, "limits", "it has \(n) entries, more than \(Defaults.cacheMaxEntries)")
    let widths = header.widths
    let expected = [n * widths[0], n, header.lengths[2], n * widths[2], 2 * n * widths[3]]
    for (index, name) in sectionNames.enumerated() {
        try demand(
            header.lengths[index] == expected[index], "section_length",
            "its section of \(name) has \(header.lengths[index]) bytes, not \(expected[index])")
    }
    try demand(
        header.lengths[2] % widths[1] == 0, "section_length",
        "its section of pieces has \(header.lengths[2]) bytes, which is not a multiple of \(widths[1])")
}

/// The bytes of each section, after their checksums were compared.
private func sectionsOf(_ data: Bytes, _ header: CacheHeader) throws -> [Bytes] {
    var end = cacheHeaderBytes
    return try sectionNames.enumerated().map { index, name in
        let section = data.part(end, end + header.lengths[index])
        end += header.lengths[index]
        let sum = section.withUnsafeBytes { Int(crc32($0)) }
        try demand(sum == header.checksums[index], "checksum", "its section of \(name) is damaged")
        return section
    }
}

/// The columns as tables, ids still unchecked except that they fit 31 bits.
private func tableOf(_ header: CacheHeader, _ sections: [Bytes]) throws -> CacheTable {
    let pieces = IntTable(sections[2], width: header.widths[1])
    let offsets = try offsetsOf(IntTable(sections[1], width: 1), pieces.count)
    let targets = IntTable(sections[0], width: header.widths[0])
    try checkFits31Bits("target", targets)
    try checkFits31Bits("draft", pieces)
    let half = header.entries * header.widths[3]
    return CacheTable(
        draftFingerprint: header.draftFingerprint, targetFingerprint: header.targetFingerprint, tick: header.tick,
        targets: targets, spellings: Ragged(pieces, IntTable(offsets)),
        ticks: IntTable(sections[3], width: header.widths[2]),
        hits: IntTable(sections[4].part(0, half), width: header.widths[3]),
        accepted: IntTable(sections[4].part(half, 2 * half), width: header.widths[3]))
}

private func offsetsOf(_ lengths: IntTable, _ pieces: Int) throws -> [Int32] {
    var offsets: [Int32] = [0]
    offsets.reserveCapacity(lengths.count + 1)
    var total = 0
    for index in 0..<lengths.count {
        total += Int(lengths[index])
        offsets.append(Int32(truncatingIfNeeded: total))
    }
    try demand(
        total == pieces, "section_length", "its spellings have \(total) pieces and its section of pieces \(pieces)")
    for index in 0..<lengths.count {
        try demand(
            lengths[index] >= 2, "spelling", "it has a spelling of \(lengths[index]) pieces; an n-gram has 2 or more")
    }
    return offsets
}

private func checkFits31Bits(_ which: String, _ ids: IntTable) throws {
    for index in 0..<ids.count {
        try demand(ids[index] >= 0, "id_range", "it holds \(which) id \(ids.unsigned(index)), more than 2^31 - 1")
    }
}

/// Target ids ascend, without repetition.
private func checkIds(_ table: CacheTable) throws {
    for index in 0..<max(0, table.count - 1) {
        let (a, b) = (table.targets[index], table.targets[index + 1])
        try demand(a != b, "duplicate", "it repeats target id \(a)")
        try demand(a < b, "order", "it holds target id \(b) after \(a)")
    }
}

/// Refuses numbers that no cache can have counted.
private func checkCounts(_ table: CacheTable) throws {
    for index in 0..<table.count {
        try demand(
            table.accepted.unsigned(index) <= table.hits.unsigned(index), "counts",
            "it has an entry accepted more often than used")
        try demand(
            table.ticks.unsigned(index) <= table.tick, "counts",
            "it has an entry used in round \(table.ticks.unsigned(index)) of \(table.tick)")
    }
}

/// The fewest bytes, 1, 2 or 4, that hold the largest number of each column.
private func widthsOf(_ table: CacheTable) -> [Int] {
    [
        width(table.targets), width(table.spellings.values), width(table.ticks),
        max(width(table.hits), width(table.accepted)),
    ]
}

private func width(_ column: IntTable) -> Int {
    var bits = 0
    for index in 0..<column.count { bits |= column.unsigned(index) }
    return bits < 1 << 8 ? 1 : bits < 1 << 16 ? 2 : 4
}

private func cut(_ size: Int, _ least: Int) -> String { "it is cut short: \(size) bytes of at least \(least)" }

private func demand(_ holds: Bool, _ fault: String, _ message: @autoclosure () -> String) throws {
    if !holds { throw cacheError(fault, message()) }
}
