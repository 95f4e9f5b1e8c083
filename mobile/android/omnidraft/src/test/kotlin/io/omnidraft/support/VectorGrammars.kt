package io.omnidraft.support

import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.conformance.Json
import io.omnidraft.conformance.ROOT
import io.omnidraft.conformance.hex
import io.omnidraft.conformance.ints
import io.omnidraft.conformance.list
import io.omnidraft.conformance.str
import io.omnidraft.decoding.IdSet
import io.omnidraft.grammar.ByteTrie
import io.omnidraft.grammar.Constraint
import io.omnidraft.grammar.DraftSide
import io.omnidraft.grammar.TokenMasks
import io.omnidraft.vocab.IntList
import java.io.File

/* The grammars of the vectors, and the constraint of a vector of `grammar/generate`. */

internal fun vectorGrammar(file: String): Grammar = Grammar.read(File(ROOT, "grammar/valid/$file"))

internal fun tokensOf(given: Any?): List<ByteArray?> = given.list().map { if (it == null) null else it.hex() }

internal fun constraintOf(given: Json, draftAllowed: BooleanArray): Constraint? {
    val grammar = vectorGrammar((given["grammar"] ?: return null).str())
    val tokens = tokensOf(given["target_tokens"])
    val trie = ByteTrie(tokens, tokens.size)
    val masks = TokenMasks(grammar, trie, given["eos_ids"].ints().asList(), spell = { spelled(it, tokens) })
    val proposes = given["mode"] != "plain"
    val draft = if (proposes) draftSide(grammar, tokensOf(given["draft_tokens"]), draftAllowed) else null
    return Constraint(masks, { tokens[it] ?: ByteArray(0) }, proposes, draft)
}

private fun draftSide(grammar: Grammar, pieces: List<ByteArray?>, allowed: BooleanArray): DraftSide? {
    val masks = try {
        TokenMasks(grammar, ByteTrie(pieces, pieces.size), emptyList())
    } catch (_: GrammarException) {
        return null
    }
    val ids = IdSet(allowed.size).also { for (id in allowed.indices) if (allowed[id]) it.add(id) }
    return DraftSide(masks, ids) { pieces[it] ?: ByteArray(0) }
}

/** The longest tokens from the left, of equal ones the lowest id; null where none fits. */
internal fun spelled(data: ByteArray, tokens: List<ByteArray?>): IntArray? {
    val ids = IntList()
    var at = 0
    while (at < data.size) {
        val rest = data.asList().subList(at, data.size)
        val fitting = tokens.indices.filter { id -> tokens[id]?.let { rest.take(it.size) == it.asList() } ?: false }
        val id = fitting.maxByOrNull { tokens[it]!!.size }?.takeIf { tokens[it]!!.isNotEmpty() } ?: return null
        ids.add(id)
        at += tokens[id]!!.size
    }
    return ids.toArray()
}
