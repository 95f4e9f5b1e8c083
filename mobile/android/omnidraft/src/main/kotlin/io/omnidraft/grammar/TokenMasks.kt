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
 * of tokens of one way to complete it, so what is allowed can be completed, always. Bytes that the grammar fixes are written
 * as the target spells them.
 */

internal const val ANY_ROOM: Int = 1 shl 30 // more than any bound
private const val CACHED_BYTES = 1 shl 24 // of masks that are kept
private const val MOST_BOUNDS = 8 // configurations whose bounds are kept; they are asked for near the end of a text
private const val MOST_CONFIGURATIONS = 1 shl 16 // that are numbered before all are forgotten
private const val MOST_FIXED = 1 shl 12 // bytes
private const val DEAD = 0 // number of the configuration of no text

/** What may follow a configuration. */
private class Entry(
    val allowed: IdSet, // with any number of tokens left
    val spelling: IdSet?, // the ids that fixed bytes are written with; null where any may write them
    val most: Int, // the largest bound behind a token, of whatever spelling
    val least: Int, // the smallest of a token with bytes
)

/** The first token of the spelling of fixed bytes, and the tokens that reach beyond them. */
private class Spelling(val first: Int, val beyond: IntArray)

/** The only token that may write fixed bytes, and the bound behind it. */
internal class Certain(val token: Int, val bound: Int)

private val NOT_CERTAIN = Certain(-1, 0)

/** A map of the last [most] keys that were asked for. */
internal class Kept<K : Any, V>(private val most: Int) : LinkedHashMap<K, V>(16, 0.75f, true) {
    override fun removeEldestEntry(eldest: MutableMap.MutableEntry<K, V>): Boolean = size > most
}

/**
 * Masks of one grammar for one model; for one thread.
 *
 * @throws GrammarException the model's tokens cannot write any text of the grammar.
 */
