package io.omnidraft.vocab

import io.omnidraft.CacheFileException

/* The contents of an n-gram cache as a value: what a file holds, and how two tables merge (spec/06-ngram-cache.md). */

/** Counts and ticks do not grow further. */
internal const val MAX_COUNT: Long = 0xffffffffL

/** The n-grams of one pair of vocabularies, by ascending target id. */
internal class CacheTable(
    val draftFingerprint: String, // SHA-256 of the drafter's tokenizer, 64 hexadecimal digits
    val targetFingerprint: String, // the same of the target's tokenizer
    val tick: Long, // rounds learned from, at most 2^32 - 1
    val targets: IntTable, // target ids, ascending and distinct
    val spellings: Ragged, // the draft tokens of each entry, 2 to 255
    val ticks: IntTable, // the round in which each entry was last emitted; unsigned
    val hits: IntTable, // times each entry was emitted; unsigned
    val accepted: IntTable, // times each entry was emitted because it was proposed; unsigned
) {
    val size: Int get() = targets.size

    /** The table of some entries, given by their ascending indices. */
    fun keep(chosen: IntArray): CacheTable = CacheTable(
        draftFingerprint, targetFingerprint, tick,
        pick(targets, chosen), rows(spellings, chosen), pick(ticks, chosen), pick(hits, chosen), pick(accepted, chosen),
    )
}

private fun pick(column: IntTable, chosen: IntArray): IntTable =
    ArrayTable(IntArray(chosen.size) { column[chosen[it]] })

/**
 * All entries of both tables, with the maximum of hits, of accepted and of tick of each entry.
 *
 * Commutative, associative and idempotent. The result may exceed any capacity; a session that loads the result evicts.
 */
internal fun merge(a: CacheTable, b: CacheTable): CacheTable {
    checkSamePair(a, b)
    val ids = union(a.targets, b.targets)
    val fromA = places(a.targets, ids)
    val fromB = places(b.targets, ids)
    checkSameSpellings(a, b, ids, fromA, fromB)
    fun largest(column: (CacheTable) -> IntTable): IntTable = ArrayTable(
        IntArray(ids.size) { maxOf(at(column(a), fromA[it]), at(column(b), fromB[it])).toInt() },
    )
    return CacheTable(
        a.draftFingerprint, a.targetFingerprint, maxOf(a.tick, b.tick), ArrayTable(ids),
        Ragged.of(ids.size) { if (fromA[it] >= 0) a.spellings.row(fromA[it]) else b.spellings.row(fromB[it]) },
        largest { it.ticks }, largest { it.hits }, largest { it.accepted },
    )
}

private fun at(column: IntTable, place: Int): Long = if (place < 0) 0 else column.unsigned(place)

private fun checkSamePair(a: CacheTable, b: CacheTable) {
    if (a.draftFingerprint == b.draftFingerprint && a.targetFingerprint == b.targetFingerprint) return
    throw CacheFileException(
        "foreign_vocabulary",
        "one cache is of drafter ${a.draftFingerprint.take(12)} and target ${a.targetFingerprint.take(12)}, " +
            "the other of ${b.draftFingerprint.take(12)} and ${b.targetFingerprint.take(12)}",
        "merge caches of one pair of tokenizers",
    )
}

/** The ids of two ascending tables, ascending, each once. */
private fun union(a: IntTable, b: IntTable): IntArray {
    val ids = IntList(maxOf(a.size, b.size))
    var inA = 0
    var inB = 0
    while (inA < a.size || inB < b.size) {
        val isA = inA < a.size && (inB == b.size || a[inA] <= b[inB])
        val id = if (isA) a[inA] else b[inB]
        ids.add(id)
        if (isA) inA++
        if (inB < b.size && b[inB] == id) inB++
    }
    return ids.toArray()
}

/** The place of each id in an ascending table whose ids are all among them; -1 where the table lacks it. */
private fun places(table: IntTable, ids: IntArray): IntArray {
    var next = 0
    return IntArray(ids.size) { if (next < table.size && table[next] == ids[it]) next++ else -1 }
}

