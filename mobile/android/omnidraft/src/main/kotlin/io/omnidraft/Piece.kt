package io.omnidraft

/**
 * Text that one round made certain.
 *
 * A piece is thought or answer, never both: a round that ends a thought gives two pieces, and the ids are with the
 * first.
 *
 * @property text may be empty.
 * @property tokenIds target ids that the round emitted.
 * @property drafted how many of them were proposed and accepted.
 * @property isThought whether the text is what the model thinks before its answer, with the tags around it.
 */
public class Piece(
    public val text: String,
    public val tokenIds: IntArray,
    public val drafted: Int,
    public val isThought: Boolean,
) {
    override fun toString(): String = text
}
