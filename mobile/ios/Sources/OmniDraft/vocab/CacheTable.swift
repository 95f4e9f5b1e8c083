// The contents of an n-gram cache as a value: what a file holds, and how two tables merge (spec/06-ngram-cache.md).

/// Counts and ticks do not grow further.
let maxCount = 0xffff_ffff

/// The n-grams of one pair of vocabularies, by ascending target id.
struct CacheTable: Sendable {
    /// SHA-256 of the drafter's tokenizer, 64 hexadecimal digits.
    let draftFingerprint: String
    let targetFingerprint: String
    /// Rounds learned from, at most 2^32 - 1.
    let tick: Int
    /// Target ids, ascending and distinct.
    let targets: IntTable
    /// The draft tokens of each entry, 2 to 255.
    let spellings: Ragged
    /// The round in which each entry was last emitted; unsigned.
    let ticks: IntTable
    /// Times each entry was emitted; unsigned.
    let hits: IntTable
    /// Times each entry was emitted because it was proposed; unsigned.
    let accepted: IntTable

    var count: Int { targets.count }

    /// The table of some entries, given by their ascending indices.
    func keep(_ chosen: [Int]) -> CacheTable {
        func pick(_ column: IntTable) -> IntTable { IntTable(chosen.map { column[$0] }) }
        return CacheTable(
            draftFingerprint: draftFingerprint, targetFingerprint: targetFingerprint, tick: tick,
            targets: pick(targets),
            spellings: Ragged(rows: chosen.lazy.map { spellings.row($0) }), ticks: pick(ticks), hits: pick(hits),
            accepted: pick(accepted))
    }
}

func cacheError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .cacheFile(Refusal(fault: fault, message: message, remedy: remedy))
}

/// All entries of both tables, with the maximum of hits, of accepted and of tick of each entry.
///
/// Commutative, associative and idempotent. The result may exceed any capacity; a session that loads the result evicts.
func merge(_ a: CacheTable, _ b: CacheTable) throws -> CacheTable {
    try checkSamePair(a, b)
    let ids = Array(Set(a.targets.array()).union(b.targets.array())).sorted()
    let (fromA, fromB) = (places(a.targets, ids), places(b.targets, ids))
    for (index, id) in ids.enumerated() {
        guard let inA = fromA[index], let inB = fromB[index] else { continue }
        if a.spellings.isSame(inA, b.spellings, inB) { continue }
        throw cacheError(
            "spelling",
            "target token \(id) is \(a.spellings.row(inA)) in one cache and \(b.spellings.row(inB)) in the other",
            "one of the caches was not written by omnidraft")
    }
    func largest(_ column: (CacheTable) -> IntTable) -> IntTable {
        let (left, right) = (column(a), column(b))
        return IntTable(
            ids.indices.map { index in
                let count = max(
                    fromA[index].map { left.unsigned($0) } ?? 0, fromB[index].map { right.unsigned($0) } ?? 0)
                return Int32(bitPattern: UInt32(truncatingIfNeeded: count))
            })
    }
    let rows = ids.indices.lazy.map { index in
        fromA[index].map { a.spellings.row($0) } ?? fromB[index].map { b.spellings.row($0) } ?? []
    }
    return CacheTable(
        draftFingerprint: a.draftFingerprint, targetFingerprint: a.targetFingerprint, tick: max(a.tick, b.tick),
        targets: IntTable(ids), spellings: Ragged(rows: rows), ticks: largest { $0.ticks }, hits: largest { $0.hits },
        accepted: largest { $0.accepted })
}

private func checkSamePair(_ a: CacheTable, _ b: CacheTable) throws {
    if a.draftFingerprint == b.draftFingerprint && a.targetFingerprint == b.targetFingerprint { return }
    throw cacheError(
        "foreign_vocabulary",
        "one cache is of drafter \(a.draftFingerprint.prefix(12)) and target \(a.targetFingerprint.prefix(12)), "
            + "the other of \(b.draftFingerprint.prefix(12)) and \(b.targetFingerprint.prefix(12))",
        "merge caches of one pair of tokenizers")
}

/// The place of each id in an ascending table whose ids are all among them; nil where the table lacks it.
private func places(_ table: IntTable, _ ids: [Int32]) -> [Int?] {
    var next = 0
    return ids.map { id in
        if next == table.count || table[next] != id { return nil }
        next += 1
        return next - 1
    }
}

/// Indices of entries, the first to be evicted first: fewest hits, then lowest tick, then lowest index.
func evictionOrder(hits: IntTable, ticks: IntTable) -> [Int] {
    let keys = (0..<hits.count).map { (UInt64(hits.unsigned($0)) << 32 | UInt64(ticks.unsigned($0)), $0) }
    return keys.sorted { $0 < $1 }.map(\.1)
}

/// The first index of the order of eviction, of which there is one at least, without sorting.
func firstToEvict(hits: [Int], ticks: [Int]) -> Int {
    precondition(!hits.isEmpty)
    var best = 0
    for index in hits.indices where (hits[index], ticks[index]) < (hits[best], ticks[best]) { best = index }
    return best
}

/// Refuses a table that was learned from other vocabularies.
///
/// - Throws: ``OmniDraftError/cacheFile(_:)``: `foreign_vocabulary`, `id_range` or `spelling`.
func checkAgainst(_ table: CacheTable, _ map: VocabMap) throws {
    try checkFingerprint("drafter", table.draftFingerprint, map.draftFingerprint)
    try checkFingerprint("target", table.targetFingerprint, map.targetFingerprint)
    try checkRange("target", table.targets, map.targetSize)
    try checkRange("draft", table.spellings.values, map.draftSize)
    for index in 0..<table.count {
        let target = Int(table.targets[index])
        if map.leafOf[target] >= 0 && map.spellings.isSame(target, table.spellings, index) { continue }
        throw cacheError("spelling", "it spells target tokens in another way than the vocabulary map")
    }
}

private func checkFingerprint(_ who: String, _ theirs: String, _ ours: String) throws {
    if theirs == ours { return }
    throw cacheError(
        "foreign_vocabulary", "it is of another \(who) tokenizer (\(theirs.prefix(12)), this one is \(ours.prefix(12)))"
    )
}

private func checkRange(_ which: String, _ ids: IntTable, _ size: Int) throws {
    for index in 0..<ids.count where Int(ids[index]) >= size {
        throw cacheError("id_range", "it holds \(which) id \(ids[index]), outside 0..\(size - 1)")
    }
}
