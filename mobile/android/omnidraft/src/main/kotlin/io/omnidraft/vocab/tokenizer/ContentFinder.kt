package io.omnidraft.vocab.tokenizer

import io.omnidraft.vocab.firstNot

/** Whether a code point has Unicode's property White_Space, unchanged since Unicode 6.3. */
internal fun isWhiteSpace(point: Int): Boolean = when (point) {
    in 0x09..0x0D, 0x20, 0x85, 0xA0, 0x1680, in 0x2000..0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000 -> true
    else -> false
}

/**
 * Finds the contents of added tokens in a text: leftmost first, the longest of those that begin there.
 *
 * The contents are sorted, and those that share their beginning are a range of them, as in the trie of spellings.
 */
internal class ContentFinder(contents: List<String>) {
    private val numbers: List<Int>
    private val sorted: List<IntArray>
    private val lengths = IntArray(contents.size) // of each content
    private val begins = BooleanArray(0x100) // whether a content begins with a code point of Latin-1

    init {
        val points = contents.map { codePoints(it) }
        numbers = points.indices.sortedWith { a, b -> compare(points[a], points[b]) }
        sorted = numbers.map { points[it] }
        for (content in sorted) if (content[0] < begins.size) begins[content[0]] = true
        for (i in sorted.indices) lengths[numbers[i]] = sorted[i].size
    }

    /** Calls [found] with (start, end, number of the content) for each match; none overlaps the one before it. */
    inline fun find(text: IntArray, found: (Int, Int, Int) -> Unit) {
        var start = 0
        while (start < text.size) {
            val match = longest(text, start)
            if (match >= 0) found(start, start + lengthOf(match), match)
            start += if (match >= 0) lengthOf(match) else 1
        }
    }

    /** Code points of a content. */
    fun lengthOf(number: Int): Int = lengths[number]

    /** The number of the longest content that begins at a place of a text; -1 if none does. */
    fun longest(text: IntArray, start: Int): Int {
        if (sorted.isEmpty() || (text[start] < begins.size && !begins[text[start]])) return -1
        var low = 0
        var high = sorted.size
        var best = -1
        for (depth in 0 until text.size - start) {
            low = bound(low, high, depth, text[start + depth])
            high = bound(low, high, depth, text[start + depth] + 1)
            if (low == high) break
            // A content comes before those that go on behind it.
            if (sorted[low].size == depth + 1) best = numbers[low++]
        }
        return best
    }

    /**
     * The first content from [low] on, of those that agree up to [depth], whose code point there is not below [point].
     */
    private fun bound(low: Int, high: Int, depth: Int, point: Int): Int =
        firstNot(low, high) { sorted[it][depth] < point }

    private fun compare(a: IntArray, b: IntArray): Int {
        for (at in 0 until minOf(a.size, b.size)) if (a[at] != b[at]) return a[at].compareTo(b[at])
        return a.size.compareTo(b.size)
    }
}
