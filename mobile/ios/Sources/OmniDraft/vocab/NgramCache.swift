// The n-gram cache: target tokens that the drafter writes in several pieces, learned while generating.

/// One cached n-gram: its target token, times emitted, times proposed and accepted, last round emitted.
struct CacheEntry: Sendable, Equatable {
    let targetId: Int32
    let hits: Int
    let accepted: Int
    let tick: Int
}

/// Cached n-grams of one pair of drafter and target. One thread uses it.
final class NgramCache {
    let map: VocabMap
    /// The active trie that the translator and the verifier read.
    let trie: ActiveTrie
    /// Entries at most; inserting another evicts the entry with the fewest hits.
    private(set) var capacity: Int
    /// Rounds learned from.
    private(set) var tick = 0

    // Entry i of each belongs to trie.gramTargets[i].
    private var ticks: [Int] = []
    private var hits: [Int] = []
    private var accepted: [Int] = []

    /// - Throws: ``OmniDraftError/setting(_:)``: a capacity below 1.
    init(_ map: VocabMap, capacity: Int = Defaults.cacheCapacity) throws {
        if capacity < 1 {
            throw settingError("cache capacity \(capacity) is less than 1", "give room for at least one n-gram")
        }
        self.map = map
        self.capacity = capacity
        trie = ActiveTrie(map)
    }

    /// The cache with the contents of a table that fits the map; entries beyond the capacity are evicted.
    convenience init(_ table: CacheTable, _ map: VocabMap, capacity: Int = Defaults.cacheCapacity) throws {
        try self.init(map, capacity: capacity)
        var kept = table
        if table.count > capacity {
            let order = evictionOrder(hits: table.hits, ticks: table.ticks)
            kept = table.keep(order[(table.count - capacity)...].sorted())
        }
        tick = table.tick
        trie.activateAll(kept.targets.array().map { Int(map.leafOf[Int($0)]) })
        ticks = (0..<kept.count).map { kept.ticks.unsigned($0) }
        hits = (0..<kept.count).map { kept.hits.unsigned($0) }
        accepted = (0..<kept.count).map { kept.accepted.unsigned($0) }
    }

    var count: Int { trie.count }

    func entries() -> [CacheEntry] {
        (0..<count).map {
            CacheEntry(targetId: trie.gramTargets[$0], hits: hits[$0], accepted: accepted[$0], tick: ticks[$0])
        }
    }

    /// Adds the n-gram of a target token; false if there is none or it is cached. A full cache evicts.
    func insert(_ targetId: Int32) -> Bool {
        let leaf = Int(map.leafOf[Int(targetId)])
        if leaf < 0 || trie.active[leaf] { return false }
        if map.leafLengths[leaf] < 2 || map.leafLengths[leaf] > Defaults.cacheMaxPieces { return false }
        // Before inserting: the new entry would always be the first to be evicted.
        if count >= capacity { evict(firstToEvict(hits: hits, ticks: ticks)) }
        let at = trie.activate(leaf)
        ticks.insert(tick, at: at)
        hits.insert(0, at: at)
        accepted.insert(0, at: at)
        return true
    }

    /// Learns from the target tokens of a verified round, and returns the number of new n-grams.
    @discardableResult
    func learn(_ emitted: [Int32], _ numAccepted: Int) -> Int {
        var new = 0
        tick = min(tick + 1, maxCount)
        for (index, token) in emitted.enumerated() {
            if insert(token) { new += 1 }
            guard let at = place(token) else { continue }
            ticks[at] = tick
            if hits[at] < maxCount { hits[at] += 1 }
            if index < numAccepted && accepted[at] < maxCount { accepted[at] += 1 }
        }
        return new
    }

    /// Inserts every n-gram of the map, makes room for them, and returns the number of new n-grams.
    func prefill() -> Int {
        let leaves = map.leaves.indices.filter {
            map.leafLengths[$0] >= 2 && map.leafLengths[$0] <= Defaults.cacheMaxPieces && !trie.active[$0]
        }
        let before = trie.gramTargets
        trie.activateAll(leaves)
        ticks = spread(ticks, before, tick)
        hits = spread(hits, before, 0)
        accepted = spread(accepted, before, 0)
        capacity = max(capacity, count)
        return leaves.count
    }

    func table() -> CacheTable {
        let grams = trie.gramTargets
        return CacheTable(
            draftFingerprint: map.draftFingerprint, targetFingerprint: map.targetFingerprint, tick: tick,
            targets: IntTable(grams), spellings: Ragged(rows: grams.lazy.map { self.map.spell($0) }),
            ticks: column(ticks),
            hits: column(hits), accepted: column(accepted))
    }

    private func column(_ counts: [Int]) -> IntTable {
        IntTable(counts.map { Int32(bitPattern: UInt32(truncatingIfNeeded: $0)) })
    }

    /// A column after many entries came in: old entries keep their values, new ones get another.
    private func spread(_ column: [Int], _ before: [Int32], _ value: Int) -> [Int] {
        var old = 0
        return trie.gramTargets.map { target in
            if old == before.count || before[old] != target { return value }
            old += 1
            return column[old - 1]
        }
    }

    private func evict(_ at: Int) {
        _ = trie.deactivate(Int(map.leafOf[Int(trie.gramTargets[at])]))
        ticks.remove(at: at)
        hits.remove(at: at)
        accepted.remove(at: at)
    }

    /// The index of a target token's entry, nil if it has none.
    private func place(_ targetId: Int32) -> Int? {
        let at = lowerBound(trie.gramTargets, targetId)
        return at < count && trie.gramTargets[at] == targetId ? at : nil
    }
}
