package io.omnidraft.grammar

import io.omnidraft.Configuration
import io.omnidraft.GrammarException
import io.omnidraft.START
import io.omnidraft.decoding.Emitted
import io.omnidraft.decoding.IdSet
import io.omnidraft.vocab.IntList

/* A text that must belong to a grammar, while it is decoded (spec/17-grammar.md). */

/** What keeps drafts inside the grammar. */
internal class DraftSide(
    val masks: TokenMasks, // of the drafter's tokens
    val allowed: IdSet, // draft ids that the drafter may propose at all
    val bytesOf: (Int) -> ByteArray, // the bytes of a draft id
)

/**
 * Where an output is in its grammar, and what may follow.
 *
 * The target's distribution at each token is p restricted to the ids that [TokenMasks] allows, before the sampling
 * settings are applied.
 */
internal class Constraint(
    private val masks: TokenMasks, // of the target's tokens
    private val bytesOf: (Int) -> ByteArray, // the bytes of a target id; none for a control token
    private val proposes: Boolean = false, // whether tokens of bytes that the grammar fixes are proposed
    private val draft: DraftSide? = null, // null where no drafter proposes
) {
    var at: Configuration = START
        private set

    /** The text is complete, and nothing may follow. */
    var isComplete: Boolean = false
        private set

    /** Whether [draftAllowed] may be asked. */
    val masksDrafts: Boolean get() = draft != null

    /**
     * Refuses a room, in tokens, that may be too small.
     *
     * @throws GrammarException it may be too small for any text but the empty one, which has no end token.
     */
    fun checkRoom(room: Int) {
        val least = masks.bound(at)
        if (least > room) {
            val message = "the shortest text of the grammar takes up to $least tokens, and there is room for $room"
            throw GrammarException("room", message, "raise maxNewTokens, or shorten the prompt")
        }
        if (masks.allowed(at, room) == null) {
            val message = "the only text of the grammar that has room is empty, and the target has no end token"
            throw GrammarException("room", message, "raise maxNewTokens, or use another grammar")
        }
    }

    /**
     * The allowed ids behind 0, 1, ... proposed tokens; null behind tokens that leave or end the text.
     *
     * @param room tokens that may still be emitted before the first of them.
     */
    fun rows(proposed: IntArray, room: Int): (Int) -> IdSet? {
        val places = arrayListOf<Configuration?>(at)
        return { row ->
            while (places.size <= row) places.add(behind(places.last(), proposed[places.size - 1]))
            places[row]?.let { masks.allowed(it, room - row) }
        }
    }

    /** Tokens of the bytes that the grammar fixes next, [most] at most, and how many of them nothing else may replace. */
    fun fixed(most: Int): Pair<IntArray, Int> {
        if (!proposes) return IntArray(0) to 0
        val ids = IntList()
        var place = at
        while (ids.size < most) {
            val token = masks.certain(place)?.token ?: break
            ids.add(token)
            place = checkNotNull(behind(place, token))
        }
        val all = ids.toArray() + masks.spelled(place)
        return validStart(all.copyOf(minOf(most, all.size))) to ids.size
    }

    /**
     * How many of the first proposed tokens are the only ones that may stand there.
     *
     * @param room tokens that may still be emitted before the first of them.
     */
    fun certain(proposed: IntArray, room: Int): Int {
        var place = at
        for (i in proposed.indices) {
            val alone = masks.certain(place)?.takeIf { it.token == proposed[i] && it.bound < room - i } ?: return i
            place = behind(place, alone.token) ?: return i
        }
        return proposed.size
    }

    /** The first of some tokens, as many as stay in the grammar. */
    fun validStart(tokens: IntArray): IntArray {
        var place: Configuration? = at
        for (i in tokens.indices) place = behind(place, tokens[i]) ?: return tokens.copyOf(i)
        return tokens
    }

    /** The draft ids that may follow a draft; null where none may. */
    fun draftAllowed(drafted: IntList): IdSet? {
        val side = checkNotNull(draft)
        var place: Configuration? = at
        for (i in 0 until drafted.size) place = side.masks.grammar.read(place ?: return null, side.bytesOf(drafted[i]))
        return side.masks.allowed(place ?: return null, ANY_ROOM)?.and(side.allowed)?.takeUnless { it.isEmpty() }
    }

    /**
     * Goes on behind emitted tokens.
     *
     * @param room tokens that might be emitted before the first of them.
     * @return the tokens up to the one behind which no other may follow, and whether there is such a one.
     */
    fun advance(emitted: IntArray, room: Int): Emitted {
        for (i in emitted.indices) {
            at = behind(at, emitted[i]) ?: return Emitted(emitted.copyOf(i + 1), true) // an end token
            isComplete = masks.isLast(at, room - i - 1)
            if (isComplete) return Emitted(emitted.copyOf(i + 1), true)
        }
        return Emitted(emitted, false)
    }

    private fun behind(at: Configuration?, token: Int): Configuration? = at?.let { masks.behind(it, token, bytesOf(token)) }
}
