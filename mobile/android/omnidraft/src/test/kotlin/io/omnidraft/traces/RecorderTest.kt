package io.omnidraft.traces

import io.omnidraft.decoding.SamplingConfig
import io.omnidraft.learning.positions.joined
import io.omnidraft.support.ToyGeneration
import io.omnidraft.support.ToyMode
import io.omnidraft.support.vectorMap
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File

/** A generation is recorded as it went, through pauses and other adapters. */
class RecorderTest {
    @TempDir
    lateinit var place: File

    private val toy = vectorMap("toy")
    private val path get() = File(place, "t")
    private var adapters = Digests(null, null)

    /** Record a generation; [before] is called with the number of each round. */
    private fun record(store: TraceStore, seed: Int, before: (Int) -> Unit = {}): ToyGeneration {
        val generation = ToyGeneration(toy, ToyMode.TOKENS, seed, SamplingConfig(0.7))
        val source = RecordingSource(toy, { ToyGeneration.TOY_PROMPT }, { adapters }, "trie", false)
        Recorder(store, Tracer(toy, { store.isRecording }), source).use { recorder ->
            var number = 0
            generation.run { outcome, probs ->
                before(number++)
                recorder.record(outcome, probs)
            }
        }
        return generation
    }

    private fun records() = readTraces(listOf(path), Vocabularies.of(toy)).toList()

    private fun idsOf(traced: Traced) = traced.tokens.map { it.tokenId }

    @Test
    fun `a generation comes back as it went`() {
        for (seed in 0 until 5) {
            val generation = TraceStore(path, Vocabularies.of(toy)).use { record(it, seed) }
            val traced = records().last()
            assertEquals(generation.text.tokens.toArray().drop(ToyGeneration.TOY_PROMPT.size), idsOf(traced))
            assertArrayEquals(ToyGeneration.TOY_PROMPT, traced.start.context)
            assertEquals(listOf("trie", false, 0L), listOf(traced.start.mode, traced.start.continues, traced.start.skipped))
        }
        assertEquals(5, records().size)
    }

    @Test
    fun `a pause leaves a gap and the text goes on`() {
        val generation = TraceStore(path, Vocabularies.of(toy)).use { store ->
            record(store, 3) { if (it == 2) store.pause() else if (it == 4) store.resume() }
        }
        val (first, second) = records()
        assertEquals(2, first.rounds.size)
        assertTrue(second.start.continues)
        val ids = generation.text.tokens.toArray().drop(ToyGeneration.TOY_PROMPT.size)
        val text = ToyGeneration.TOY_PROMPT + ids.concatenated { toy.spell(it) }
        assertArrayEquals(text, second.start.context + idsOf(second).concatenated { toy.spell(it) })
        assertEquals(idsOf(first), ids.take(first.tokens.size))
        assertEquals(idsOf(second), ids.takeLast(second.tokens.size))
        assertTrue(first.tokens.size + second.tokens.size < ids.size)
        assertEquals(2, joined(records().asSequence(), toy).count()) // what was not recorded parts them
    }

    @Test
    fun `another adapter begins another record`() {
        val digest = "a".repeat(64)
        val generation = TraceStore(path, Vocabularies.of(toy)).use { store ->
            record(store, 4) { if (it == 3) adapters = Digests(digest, null) }
        }
        val (first, second) = records()
        assertEquals(listOf(null, digest), listOf(first, second).map { it.start.drafterAdapter })
        assertEquals(listOf(false, true), listOf(first, second).map { it.start.continues })
        val whole = joined(records().asSequence(), toy).single()
        assertEquals(generation.text.tokens.toArray().drop(ToyGeneration.TOY_PROMPT.size), idsOf(whole))
    }

    @Test
    fun `a recorded generation is the same generation`() {
        for (seed in 0 until 5) {
            val plain = ToyGeneration(toy, ToyMode.TOKENS, seed, SamplingConfig(0.7))
            plain.run { _, _ -> }
            val recorded = TraceStore(path, Vocabularies.of(toy)).use { record(it, seed) }
            assertArrayEquals(plain.text.tokens.toArray(), recorded.text.tokens.toArray())
        }
    }
}
