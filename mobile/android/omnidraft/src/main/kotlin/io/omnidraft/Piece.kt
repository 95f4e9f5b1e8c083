package io.omnidraft

/**
 * Text that one round made certain.
 *
 * A piece has one kind: a round that ends a thought gives two pieces, and the ids are with the first.
 *
 * @property text may be empty.
 * @property tokenIds target ids that the round emitted.
 * @property drafted how many of them were proposed and accepted.
 * @property kind what the text is.
 */
public class Piece(
    public val text: String,
    public val tokenIds: IntArray,
    public val drafted: Int,
    public val kind: Kind = Kind.TEXT,
) {
    /** What the text of a piece is. */
    public enum class Kind {
        /** The answer. */
        TEXT,

        /** What the model thinks before its answer, with the tags around it. */
        THOUGHT,

        /** Calls of tools, with the tags around them. */
        CALL,
    }

    override fun toString(): String = text
}
