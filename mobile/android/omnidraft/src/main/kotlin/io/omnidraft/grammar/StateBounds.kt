package io.omnidraft.grammar

import io.omnidraft.Grammar

/* Tokens that complete a text from each state of a grammar (spec/17-grammar.md). */

/** Where the tokens cannot complete it. */
internal const val NEVER: Int = 0xffff

/** The move of each state that is nearer to the end. */
private class NearestMoves(private val grammar: Grammar) {
    private val classes = IntArray(grammar.states) { if (grammar.accepting[it]) -1 else nearest(grammar, it) }
    private val lowest = IntArray(grammar.width) { grammar.classes.indexOf(it) }

    /** The byte, which is the lowest of its class. */
    fun byte(state: Int): Int = lowest[classes[state]]

    fun to(state: Int): Int = grammar.next[state * grammar.width + classes[state]]

    /** The state to return to, -1 without a call. */
    fun back(state: Int): Int = grammar.back(state, classes[state])
}

/**
 * Tokens of one way from each state to the end of its text or rule.
 *
 * The way is that of the nearest moves. Its tokens are as few as possible, but one ends before a call and behind a rule.
 */
internal fun stateBounds(grammar: Grammar, trie: ByteTrie): IntArray {
    val bounds = IntArray(grammar.states) { if (grammar.accepting[it]) 0 else NEVER }
    val nearest = NearestMoves(grammar)
    // What a bound depends on is nearer to the end.
    for (state in (0 until grammar.states).sortedBy { grammar.closing[it] }) {
        if (!grammar.accepting[state]) bounds[state] = boundOf(grammar, trie, nearest, state, bounds)
    }
    return bounds
}

private fun boundOf(grammar: Grammar, trie: ByteTrie, nearest: NearestMoves, state: Int, bounds: IntArray): Int {
    val back = nearest.back(state)
    var (at, node, least) = Triple(state, 0, NEVER)
    for (level in trie.levels) {
        node = level.child(node, nearest.byte(at))
        if (node < 0) break
        at = nearest.to(at)
        if (level.isToken[node]) least = minOf(least, 1 + bounds[at])
        // The first byte of a rule is written with what follows it in the rule; else the way ends at a call.
        if (grammar.accepting[at] || nearest.back(at) >= 0) break
    }
    return minOf(NEVER, least + if (back < 0) 0 else bounds[back])
}
