// The vocabulary map of one drafter and one target: bytes, direct pairs, spellings, expansions (spec/03-bundle.md).

private let mapFormat = "omnidraft.vocab_map"
private let mapVersion = "1"
private let maxFileBytes = 1 << 28
private let maxHeaderBytes = 1 << 16
private let maxIds = 1 << 24
private let remedy = "run `omnidraft export` again"
private let byteTensors = ["target_bytes", "draft_allowed"]  // the tensors of u8; the others are i32
private let tensorNames = [
    "target_bytes", "target_byte_offsets", "direct", "spellings", "spelling_offsets", "expansions", "expansion_offsets",
    "leaves", "draft_allowed",
]

/// How the tokens of a drafter write the tokens of a target. It does not change, so any threads share it.
final class VocabMap: Sendable {
    /// Bytes of every target token, none for control and unused ids.
    let targetBytes: Ragged
    /// Target id of each draft token with equal bytes or a paired role, else -1; one for each draft id.
    let direct: [Int32]
    /// The draft tokens that write each target token; none if none can.
    let spellings: Ragged
    /// For a draft token longer than a target token, the target tokens that write it; else none.
    let expansions: Ragged
    /// Target ids in the trie, sorted by their spelling; aliases and unspellable ids are left out.
    let leaves: [Int32]
    /// Whether the drafter may propose each draft id.
    let draftAllowed: [Bool]
    /// SHA-256 of the drafter's tokenizer, 64 hexadecimal digits.
    let draftFingerprint: String
    let targetFingerprint: String

    /// Trie position of each target id, -1 outside the trie.
    let leafOf: [Int32]
    /// Where each leaf's spelling begins in `spellings.values`.
    let leafStarts: [Int32]
    /// Draft tokens in each leaf's spelling.
    let leafLengths: [Int32]
    /// First draft token of each leaf's spelling, ascending; -1 for a leaf without a spelling, which no checked map has.
    let leafFirsts: [Int32]
    /// Leaves that begin with draft token d are `firstOffsets[d]..<firstOffsets[d + 1]`.
    let firstOffsets: [Int32]
    /// Draft ids with a direct partner, ascending.
    let directDrafts: [Int32]
    /// Target ids of the partners of `directDrafts`.
    let directTargets: [Int32]

    init(
        targetBytes: Ragged, direct: [Int32], spellings: Ragged, expansions: Ragged, leaves: [Int32],
        draftAllowed: [Bool], draftFingerprint: String, targetFingerprint: String
    ) {
        self.targetBytes = targetBytes
        self.direct = direct
        self.spellings = spellings
        self.expansions = expansions
        self.leaves = leaves
        self.draftAllowed = draftAllowed
        self.draftFingerprint = draftFingerprint
        self.targetFingerprint = targetFingerprint
        var leafOf = [Int32](repeating: -1, count: spellings.count)
        for (index, leaf) in leaves.enumerated() { leafOf[Int(leaf)] = Int32(index) }
        self.leafOf = leafOf
        leafStarts = leaves.map { Int32(spellings.start(Int($0))) }
        leafLengths = leaves.map { Int32(spellings.length(Int($0))) }
        leafFirsts = leaves.map { spellings.length(Int($0)) > 0 ? spellings.values[spellings.start(Int($0))] : -1 }
        var offsets = [Int32](repeating: 0, count: direct.count + 1)
        for first in leafFirsts where first >= 0 { offsets[Int(first) + 1] += 1 }
        for draft in 0..<direct.count { offsets[draft + 1] += offsets[draft] }
        firstOffsets = offsets
        directDrafts = direct.indices.filter { direct[$0] >= 0 }.map(Int32.init)
        directTargets = directDrafts.map { direct[Int($0)] }
    }

    var draftSize: Int { direct.count }
    var targetSize: Int { spellings.count }

    /// Draft token number `depth` of a leaf's spelling, which has more draft tokens than that.
    func piece(_ leaf: Int, _ depth: Int) -> Int32 { spellings.values[Int(leafStarts[leaf]) + depth] }

    /// Draft tokens that write a target token; none if none can.
    func spell(_ targetId: Int32) -> [Int32] { spellings.row(Int(targetId)) }

    /// Bytes of a target token; none for control tokens.
    func bytesOf(_ targetId: Int32) -> [UInt8] { targetBytes.row(Int(targetId)).map { UInt8(truncatingIfNeeded: $0) } }

