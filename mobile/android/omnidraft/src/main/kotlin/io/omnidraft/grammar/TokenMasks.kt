package io.omnidraft.grammar

import io.omnidraft.Configuration
import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.START
import io.omnidraft.decoding.IdSet
import java.io.ByteArrayOutputStream

/*
 * Which tokens of a model a grammar allows next (spec/17-grammar.md).
 *
 * A token is allowed if the text behind it can still be completed with the tokens that are left. The bound is the number
 * of tokens of one way to complete it, so what is allowed can be completed, always.
 */

/** The bound of a token that is not allowed. */
internal const val NEVER: Int = 0xffff
internal const val ANY_ROOM: Int = 1 shl 30 // more than any bound
private const val CACHED_BYTES = 1 shl 24 // of masks that are kept
private const val MOST_CONFIGURATIONS = 1 shl 16 // that are numbered before all are forgotten
private const val MOST_FIXED = 1 shl 12 // bytes
private const val DEAD = 0 // number of the configuration of no text

/** What may follow a configuration. */
private class Entry(
    val allowed: IdSet, // with any number of tokens left
    val bounds: ShortArray, // tokens that complete the text behind each id at most; unsigned
    val most: Int, // the largest of them that is one
    val least: Int, // the smallest of a token with bytes
)

/**
 * Masks of one grammar for one model; for one thread.
 *
 * @throws GrammarException the model's tokens cannot write any text of the grammar.
 */
internal class TokenMasks(
    val grammar: Grammar,
    private val trie: ByteTrie, // the bytes of the model's tokens
    eosIds: Collection<Int>, // end tokens, which are allowed where a text is complete
) {
    private val eos = eosIds.filter { it in 0 until trie.width }.toIntArray()
    private val stateBounds = stateBounds(grammar, trie)
    private val single: IntArray by lazy(LazyThreadSafetyMode.NONE) { singleBytes(grammar) }
    private val kept = maxOf(1, CACHED_BYTES / (2 * trie.width + trie.width / 8 + 1))
    private val entries = object : LinkedHashMap<Configuration, Entry>(16, 0.75f, true) {
        override fun removeEldestEntry(eldest: MutableMap.MutableEntry<Configuration, Entry>): Boolean = size > kept
    }
    private val numbers = HashMap<Configuration, Int>()
    private val configurations = ArrayList<Configuration>()
    private val moves = ArrayList<IntArray?>() // by number: the number behind each class; null before it is asked for
    private val bounds = ArrayList<Int>() // by number

    init {
        forget()
        if (bound(START) >= NEVER) {
            val message = "the target's tokens cannot write a text of the grammar"
            throw GrammarException("vocabulary", message, "use another grammar or target")
        }
    }

    /** The tokens of one way to complete a text from here; [NEVER] where the tokens cannot. */
    fun bound(at: Configuration): Int {
        var sum = stateBounds[at.state]
        for (state in at.stack) sum += stateBounds[state]
        return minOf(sum, NEVER)
    }

    /**
     * The ids that may come next, null where none may; not to be changed.
     *
     * @param room tokens that may still be emitted, this one included, at least 1.
     */
    fun allowed(at: Configuration, room: Int): IdSet? {
        val entry = entry(at)
        if (room > entry.most) return entry.allowed.takeUnless { it.isEmpty() }
        val found = IdSet(trie.width)
        for (id in 0 until trie.width) if (entry.bounds[id].toInt() and 0xffff < room) found.add(id)
        return found.takeUnless { it.isEmpty() }
    }

    /**
     * Whether a text is complete here and no token with bytes may follow.
     *
     * @param room tokens that may still be emitted; with 0, whether none might follow with any room.
     */
    fun isLast(at: Configuration, room: Int): Boolean {
        if (!grammar.isComplete(at)) return false
        return !grammar.goesOn(at.state) || entry(at).least >= if (room > 0) room else NEVER
    }

    /** The bytes that every text has next, up to a place where it may end or has a choice. */
    fun forced(at: Configuration): ByteArray {
        val data = ByteArrayOutputStream()
        var place = at
        while (!grammar.isComplete(place) && data.size() < MOST_FIXED) {
            val byte = single[place.state]
            place = (if (byte < 0) null else grammar.step(place, byte)) ?: break
            data.write(byte)
        }
        return data.toByteArray()
    }

    private fun entry(at: Configuration): Entry = entries[at] ?: computed(at).also { entries[at] = it }

    private fun computed(at: Configuration): Entry {
        if (configurations.size > MOST_CONFIGURATIONS) forget()
        val found = ShortArray(trie.width) { NEVER.toShort() }
        val allowed = IdSet(trie.width)
        var (most, least) = 0 to NEVER
        var before = intArrayOf(number(at))
        for (level in trie.levels) {
            val behind = behind(level, before) ?: break
            for (i in level.tokens.indices) {
                val bound = bounds[behind[level.nodes[i]]]
                if (bound >= NEVER) continue
                found[level.tokens[i]] = bound.toShort()
                allowed.add(level.tokens[i])
                most = maxOf(most, bound)
                least = minOf(least, bound)
            }
            before = behind
        }
        if (grammar.isComplete(at)) {
            for (id in eos) {
                found[id] = 0
                allowed.add(id)
            }
        }
        return Entry(allowed, found, most, least)
    }

    /** The numbers of the configurations behind the nodes of a level; null where no text goes on. */
    private fun behind(level: Level, before: IntArray): IntArray? {
        var isAlive = false
        val found = IntArray(level.parents.size)
        for (node in found.indices) {
            val from = before[level.parents[node]]
            if (from == DEAD) continue
            val to = (moves[from] ?: filled(from))[grammar.classes[level.bytes[node].toInt() and 0xff]]
            found[node] = to
            isAlive = isAlive || to != DEAD
        }
        return if (isAlive) found else null
    }

    private fun filled(number: Int): IntArray {
        val at = configurations[number]
        val row = IntArray(grammar.width) { ofByte -> grammar.move(at, ofByte)?.let { number(it) } ?: DEAD }
        moves[number] = row
        return row
    }

    private fun number(at: Configuration): Int = numbers[at] ?: configurations.size.also { added ->
        numbers[at] = added
        configurations.add(at)
        moves.add(null)
        bounds.add(bound(at))
    }

    /** Discard all numbers of configurations; number 0 marks bytes that leave the grammar. */
    private fun forget() {
        numbers.clear()
        configurations.clear()
        moves.clear()
        bounds.clear()
        configurations.add(START)
        moves.add(IntArray(grammar.width))
        bounds.add(NEVER)
    }
}

/** The only byte that may follow each state, else -1. */
private fun singleBytes(grammar: Grammar): IntArray {
    val sizes = IntArray(grammar.width)
    for (ofByte in grammar.classes) sizes[ofByte]++
    return IntArray(grammar.states) { state ->
        var (count, found) = 0 to -1
        for (ofByte in 0 until grammar.width) {
            if (grammar.next[state * grammar.width + ofByte] < 0) continue
            count += sizes[ofByte]
            found = ofByte
        }
        if (count == 1) grammar.classes.indexOf(found) else -1
    }
}

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
