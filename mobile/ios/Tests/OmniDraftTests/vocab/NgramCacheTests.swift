import XCTest

@testable import OmniDraft

/// The cache beside the rules of spec/06-ngram-cache.md written plainly, on random maps and rounds.
final class NgramCacheTests: XCTestCase {
    /// The rules with a dictionary of entries.
    private struct Plain {
        let map: VocabMap
        let capacity: Int
        let policy: CachePolicy
        var entries: [Int32: CacheEntry] = [:]
        var tick = 0

        /// The entries, the first to be evicted first.
        func order() -> [CacheEntry] {
            entries.values.sorted { a, b in
                policy == .lfu
                    ? (a.hits, a.tick, a.targetId) < (b.hits, b.tick, b.targetId)
                    : (a.tick, a.hits, a.targetId) < (b.tick, b.hits, b.targetId)
            }
        }

        func sorted(_ some: some Sequence<CacheEntry>) -> [CacheEntry] { some.sorted { $0.targetId < $1.targetId } }

        mutating func learn(_ emitted: [Int32], _ accepted: Int) {
            tick += 1
            for (index, token) in emitted.enumerated() {
                let isGram = map.leaves.contains(token) && (2...255).contains(map.spell(token).count)
                if entries[token] == nil && isGram {
                    if entries.count >= capacity { entries[order()[0].targetId] = nil }
                    entries[token] = CacheEntry(targetId: token, hits: 0, accepted: 0, tick: tick)
                }
                guard let old = entries[token] else { continue }
                entries[token] = CacheEntry(
                    targetId: token, hits: old.hits + 1, accepted: old.accepted + (index < accepted ? 1 : 0), tick: tick
                )
            }
        }
    }

    private func below(_ random: SplitMix64, _ count: Int) -> Int { Int(random.uniform() * Double(count)) }

    func testLearningAndEvictionAsTheRulesSay() throws {
        for seed in 0..<UInt64(100) {
            let random = SplitMix64(seed)
            let map = randomMap(random)
            let policy = CachePolicy.allCases[below(random, CachePolicy.allCases.count)]
            var plain = Plain(map: map, capacity: 1 + below(random, 8), policy: policy)
            let cache = try NgramCache(map, capacity: plain.capacity, policy: policy)
            for _ in 0..<40 {
                let emitted = (0..<below(random, 5)).map { _ in Int32(below(random, map.targetSize)) }
                let accepted = below(random, emitted.count + 1)
                plain.learn(emitted, accepted)
                cache.learn(emitted, accepted)
                XCTAssertEqual(cache.entries(), plain.sorted(plain.entries.values), "seed \(seed)")
            }
            checkTrie(cache)
            try checkRoom(cache, plain)
        }
    }

    /// What the trie has active is what the cache holds.
    private func checkTrie(_ cache: NgramCache) {
        let (map, trie) = (cache.map, cache.trie)
        let active = Set(map.leaves.indices.filter { trie.active[$0] }.map { map.leaves[$0] })
        XCTAssertEqual(active, Set(map.direct.filter { $0 >= 0 } + cache.entries().map(\.targetId)))
        let firsts = Set(active.map { Int(map.spell($0)[0]) })
        XCTAssertEqual(Set(trie.rootMask.indices.filter { trie.rootMask[$0] }), firsts)
        XCTAssertEqual(trie.gramFirsts, trie.gramTargets.map { map.spell($0)[0] })
    }

    /// Less room evicts the same entries from a session's cache, from a file's table, and by the rules.
    private func checkRoom(_ cache: NgramCache, _ plain: Plain) throws {
        let room = 1 + cache.count / 2
        let evicted = max(0, cache.count - room)
        let kept = plain.sorted(plain.order().dropFirst(evicted))
        let table = try decodeCache(Bytes(encodeCache(cache.table())))
        let loaded = try NgramCache(table, cache.map, capacity: room, policy: cache.policy)
        XCTAssertEqual(loaded.entries(), kept)
        XCTAssertEqual(loaded.tick, cache.tick)
        XCTAssertEqual(cache.prune(room), evicted)
        XCTAssertEqual(cache.entries(), kept)
        checkTrie(cache)
        checkTrie(loaded)
    }

    func testMergingIsCommutativeAssociativeAndIdempotentByteForByte() throws {
        for seed in 0..<UInt64(100) {
            let random = SplitMix64(seed)
            let map = randomMap(random)
            let (a, b, c) = (try learned(map, random), try learned(map, random), try learned(map, random))
            let ab = try merge(a, b)
            XCTAssertEqual(try encodeCache(ab), try encodeCache(merge(b, a)))
            XCTAssertEqual(try encodeCache(merge(ab, c)), try encodeCache(merge(a, merge(b, c))))
            XCTAssertEqual(try encodeCache(a), try encodeCache(merge(a, a)))
            for index in 0..<ab.count {
                let hits = [a, b].compactMap { table in
                    (0..<table.count).first { table.targets[$0] == ab.targets[index] }.map { table.hits.unsigned($0) }
                }
                XCTAssertEqual(ab.hits.unsigned(index), hits.max())
            }
        }
    }

    private func learned(_ map: VocabMap, _ random: SplitMix64) throws -> CacheTable {
        let cache = try NgramCache(map)
        for _ in 0..<below(random, 20) {
            cache.learn((0..<4).map { _ in Int32(below(random, map.targetSize)) }, below(random, 5))
        }
        return cache.table()
    }

    func testOnlyCachesOfOnePairMerge() throws {
        let table = try NgramCache(vectorMap("toy")).table()
        let other = CacheTable(
            draftFingerprint: table.draftFingerprint, targetFingerprint: String(repeating: "f", count: 64), tick: 0,
            targets: table.targets, spellings: table.spellings, ticks: table.ticks, hits: table.hits,
            accepted: table.accepted)
        XCTAssertEqual(try faultOf { _ = try merge(table, other) }, "foreign_vocabulary")
    }

    func testAPrefilledCacheHasEveryNgramAndRoomForThem() throws {
        let map = try vectorMap("toy")
        let cache = try NgramCache(map, capacity: 1)
        cache.learn([5], 1)
        let grams = map.leaves.filter { map.spell($0).count > 1 }.sorted()
        XCTAssertEqual(cache.prefill(), grams.count - 1)
        XCTAssertEqual(cache.entries().map(\.targetId), grams)
        let hits = [5, 6].map { target in cache.entries().first { $0.targetId == target }?.hits }
        XCTAssertEqual(hits, [1, 0])
        XCTAssertGreaterThanOrEqual(cache.capacity, grams.count)
        XCTAssert(cache.contains(5))
        XCTAssertFalse(cache.contains(map.directTargets[0]))
    }

    func testACapacityBelow1IsRefused() throws {
        XCTAssertThrowsError(try NgramCache(vectorMap("toy"), capacity: 0)) { error in
            guard case OmniDraftError.setting = error else { return XCTFail("\(error)") }
        }
    }

    func testAnEntryTakesAtMost64BytesOfMemory() throws {
        let map = randomMap(SplitMix64(3), drafts: 3_000, targets: 20_000)
        let cache = try NgramCache(map, capacity: 20_000)
        _ = cache.prefill()
        XCTAssertGreaterThan(cache.count, 5_000)
        let trie = map.leaves.count + map.draftSize  // of an empty cache, too: it belongs to no entry
        XCTAssertLessThanOrEqual(cache.memoryBytes - trie, 64 * cache.count)
    }
}