private fun checkSameSpellings(a: CacheTable, b: CacheTable, ids: IntArray, fromA: IntArray, fromB: IntArray) {
    for (i in ids.indices) {
        if (fromA[i] < 0 || fromB[i] < 0 || sameRow(a.spellings, fromA[i], b.spellings, fromB[i])) continue
        throw CacheFileException(
            "spelling",
            "target token ${ids[i]} is ${a.spellings.row(fromA[i]).toList()} in one cache and " +
                "${b.spellings.row(fromB[i]).toList()} in the other",
            "one of the caches was not written by omnidraft",
        )
    }
}

internal fun rows(ragged: Ragged, chosen: IntArray): Ragged = Ragged.of(chosen.size) { ragged.row(chosen[it]) }

internal fun sameRow(a: Ragged, inA: Int, b: Ragged, inB: Int): Boolean {
    val length = a.length(inA)
    if (b.length(inB) != length) return false
    val ours = a.start(inA)
    val theirs = b.start(inB)
    for (i in 0 until length) if (a.values[ours + i] != b.values[theirs + i]) return false
    return true
}

/** Indices of entries, the first to be evicted first: fewest hits, then lowest tick, then lowest index. */
internal fun evictionOrder(hits: IntTable, ticks: IntTable): IntArray {
    val keys = LongArray(hits.size) { evictionKey(hits.unsigned(it), ticks.unsigned(it)) }
    return stableOrder(keys)
}

/** Two unsigned numbers of 32 bits as a signed one that sorts by the first, then by the second. */
private fun evictionKey(first: Long, second: Long): Long = ((first shl 32) or second) xor Long.MIN_VALUE

/** The indices of keys in ascending order; of equal keys the lowest index first. A merge sort without objects. */
private fun stableOrder(keys: LongArray): IntArray {
    var order = IntArray(keys.size) { it }
    var other = IntArray(keys.size)
    var width = 1
    while (width < keys.size) {
        for (start in keys.indices step 2 * width) {
            val middle = minOf(start + width, keys.size)
            mergeRuns(keys, order, other, start, middle, minOf(middle + width, keys.size))
        }
        order = other.also { other = order }
        width *= 2
    }
    return order
}

private fun mergeRuns(keys: LongArray, from: IntArray, to: IntArray, start: Int, middle: Int, end: Int) {
    var left = start
    var right = middle
    for (at in start until end) {
        val takesLeft = left < middle && (right == end || keys[from[left]] <= keys[from[right]])
        to[at] = if (takesLeft) from[left++] else from[right++]
    }
}

/** The first index of [evictionOrder], without sorting, of the first [size] entries, of which there is one at least. */
internal fun firstToEvict(hits: LongArray, ticks: LongArray, size: Int): Int {
    check(size > 0) { "nothing to evict" }
    var best = 0
    for (at in 1 until size) {
        if (hits[at] < hits[best] || (hits[at] == hits[best] && ticks[at] < ticks[best])) best = at
    }
    return best
}

/** Refuses a table that was learned from other vocabularies. */
internal fun checkAgainst(table: CacheTable, map: VocabMap) {
    checkFingerprint("drafter", table.draftFingerprint, map.draftFingerprint)
    checkFingerprint("target", table.targetFingerprint, map.targetFingerprint)
    checkRange("target", table.targets, map.targetSize)
    checkRange("draft", table.spellings.values, map.draftSize)
    for (i in 0 until table.size) {
        val target = table.targets[i]
        if (map.leafOf[target] >= 0 && sameRow(map.spellings, target, table.spellings, i)) continue
        throw CacheFileException("spelling", "it spells target tokens in another way than the vocabulary map")
    }
}

private fun checkFingerprint(who: String, theirs: String, ours: String) {
    if (theirs == ours) return
    val sentence = "it is of another $who tokenizer (${theirs.take(12)}, this one is ${ours.take(12)})"
    throw CacheFileException("foreign_vocabulary", sentence)
}

private fun checkRange(which: String, ids: IntTable, size: Int) {
    for (i in 0 until ids.size) {
        if (ids[i] < size) continue
        throw CacheFileException("id_range", "it holds $which id ${ids[i]}, outside 0..${size - 1}")
    }
}
