package io.omnidraft.conformance

import io.omnidraft.Configuration
import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.START
import io.omnidraft.decoding.IdSet
import io.omnidraft.disk.hexOf
import io.omnidraft.grammar.ByteTrie
import io.omnidraft.grammar.CallForm
import io.omnidraft.grammar.CallStream
import io.omnidraft.grammar.NEVER
import io.omnidraft.grammar.TokenMasks
import io.omnidraft.support.spelled
import io.omnidraft.support.tokensOf
import io.omnidraft.support.vectorGrammar
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runs `grammar/...`: grammar files, allowed tokens, and generations in a grammar. */
class GrammarVectorsTest : VectorsRun() {
    @TestFactory
    fun valid(): List<DynamicTest> = folder("grammar/valid") { vector ->
        val grammar = vectorGrammar(vector.input["file"].str())
        assertSame(vector, "depth", vector.expected["depth"], grammar.depth)
        assertSame(vector, "tools", vector.expected["tools"], grammar.tools)
        val texts = vector.input["texts"].list().map { it.hex() }
        val ways = texts.zip(vector.expected["configurations"].list()).map { (text, way) ->
            List(way.list().size) { grammar.read(START, text.copyOf(it))?.let { at -> listOf(at.state, at.stack) } }
        }
        assertSame(vector, "configurations", vector.expected["configurations"], ways)
        val complete = texts.map { text -> grammar.read(START, text)?.let { grammar.isComplete(it) } ?: false }
        assertSame(vector, "complete", vector.expected["complete"], complete)
    }

    @TestFactory
    fun invalid(): List<DynamicTest> = folder("grammar/invalid") { vector ->
        assertNull(unlessRefused(vector, GrammarException::class.java) { Grammar.of(vector.input["bytes"].hex()) })
    }

    @TestFactory
    fun tokens(): List<DynamicTest> = folder("grammar/tokens") { vector ->
        val given = vector.input
        val grammar = vectorGrammar(given["file"].str())
        val tokens = tokensOf(given["tokens"])
        val trie = ByteTrie(tokens, given["width"].int())
        val eos = given["eos_ids"].ints().asList()
        val controls = given["controls"]?.obj().orEmpty().entries.associate { it.key.toInt() to it.value.hex() }
        val masks = unlessRefused(vector, GrammarException::class.java) {
            TokenMasks(grammar, trie, eos, controls) { spelled(it, tokens) }
        } ?: return@folder
        for ((text, place) in given["places"].list().zip(vector.expected["places"].list())) {
            val at = checkNotNull(grammar.read(START, text.hex()))
            assertSame(vector, "place $text", place, placeOf(masks, at, place.obj()["allowed"].list()))
        }
    }

    private fun placeOf(masks: TokenMasks, at: Configuration, rooms: List<Any?>): Json = mapOf(
        "bound" to masks.bound(at).takeIf { it < NEVER },
        "fixed" to hexOf(masks.forced(at)),
        "certain" to masks.certain(at)?.token,
        "last" to masks.isLast(at, 0),
        "allowed" to rooms.map { it.list()[0].int() }.map { room ->
            listOf(room, idsOf(masks.allowed(at, room)), masks.isLast(at, room))
        },
    )

    private fun idsOf(ids: IdSet?): List<Int> = if (ids == null) emptyList() else (0 until ids.size).filter { it in ids }

    @TestFactory
    fun calls(): List<DynamicTest> = folder("grammar/calls") { vector ->
        val (given, expected) = vector.input to vector.expected
        val form = given["form"].obj().let {
            CallForm(it["open"].str(), it["between"]?.str(), it["close"].str(), it["arguments"].str(), it["id_length"].int())
        }
        if ("file" in given) {
            assertSame(vector, "fits", expected["fault"] == null, form.fits(vectorGrammar(given["file"].str())))
            return@folder
        }
        val texts = given["texts"].list().map { it.str() }
        val stream = CallStream(form)
        val parts = texts.map { stream.push(it).toList() } + listOf(listOf(stream.end(), ""))
        assertSame(vector, "parts", expected["parts"], parts)
        assertSame(vector, "marker", expected["marker"], form.marker)
        val calls = form.read(texts.joinToString("")).map { mapOf("name" to it.name, "arguments" to it.arguments, "id" to it.id) }
        assertSame(vector, "calls", expected["calls"], calls)
    }

    @TestFactory
    fun generate(): List<DynamicTest> = folder("grammar/generate") { vector -> runGeneration(vector) }
}
