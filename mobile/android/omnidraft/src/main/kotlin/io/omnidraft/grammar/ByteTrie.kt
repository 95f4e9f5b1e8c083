package io.omnidraft.grammar

import io.omnidraft.vocab.IntList

/* The bytes of all tokens of a model as a trie, level by level (spec/17-grammar.md). */

/** The nodes of one depth, sorted by their bytes. */
internal class Level(
    val parents: IntArray, // the node of the level before
    val bytes: ByteArray, // the last byte of each node
    val tokens: IntArray, // ids of the tokens that end at this depth
    val nodes: IntArray, // the node of each of them
) {
    val isToken: BooleanArray = BooleanArray(parents.size).also { for (node in nodes) it[node] = true }

    /** The node below a node of the level before, by a byte; -1 where there is none. */
    fun child(parent: Int, byte: Int): Int {
        var (low, high) = 0 to parents.size - 1
        while (low <= high) {
            val middle = (low + high) ushr 1
            val order = if (parents[middle] != parent) parents[middle].compareTo(parent)
            else (bytes[middle].toInt() and 0xff).compareTo(byte)
            if (order == 0) return middle
            if (order < 0) low = middle + 1 else high = middle - 1
        }
        return -1
    }
}

/**
 * All tokens that have bytes; control tokens and unused ids are in no level. It does not change.
 *
 * @property tokens bytes of each id; null for control tokens and unused ids.
 * @property width of the logits, which may have more ids.
 */
internal class ByteTrie(val tokens: List<ByteArray?>, val width: Int) {
    private val ids: IntArray // in the order of their bytes
    val levels: List<Level>

    /** Whether an id has no bytes. */
    val silent: BooleanArray = BooleanArray(width) { true }

    init {
        val texts = tokens.map { it ?: ByteArray(0) } // a list may make them each time
        val order = texts.indices.filter { texts[it].isNotEmpty() }.sortedWith { a, b -> compare(texts[a], texts[b]) }
        ids = order.toIntArray()
        levels = levelsOf(texts, ids)
        for (id in ids) silent[id] = false
    }

    /** The ids of the tokens that begin with some bytes and have more. */
    fun beyond(data: ByteArray): IntArray {
        val last = data + ByteArray(levels.size) { -1 }
        return ids.copyOfRange(firstAfter(data), firstAfter(last))
    }

    /** The place in [ids] of the first token whose bytes come after some bytes. */
    private fun firstAfter(data: ByteArray): Int =
        ids.asList().binarySearch { if (compare(tokens[it]!!, data) > 0) 1 else -1 }.inv()
}

private fun levelsOf(texts: List<ByteArray>, order: IntArray): List<Level> {
    val node = IntArray(order.size)
    val levels = ArrayList<Level>()
    var long = order.indices.toList()
    while (long.isNotEmpty()) {
        val depth = levels.size
        val (parents, bytes) = IntList() to IntList()
        val (ends, nodes) = IntList() to IntList()
        for (at in long) {
            val text = texts[order[at]]
            val byte = text[depth].toInt() and 0xff
            val isNew = parents.size == 0 || parents[parents.size - 1] != node[at] || bytes[bytes.size - 1] != byte
            if (isNew) {
                parents.add(node[at])
                bytes.add(byte)
            }
            node[at] = parents.size - 1
            if (text.size == depth + 1) {
                ends.add(order[at])
                nodes.add(node[at])
            }
        }
        val last = ByteArray(bytes.size) { bytes[it].toByte() }
        levels.add(Level(parents.toArray(), last, ends.toArray(), nodes.toArray()))
        long = long.filter { texts[order[it]].size > depth + 1 }
    }
    return levels
}

/** The order of two texts by their bytes, the shorter first. */
private fun compare(a: ByteArray, b: ByteArray): Int {
    for (i in 0 until minOf(a.size, b.size)) {
        if (a[i] != b[i]) return (a[i].toInt() and 0xff) - (b[i].toInt() and 0xff)
    }
    return a.size - b.size
}