internal class TokenMasks(
    val grammar: Grammar,
    private val trie: ByteTrie, // the bytes of the model's tokens
    eosIds: Collection<Int>, // end tokens, which are allowed where a text is complete
    private val controls: Map<Int, ByteArray> = emptyMap(), // what outputs show of control tokens
    private val spell: (ByteArray) -> IntArray? = { null }, // the model's own ids of a fragment; null: any ids may write it
) {
    private val eos = eosIds.filter { it in 0 until trie.width }.toIntArray()
    private val beginsShown = controls.values.any { grammar.read(START, it) != null }
    private val stateBounds = stateBounds(grammar, trie)
    private val single: IntArray by lazy(LazyThreadSafetyMode.NONE) { singleBytes(grammar) }
    private val entries = Kept<Configuration, Entry>(maxOf(1, CACHED_BYTES / (trie.width / 4 + 64)))
    private val certains = Kept<Configuration, Certain>(MOST_CONFIGURATIONS)
    private val tokenBounds = Kept<Configuration, ShortArray>(MOST_BOUNDS) // behind each id; unsigned
    private val scratch = List(2) { IntArray(trie.levels.maxOfOrNull { it.parents.size } ?: 1) }
    private val numbers = HashMap<Configuration, Int>()
    private val configurations = ArrayList<Configuration>()
    private var moves = arrayOfNulls<IntArray>(64) // by number: the number behind each class; null before it is asked for
    private var bounds = IntArray(64) // by number

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
        val alone = certain(at)
        if (alone != null && alone.bound < room) return IdSet(trie.width).also { it.add(alone.token) }
        val entry = entry(at)
        if (room > entry.most) return entry.allowed.takeUnless { it.isEmpty() }
        val bounds = tokenBounds[at] ?: ShortArray(trie.width).also {
            compute(at, it)
            tokenBounds[at] = it
        }
        val found = IdSet(trie.width)
        for (id in 0 until trie.width) if (bounds[id].toInt() and 0xffff < room) found.add(id)
        val spelled = entry.spelling?.and(found)?.takeUnless { it.isEmpty() }
        return spelled ?: found.takeUnless { it.isEmpty() }
    }

    /**
     * Whether a text is complete here and no token with bytes may follow.
     *
     * @param room tokens that may still be emitted; with 0, whether none might follow with any room.
     */
    fun isLast(at: Configuration, room: Int): Boolean {
        if (!grammar.isComplete(at)) return false
        return !grammar.goesOn(at.state) || entry(at).least >= if (room > 0) minOf(room, NEVER) else NEVER
    }

    /** The configuration behind an allowed token with some bytes; null behind an end token, or one that is not allowed. */
    fun behind(at: Configuration, token: Int, data: ByteArray): Configuration? {
        if (data.isNotEmpty()) return grammar.read(at, data)
        val isFree = grammar.isFree(at)
        if (token in eos || !(isFree || at == START)) return null
        val shown = controls[token] ?: return if (isFree) at else null // text without the token's bytes goes on
        return grammar.read(at, shown)
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

    /** The only id that may write the bytes that are fixed next, and the bound behind it; null where there are more. */
    fun certain(at: Configuration): Certain? = certains.getOrPut(at) { alone(at) }.takeIf { it !== NOT_CERTAIN }

    /** The model's own ids of the bytes that are fixed next. */
    fun spelled(at: Configuration): IntArray {
        val data = forced(at)
        return (if (data.isEmpty()) null else spell(data)) ?: IntArray(0)
    }

    private fun alone(at: Configuration): Certain {
        val own = spelling(at) ?: return NOT_CERTAIN
        val bound = if (own.beyond.isEmpty()) boundBehind(at, own.first) else NEVER
        if (bound < NEVER) return Certain(own.first, bound)
        val allowed = entry(at).allowed
        val found = (0 until trie.width).asSequence().filter { it in allowed }.take(2).toList()
        return found.singleOrNull()?.let { Certain(it, boundBehind(at, it)) } ?: NOT_CERTAIN
    }

    /** Null where any ids may write what follows. */
    private fun spelling(at: Configuration): Spelling? {
        if (at == START && beginsShown) return null
        val ids = spelled(at)
        return if (ids.isEmpty()) null else Spelling(ids[0], trie.beyond(forced(at)))
    }

    private fun boundBehind(at: Configuration, token: Int): Int =
        trie.tokens[token]?.let { grammar.read(at, it) }?.let { bound(it) } ?: NEVER

    private fun entry(at: Configuration): Entry = entries[at] ?: compute(at, null).also { entries[at] = it }

    /** What may follow; [into] takes the bound behind each id. */
    private fun compute(at: Configuration, into: ShortArray?): Entry {
        if (configurations.size > MOST_CONFIGURATIONS) forget()
        into?.fill(NEVER.toShort())
        val allowed = IdSet(trie.width)
        var (most, least) = 0 to NEVER
        var (before, behind) = scratch
        before[0] = number(at)
        for (level in trie.levels) {
            if (!follow(level, before, behind)) break
            for (i in level.tokens.indices) {
                val bound = bounds[behind[level.nodes[i]]]
                if (bound >= NEVER) continue
                into?.set(level.tokens[i], bound.toShort())
                allowed.add(level.tokens[i])
                most = maxOf(most, bound)
                least = minOf(least, bound)
            }
            before = behind.also { behind = before }
        }
        val withBytes = least
        fun allow(id: Int, bound: Int) {
            if (bound < NEVER) {
                into?.set(id, bound.toShort())
                allowed.add(id)
                most = maxOf(most, bound)
            }
        }
        if (grammar.isComplete(at)) for (id in eos) allow(id, 0)
        val isFree = grammar.isFree(at)
        if (isFree) for (id in trie.silent.indices) if (trie.silent[id] && id !in controls) allow(id, 0)
        if (isFree || at == START) {
            for ((id, data) in controls) allow(id, grammar.read(at, data)?.let { bound(it) } ?: NEVER)
        }
        val spelling = spelling(at)?.let { own ->
            IdSet(trie.width).also { ids -> for (id in own.beyond + own.first) ids.add(id) }
        }
        val spelled = spelling?.and(allowed)?.takeUnless { it.isEmpty() }
        return Entry(spelled ?: allowed, spelling, most, withBytes)
    }

    /** The numbers of the configurations behind the nodes of a level; false where no text goes on. */
    private fun follow(level: Level, before: IntArray, behind: IntArray): Boolean {
        var isAlive = false
        for (node in level.parents.indices) {
            val from = before[level.parents[node]]
            val row = if (from == DEAD) null else moves[from] ?: filled(from)
            val to = if (row == null) DEAD else row[grammar.classes[level.bytes[node].toInt() and 0xff]]
            behind[node] = to
            isAlive = isAlive || to != DEAD
        }
        return isAlive
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
        if (added == bounds.size) {
            moves = moves.copyOf(2 * added)
            bounds = bounds.copyOf(2 * added)
        }
        bounds[added] = bound(at)
    }

    /** Discard all numbers of configurations; number 0 marks bytes that leave the grammar. */
    private fun forget() {
        numbers.clear()
        configurations.clear()
        moves.fill(null)
        configurations.add(START)
        moves[DEAD] = IntArray(grammar.width)
        bounds[DEAD] = NEVER
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