    /// Refuses other vocabularies than the map was built for.
    ///
    /// - Throws: ``OmniDraftError/vocabMap(_:)``: it names the side and both values.
    func checkFits(draftFingerprint: String, targetFingerprint: String, draftSize: Int, targetSize: Int) throws {
        try checkEqual("draft vocabulary size", "\(draftSize)", "\(self.draftSize)")
        try checkEqual("target vocabulary size", "\(targetSize)", "\(self.targetSize)")
        try checkEqual("draft tokenizer", draftFingerprint, self.draftFingerprint)
        try checkEqual("target tokenizer", targetFingerprint, self.targetFingerprint)
    }

    private func checkEqual(_ who: String, _ ours: String, _ theirs: String) throws {
        if ours == theirs { return }
        let sentence = "\(who) \(ours.prefix(12)) does not match the map's \(theirs.prefix(12))"
        throw OmniDraftError.vocabMap(Refusal(fault: "foreign_vocabulary", message: sentence, remedy: remedy))
    }
}

/// Maps a file, and checks every index before its use.
///
/// - Throws: ``OmniDraftError/vocabMap(_:)`` with the name of the first fault, in the order of spec/03-bundle.md.
func loadVocabMap(_ path: String) throws -> VocabMap {
    do {
        let data = try mapFile(path)
        if data.count > maxFileBytes { throw FileError("it has more than \(grouped(maxFileBytes)) bytes") }
        return try decodeVocabMap(data)
    } catch let error as FileError {
        let message = "\(path) is not readable (\(error.message))"
        throw OmniDraftError.vocabMap(Refusal(fault: "unreadable", message: message, remedy: remedy))
    } catch OmniDraftError.vocabMap(let refusal) {
        let message = "\(path): \(refusal.message)"
        throw OmniDraftError.vocabMap(Refusal(fault: refusal.fault, message: message, remedy: remedy))
    }
}

/// The vocabulary map in the bytes of a file; they are used in place.
///
/// - Throws: ``OmniDraftError/vocabMap(_:)`` with the name of the first fault.
func decodeVocabMap(_ data: Bytes) throws -> VocabMap {
    let header: TensorHeader
    let tensors: [(name: String, tensor: Tensor)]
    do {
        header = try readTensorHeader(data, most: maxHeaderBytes)
        let format = metadata(header, "format")
        try demand(format == mapFormat, "not_a_map", "it is '\(format.prefix(78))', not \(mapFormat)")
        let version = metadata(header, "version")
        try demand(version == mapVersion, "version", "it has version '\(version.prefix(78))', not \(mapVersion)")
        tensors = try readTensors(data, entries: header.entries, start: header.start)
    } catch let error as ValueError {
        throw mapError(error.fault == "header" ? "not_a_map" : error.fault, error.message)
    }
    let tables = try tablesOf(tensors)
    let fingerprints = try ["draft_fingerprint", "target_fingerprint"].map { name in
        let value = metadata(header, name)
        try demand(isHexadecimal(value.utf8, digits: 64), "metadata", "its \(name) is not 64 hexadecimal digits")
        return value
    }
    return try checkedMap(tables, fingerprints[0], fingerprints[1])
}

private func metadata(_ header: TensorHeader, _ name: String) -> String {
    header.metadata.first { $0.name == name }?.value ?? ""
}

private func mapError(_ fault: String, _ message: String) -> OmniDraftError {
    .vocabMap(Refusal(fault: fault, message: message))
}

private func demand(_ holds: Bool, _ fault: String, _ message: @autoclosure () -> String) throws {
    if !holds { throw mapError(fault, message()) }
}

/// The tables of a file, after all checks of single tables.
private func tablesOf(_ tensors: [(name: String, tensor: Tensor)]) throws -> [String: IntTable] {
    for name in tensorNames {
        try demand(tensors.contains { $0.name == name }, "missing_tensor", "it has no '\(name)'")
    }
    var tables: [String: IntTable] = [:]
    for (name, tensor) in tensors {
        try demand(tensorNames.contains(name), "extra_tensor", "it has a tensor '\(name.prefix(78))'")
        let isByte = byteTensors.contains(name)
        try demand(
            tensor.shape.count == 1 && tensor.dtype == (isByte ? "U8" : "I32"), "dtype",
            "\(name) is \(tensor.dtype) with \(tensor.shape.count) dimensions")
        tables[name] = IntTable(tensor.data, width: isByte ? 1 : 4)
    }
    return tables
}

