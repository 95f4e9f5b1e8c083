package io.omnidraft.vocab.tokenizer

import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.IntTable
import io.omnidraft.vocab.LongTable
import io.omnidraft.vocab.firstNot

/*
 * Byte-pair encoding: join the pair of neighbours with the lowest rank, until no pair has a rank
 * (spec/02-tokenizer.md).
 */

/** A pair of ids and what it becomes: its rank, unsigned, and the merged id, NONE where nothing joins the pair. */
internal class Merge(val key: Long, val rank: Int, val id: Int)

/**
 * Merges by their pair of ids, found by binary search. Any threads share it.
 *
 * @param keys left shl 32 or right of each merge, ascending.
 * @param values rank and merged id of each merge, one after the other.
 */
internal class MergeTable(private val keys: LongTable, private val values: IntTable) {
    // A pair has one place here, where the last pair that was looked up stays. A race costs a search, nothing else,
    // since a Merge does not change.
    private val cached = arrayOfNulls<Merge>(1 shl CACHE_BITS)

    /** Rank and merged id of a pair. */
    fun find(left: Int, right: Int): Merge {
        val key = (left.toLong() shl 32) or right.toLong()
        val place = ((key * SPREAD) ushr (64 - CACHE_BITS)).toInt()
        val last = cached[place]
        if (last != null && last.key == key) return last
        return search(key).also { cached[place] = it }
    }

    private fun search(key: Long): Merge {
        val at = firstNot(0, keys.size) { keys[it] < key }
        if (at == keys.size || keys[at] != key) return Merge(key, 0, NONE)
        return Merge(key, values[2 * at], values[2 * at + 1])
    }

    /**
     * Joins neighbours, the lowest rank first, of equal ranks the leftmost, and adds what is left to [ids]. Time O(n
     * log n).
     *
     * A queue holds every pair that has a rank. An entry whose pair has changed meanwhile is dropped: its left symbol
     * is gone, or the pair gives another id.
     */
    fun merge(symbols: IntArray, ids: IntList) {
        if (symbols.size < 2) return ids.addAll(symbols)
        val chain = Chain(symbols)
        for (at in 0 until symbols.size - 1) chain.look(at, at + 1)
        while (chain.queue.size > 0) chain.joinNext()
        chain.addTo(ids)
    }

    /** The symbols of a word as a linked list, and the pairs in it that may be joined. */
    private inner class Chain(private val symbols: IntArray) {
        val queue = MergeQueue(symbols.size)
        private val before = IntArray(symbols.size) { it - 1 }
        private val behind = IntArray(symbols.size) { it + 1 }

        /** Puts the pair of two places into the queue if something joins it. */
        fun look(left: Int, right: Int) {
            val merge = find(symbols[left], symbols[right])
            if (merge.id != NONE) queue.add(merge.rank, left, merge.id)
        }

        fun joinNext() {
            val at = queue.place
            val merged = queue.merged
            queue.removeFirst()
            val right = behind[at]
            if (symbols[at] < 0 || right >= symbols.size || find(symbols[at], symbols[right]).id != merged) return
            symbols[at] = merged
            symbols[right] = NONE
            behind[at] = behind[right]
            if (behind[at] < symbols.size) {
                before[behind[at]] = at
                look(at, behind[at])
            }
            if (before[at] >= 0) look(before[at], at)
        }

        fun addTo(ids: IntList) {
            for (symbol in symbols) if (symbol >= 0) ids.add(symbol)
        }
    }
}

private const val CACHE_BITS = 15
private const val SPREAD = -7046029254386353131L // 2^64 divided by the golden ratio: it spreads neighbouring keys

/** Pairs that may be joined, the lowest (rank, place, merged id) first: a binary heap without objects. */
internal class MergeQueue(room: Int) {
    private var keys = LongArray(room) // rank and place, so that they sort as signed numbers
    private var ids = IntArray(room)

    var size: Int = 0
        private set

    /** The place of the first pair's left symbol. */
    val place: Int get() = keys[0].toInt()

    /** What the first pair becomes. */
    val merged: Int get() = ids[0]

    /** Adds a pair; its [rank] is unsigned. */
    fun add(rank: Int, place: Int, merged: Int) {
        if (size == keys.size) {
            keys = keys.copyOf(2 * size + 4)
            ids = ids.copyOf(2 * size + 4)
        }
        rise(size++, ((rank.toLong() shl 32) or place.toLong()) xor Long.MIN_VALUE, merged)
    }

    fun removeFirst() {
        size--
        if (size > 0) sink(keys[size], ids[size])
    }

    private fun rise(from: Int, key: Long, id: Int) {
        var at = from
        while (at > 0) {
            val parent = (at - 1) / 2
            if (!isLess(key, id, parent)) break
            move(parent, at)
            at = parent
        }
        put(at, key, id)
    }

    private fun sink(key: Long, id: Int) {
        var at = 0
        while (2 * at + 1 < size) {
            var child = 2 * at + 1
            if (child + 1 < size && isLess(keys[child + 1], ids[child + 1], child)) child++
            if (!isLess(keys[child], ids[child], key, id)) break
            move(child, at)
            at = child
        }
        put(at, key, id)
    }

    private fun isLess(key: Long, id: Int, other: Int): Boolean = isLess(key, id, keys[other], ids[other])

    private fun isLess(key: Long, id: Int, otherKey: Long, otherId: Int): Boolean =
        key < otherKey || (key == otherKey && id < otherId)

    private fun move(from: Int, to: Int) = put(to, keys[from], ids[from])

    private fun put(at: Int, key: Long, id: Int) {
        keys[at] = key
        ids[at] = id
    }
}
