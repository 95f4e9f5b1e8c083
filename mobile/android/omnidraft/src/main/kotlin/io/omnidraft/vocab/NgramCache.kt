package io.omnidraft.vocab

import io.omnidraft.Defaults
import io.omnidraft.SettingException

/*
 * The n-gram cache: target tokens that the drafter writes in several pieces, learned while generating
 * (spec/06-ngram-cache.md).
 */

/** One cached n-gram: its target token, times emitted, times proposed and accepted, last round emitted. */
internal data class Entry(val targetId: Int, val hits: Long, val accepted: Long, val tick: Long)

/**
 * Cached n-grams of one pair of drafter and target. One thread uses it.
 *
 * @param capacity entries at most; inserting another evicts the entry with the fewest hits.
 * @throws SettingException a capacity below 1.
 */
internal class NgramCache(val map: VocabMap, capacity: Int = Defaults.CACHE_CAPACITY) {
    /** The active trie that the translator and the verifier read. */
    val trie: ActiveTrie = ActiveTrie(map)

    var capacity: Int = capacity
        private set

    var tick: Long = 0
        private set

    // Entry i of each belongs to trie.gramTargets[i].
    private var ticks = LongArray(64)
    private var hits = LongArray(64)
    private var accepted = LongArray(64)

    init {
        if (capacity < 1) {
            throw SettingException("cache capacity $capacity is less than 1", "give room for at least one n-gram")
        }
    }

    val size: Int get() = trie.size

    fun entries(): List<Entry> = List(size) { Entry(trie.gramTargets[it], hits[it], accepted[it], ticks[it]) }

    /** Adds the n-gram of a target token; false if there is none or it is cached. A full cache evicts. */
    fun insert(targetId: Int): Boolean {
        val leaf = map.leafOf[targetId]
        if (leaf < 0 || trie.active[leaf] || map.leafLengths[leaf] !in 2..Defaults.CACHE_MAX_PIECES) return false
        // Before inserting: the new entry would always be the first to be evicted.
        if (size >= capacity) evict(firstToEvict(hits, ticks, size))
        val at = trie.activate(leaf)
        ticks = inserted(ticks, at, tick)
        hits = inserted(hits, at, 0)
        accepted = inserted(accepted, at, 0)
        return true
    }

    /** A column with a value put in at a place; the trie has counted the entry already. */
    private fun inserted(column: LongArray, at: Int, value: Long): LongArray {
        val old = size - 1
        val room = if (old < column.size) column else column.copyOf(size + size / 4 + 64)
        room.copyInto(room, at + 1, at, old)
        room[at] = value
        return room
    }

    /** Learns from the target tokens of a verified round, and returns the number of new n-grams. */
    fun learn(emitted: IntArray, numAccepted: Int): Int {
        var new = 0
        tick = minOf(tick + 1, MAX_COUNT)
        for (i in emitted.indices) {
            if (insert(emitted[i])) new++
            val at = place(emitted[i])
            if (at < 0) continue
            ticks[at] = tick
            if (hits[at] < MAX_COUNT) hits[at]++
            if (i < numAccepted && accepted[at] < MAX_COUNT) accepted[at]++
        }
        return new
    }

    /** Inserts every n-gram of the map, makes room for them, and returns the number of new n-grams. */
    fun prefill(): Int {
        val leaves = IntList(map.leaves.size)
        for (leaf in map.leaves.indices) {
            if (map.leafLengths[leaf] in 2..Defaults.CACHE_MAX_PIECES && !trie.active[leaf]) leaves.add(leaf)
        }
        insertAll(leaves.toArray())
        capacity = maxOf(capacity, size)
        return leaves.size
    }

    fun table(): CacheTable {
        val grams = trie.grams()
        return CacheTable(
            map.draftFingerprint, map.targetFingerprint, tick,
            ArrayTable(grams), rows(map.spellings, grams), column(ticks), column(hits), column(accepted),
        )
    }

    private fun column(counts: LongArray): IntTable = ArrayTable(IntArray(size) { counts[it].toInt() })

    private fun insertAll(leaves: IntArray) {
        val before = trie.grams()
        trie.activateAll(leaves)
        ticks = spread(ticks, before, tick)
        hits = spread(hits, before, 0)
        accepted = spread(accepted, before, 0)
    }

    /** A column after many entries came in: old entries keep their values, new ones get another. */
    private fun spread(column: LongArray, before: IntArray, value: Long): LongArray {
        var old = 0
        return LongArray(size) {
            if (old < before.size && before[old] == trie.gramTargets[it]) column[old++] else value
        }
    }

    private fun evict(at: Int) {
        trie.deactivate(map.leafOf[trie.gramTargets[at]])
        for (column in listOf(ticks, hits, accepted)) column.copyInto(column, at, at + 1, size + 1)
    }

    /** The index of a target token's entry, -1 if it has none. */
    private fun place(targetId: Int): Int {
        val at = trie.place(targetId)
        return if (at < size && trie.gramTargets[at] == targetId) at else -1
    }

    internal companion object {
        /** The cache with the contents of a table; entries beyond the capacity are evicted. */
        fun ofTable(table: CacheTable, map: VocabMap, capacity: Int = Defaults.CACHE_CAPACITY): NgramCache {
            val cache = NgramCache(map, capacity)
            val kept = within(table, capacity)
            cache.tick = table.tick
            cache.insertAll(IntArray(kept.size) { map.leafOf[kept.targets[it]] })
            cache.ticks = LongArray(kept.size) { kept.ticks.unsigned(it) }
            cache.hits = LongArray(kept.size) { kept.hits.unsigned(it) }
            cache.accepted = LongArray(kept.size) { kept.accepted.unsigned(it) }
            return cache
        }

        private fun within(table: CacheTable, capacity: Int): CacheTable {
            if (table.size <= capacity) return table
            val order = evictionOrder(table.hits, table.ticks)
            val kept = order.copyOfRange(table.size - capacity, table.size)
            kept.sort()
            return table.keep(kept)
        }
    }
}
