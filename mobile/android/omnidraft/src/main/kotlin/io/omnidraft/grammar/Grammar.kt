package io.omnidraft // an app imports one package

import io.omnidraft.grammar.loadGrammar
import io.omnidraft.grammar.readGrammar
import java.io.File

internal const val MOST_STATES: Int = 1 shl 16
internal const val MOST_STACK: Int = 64

/** A state and the states to return to, the next one last. */
internal class Configuration(val state: Int, val stack: IntArray) {
    override fun equals(other: Any?): Boolean =
        other is Configuration && state == other.state && stack.contentEquals(other.stack)

    override fun hashCode(): Int = 31 * stack.contentHashCode() + state
}

internal val START: Configuration = Configuration(0, IntArray(0))

/**
 * A set of texts that an output must belong to, such as the JSON texts of a schema (spec/17-grammar.md): an automaton
 * of bytes with a bounded stack. `omnidraft grammar` compiles grammars on a desktop, for any target. It does not
 * change, so any sessions share it; a session knows it again by the object.
 */
public class Grammar internal constructor(
    internal val classes: IntArray, // the class of each byte; bytes of one class lead to the same states
    internal val width: Int, // number of classes
    internal val next: IntArray, // the next state by state and class, -1 for none; states times classes
    private val calls: IntArray, // state * width + class of the moves that call a rule, ascending
    internal val backs: IntArray, // the state to return to of each call
    internal val accepting: BooleanArray, // where a text or a rule may end
    internal val closing: IntArray, // the fewest bytes to the end, of those ways that nest least
    internal val nesting: IntArray, // how much deeper the stack gets on that way
    internal val depth: Int, // how deep the stack may get
    internal val tools: String = "", // that the texts call, as a prompt lists them; empty for other grammars
) {
    internal val states: Int get() = accepting.size

    /** The state to return to of a move that calls a rule, else -1. */
    internal fun back(state: Int, ofByte: Int): Int {
        val at = calls.binarySearch(state * width + ofByte)
        return if (at < 0) -1 else backs[at]
    }

    /** The configuration behind one more byte; null where no text goes on so. */
    internal fun step(at: Configuration, byte: Int): Configuration? = move(at, classes[byte])

    /** The configuration behind a byte of a class. */
    internal fun move(at: Configuration, ofByte: Int): Configuration? {
        var to = next[at.state * width + ofByte]
        if (to < 0) return null
        var stack = at.stack
        val back = back(at.state, ofByte)
        if (back >= 0) {
            if (stack.size + nesting[back] > depth) return null
            stack += back
        }
        if (stack.size + nesting[to] > depth) return null
        while (stack.isNotEmpty() && accepting[to]) {
            to = stack.last()
            stack = stack.copyOf(stack.size - 1)
        }
        return Configuration(to, stack)
    }

    /** The configuration behind some bytes. */
    internal fun read(at: Configuration, data: ByteArray): Configuration? {
        var found: Configuration? = at
        for (byte in data) found = step(found ?: return null, byte.toInt() and 0xff)
        return found
    }

    /** Whether a text may end here. */
    internal fun isComplete(at: Configuration): Boolean = at.stack.isEmpty() && accepting[at.state]

    /** Whether a text may end here and any byte may follow: the text is no business of the grammar yet. */
    internal fun isFree(at: Configuration): Boolean =
        isComplete(at) && (at.state * width until (at.state + 1) * width).all { next[it] >= 0 }

    /** Whether any byte leads on from a state. */
    internal fun goesOn(state: Int): Boolean = (state * width until (state + 1) * width).any { next[it] >= 0 }

    public companion object {
        /**
         * The grammar in a file of `omnidraft grammar`.
         *
         * @throws GrammarException the file cannot be read or is no grammar; the fault says why.
         */
        public fun read(file: File): Grammar = loadGrammar(file)

        /**
         * The grammar in the bytes of a file.
         *
         * @throws GrammarException it is no grammar; the fault says why.
         */
        public fun of(bytes: ByteArray): Grammar = readGrammar(bytes, "the grammar")
    }
}