/// Checks in the order of the specification; the copies of tables are made when their ids are known to be right.
private func checkedMap(_ tables: [String: IntTable], _ draftFingerprint: String, _ targetFingerprint: String) throws
    -> VocabMap
{
    func table(_ name: String) -> IntTable { tables[name] ?? IntTable([]) }
    let targetBytes = try ragged(table("target_bytes"), table("target_byte_offsets"), "target_bytes")
    let spellings = try ragged(table("spellings"), table("spelling_offsets"), "spellings")
    let expansions = try ragged(table("expansions"), table("expansion_offsets"), "expansions")
    let (direct, leaves, allowed) = (table("direct"), table("leaves"), table("draft_allowed"))
    try checkSizes([targetBytes.count, spellings.count])
    try checkSizes([direct.count, expansions.count, allowed.count])
    try checkIds("direct", direct, spellings.count, least: -1)
    try checkIds("spellings", spellings.values, direct.count)
    try checkIds("expansions", expansions.values, spellings.count)
    try checkIds("leaves", leaves, spellings.count)
    try checkIds("draft_allowed", allowed, 2)
    let map = VocabMap(
        targetBytes: targetBytes, direct: direct.array(), spellings: spellings, expansions: expansions,
        leaves: leaves.array(), draftAllowed: allowed.array().map { $0 == 1 }, draftFingerprint: draftFingerprint,
        targetFingerprint: targetFingerprint)
    try checkLeaves(map)
    try checkDirect(map)
    return map
}

private func ragged(_ values: IntTable, _ offsets: IntTable, _ name: String) throws -> Ragged {
    try demand(
        offsetsFit(offsets, values.count), "offsets", "the offsets of \(name) do not fit its \(values.count) values")
    return Ragged(values, offsets)
}

/// Whether offsets go from 0 to `size` and never descend.
func offsetsFit(_ offsets: IntTable, _ size: Int) -> Bool {
    if offsets.count == 0 || offsets[0] != 0 || Int(offsets[offsets.count - 1]) != size { return false }
    var last: Int32 = 0
    for row in 1..<max(1, offsets.count) {
        let offset = offsets[row]
        if offset < last { return false }
        last = offset
    }
    return true
}

private func checkSizes(_ sizes: [Int]) throws {
    try demand(
        sizes.allSatisfy { $0 == sizes[0] && $0 >= 1 && $0 <= maxIds }, "sizes",
        "table sizes \(sizes) disagree, or are not from 1 to \(maxIds)")
}

private func checkIds(_ name: String, _ ids: IntTable, _ size: Int, least: Int = 0) throws {
    for index in 0..<ids.count {
        let id = Int(ids[index])
        try demand(id >= least && id < size, "id_range", "\(name) holds an id outside 0..\(size - 1)")
    }
}

private func checkLeaves(_ map: VocabMap) throws {
    // The index of a target token that occurs twice is that of its last leaf.
    for (index, leaf) in map.leaves.enumerated() {
        try demand(
            Int(map.leafOf[Int(leaf)]) == index && map.leafLengths[index] > 0, "leaves",
            "leaves repeat a target token or name one without a spelling")
    }
    for index in map.leaves.indices.dropFirst() {
        try demand(isLess(map, index - 1, index), "leaves", "leaves are not sorted by spelling")
    }
}

/// Whether the spelling of a leaf comes before that of another; a beginning of it does.
private func isLess(_ map: VocabMap, _ a: Int, _ b: Int) -> Bool {
    for depth in 0..<Int(min(map.leafLengths[a], map.leafLengths[b])) {
        let (left, right) = (map.piece(a, depth), map.piece(b, depth))
        if left != right { return left < right }
    }
    return map.leafLengths[a] < map.leafLengths[b]
}

private func checkDirect(_ map: VocabMap) throws {
    for draft in map.directDrafts {
        let leaf = Int(map.leafOf[Int(map.direct[Int(draft)])])
        try demand(
            leaf >= 0 && map.leafLengths[leaf] == 1 && map.leafFirsts[leaf] == draft, "direct",
            "direct pairs and leaves disagree")
    }
    try demand(
        map.leafLengths.count { $0 == 1 } == map.directDrafts.count, "direct",
        "a leaf that is spelled by one draft token is no direct pair")
}
