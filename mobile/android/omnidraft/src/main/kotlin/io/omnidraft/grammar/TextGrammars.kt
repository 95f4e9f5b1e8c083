package io.omnidraft.grammar

import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.decoding.IdSet
import io.omnidraft.vocab.tokenizer.Tokenizer

/* The grammars of a session's texts: their masks are kept from text to text. */

private const val MOST_GRAMMARS = 4 // whose masks are kept

/** A model's side: its tokenizer and the bytes of its tokens. */
internal class ModelTokens(val tokenizer: Tokenizer, val trie: () -> ByteTrie) {
    /** The bytes of an id; none for control tokens and ids that do not exist. */
    fun bytesOf(id: Int): ByteArray =
        (if (id in tokenizer.tokens.indices) tokenizer.tokens[id] else null) ?: NO_BYTES
}

/** Makes the constraint of each text; for one thread. */
internal class TextGrammars(
    private val target: ModelTokens,
    private val drafter: ModelTokens?, // null without one
    private val draftAllowed: () -> IdSet, // the draft ids that it may propose
    private val controls: () -> Map<Int, ByteArray>, // what outputs show of control tokens of the target
) {
    private val ofTarget = Kept<Pair<Grammar, Set<Int>>, TokenMasks>(MOST_GRAMMARS)
    private val ofDrafter = Kept<Grammar, DraftSide?>(MOST_GRAMMARS)

    /**
     * Keeps one text in a grammar.
     *
     * @param eosIds end tokens of the text.
     * @param proposes whether bytes that the grammar fixes are proposed, and drafts are kept in it.
     * @throws GrammarException the target's tokens cannot write any text of the grammar.
     */
    fun constraint(grammar: Grammar, eosIds: Set<Int>, proposes: Boolean): Constraint {
        val masks = ofTarget.getOrPut(grammar to eosIds) {
            TokenMasks(grammar, target.trie(), eosIds, controls(), target.tokenizer::spell)
        }
        return Constraint(masks, target::bytesOf, proposes, if (proposes) draftSide(grammar) else null)
    }

    /** Null where the drafter's tokens cannot write the texts, so its drafts are not restricted. */
    private fun draftSide(grammar: Grammar): DraftSide? {
        val drafter = drafter ?: return null
        if (grammar !in ofDrafter) { // where it is null, too
            ofDrafter[grammar] = try {
                DraftSide(TokenMasks(grammar, drafter.trie(), emptySet()), draftAllowed(), drafter::bytesOf)
            } catch (_: GrammarException) {
                null
            }
        }
        return ofDrafter[grammar]
    }
}

private val NO_BYTES = ByteArray(0)
