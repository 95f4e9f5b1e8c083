package io.omnidraft.decoding

import io.omnidraft.support.rows
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.lang.management.ManagementFactory
import java.nio.ByteBuffer
import java.nio.ByteOrder

private const val WIDTH = 20_000

/** What a round does besides its distribution: memory, reading ahead, errors, the greedy text. */
class RoundTest {
    private fun state(prompt: IntArray, context: IntArray = prompt, most: Int = 1 shl 20): DecoderState =
        DecoderState().apply { restart(prompt, context, most, cutAtEos(emptySet())) }

    /** Each id of one vocabulary is the same id of the other. */
    private fun identityMap(): VocabMap {
        val ids = IntArray(WIDTH) { it }
        val single = rows(ids.map { intArrayOf(it) })
        val none = rows(List(WIDTH) { NO_IDS })
        return VocabMap(none, ids, single, none, ids, BooleanArray(WIDTH) { true }, "d".repeat(64), "e".repeat(64))
    }

    /** A model whose rows are in one direct buffer and take no other memory. */
    private class FixedRows(seed: Long) : Model {
        override val vocabSize: Int = WIDTH
        override val maxLength: Int = 1 shl 30
        override var length: Int = 0
            private set
        private val logits: List<Logits>

        init {
            val random = SplitMix64(seed)
            val values = ByteBuffer.allocateDirect(4 * 8 * WIDTH).order(ByteOrder.nativeOrder()).asFloatBuffer()
            for (i in 0 until values.capacity()) values.put(i, (random.uniform() * 12.0).toFloat())
            logits = List(9) { Logits(values, it, WIDTH) }
        }

        override fun score(tokens: IntArray, numLogits: Int?): Logits {
            length += tokens.size
            return logits[numLogits ?: tokens.size]
        }

        override fun rewind(length: Int) {
            this.length = length
        }
    }

    @Test
    fun noRoundAfterTheFirstAllocatesAVocabulary() {
        val threads = ManagementFactory.getThreadMXBean() as com.sun.management.ThreadMXBean
        val map = identityMap()
        val settings = listOf(
            SamplingConfig(), SamplingConfig(1.0), SamplingConfig(1.0, topK = 100, topP = 0.9),
            SamplingConfig(1.0, repetitionPenalty = 1.2), SamplingConfig(repetitionPenalty = 1.2),
        )
        for (sampling in settings) {
            for (verifier in listOf(Verifier(::verifyTokens), Verifier(::verifyBlock))) {
                val drafter = Drafter(FixedRows(1))
                val cache = NgramCache(map)
                val proposer =
                    if (sampling.temperature == 0.0) MatchProposer(drafter, cache)
                    else TrieProposer(drafter, cache, sampling.temperature, verifier)
                val text = state(intArrayOf(1, 2))
                val loop = speculate(FixedRows(2), proposer, text, sampling, FixedLength(5), SplitMix64(3))
                repeat(20) { loop.next() } // each kind of a round occurs
                val id = Thread.currentThread().id
                for (round in 0 until 50) {
                    val before = threads.getThreadAllocatedBytes(id)
                    loop.next()
                    val bytes = threads.getThreadAllocatedBytes(id) - before
                    assertTrue(bytes < 4 * WIDTH, "$sampling: a round allocated $bytes bytes")
                }
            }
        }
    }

    @Test
    fun theGreedyTextIsThatOfTheTargetAlone() {
        val target = ContextModel(2, TARGET_TOKENS.size, maxLength = 256)
        val plain = ArrayList<Int>()
        val prompt = listOf(0, 3, 1)
        while (plain.size < 60) {
            val row = target.row(prompt + plain)
            plain.add(row.indices.maxByOrNull { row[it] }!!)
        }
        for (count in listOf(0, 1, 4, 12)) {
            val drafter = Drafter(ContextModel(3, DRAFT_TOKENS.size, maxLength = 48), intArrayOf(7))
            val proposer = CopyingProposer(MatchProposer(drafter, toyCache(toyMap(), listOf("FO"))))
            val text = state(prompt.toIntArray(), most = 60)
            val loop = speculate(target, proposer, text, SamplingConfig(), FixedLength(count), SplitMix64(0))
            assertEquals(plain, loop.asSequence().flatMap { it.emitted.asSequence() }.toList())
            assertEquals(prompt + plain, text.tokens.toArray().asList())
            assertEquals(text.tokens.size - 1, target.length, "the target keeps the text without its last token")
            target.rewind(0)
        }
    }

    @Test
    fun aCancelledRoundChangesNeitherTextNorCache() {
        val target = object : ContextModel(2, TARGET_TOKENS.size, maxLength = 256) {
            var passes = 0

            override fun score(tokens: IntArray, numLogits: Int?): Logits {
                if (passes++ == 3) throw Cancelled()
                return super.score(tokens, numLogits)
            }
        }
        val cache = toyCache(toyMap(), emptyList())
        val proposer = TrieProposer(Drafter(ContextModel(3, DRAFT_TOKENS.size)), cache, 1.0)
        val text = state(intArrayOf(0, 3, 1))
        val loop = speculate(target, proposer, text, SamplingConfig(1.0), FixedLength(2), SplitMix64(1))
        repeat(2) { loop.next() } // after the pass over the prompt
        val ids = { list: IntList -> list.toArray().asList() }
        val state = { listOf(ids(text.tokens), ids(text.context), cache.entries(), cache.tick) }
        val before = state()
        assertThrows(Cancelled::class.java) { loop.next() }
        assertEquals(before, state())
    }

    @Test
    fun aTargetWithoutADistributionEndsTheGenerationByName() {
        val target = UnsoundModel(2, TARGET_TOKENS.size) { it[1] = Float.NaN }
        val cache = toyCache(toyMap(), emptyList())
        val proposer = TrieProposer(noDrafter(DRAFT_TOKENS.size), cache, 1.0)
        val loop = speculate(target, proposer, state(intArrayOf(1)), SamplingConfig(1.0), FixedLength(0), SplitMix64(1))
        assertEquals("logits", assertThrows(LogitsError::class.java) { while (loop.hasNext()) loop.next() }.fault)
    }

    @Test
    fun aSecondTextKeepsWhatTheTargetShares() {
        val text = state(intArrayOf(1, 2, 3, 4))
        text.cached.addAll(intArrayOf(1, 2, 3, 4, 5))
        text.restart(intArrayOf(1, 2, 9, 4), NO_IDS, 10, cutAtEos(emptySet()))
        assertEquals(listOf(1, 2), text.cached.toArray().asList())
        text.restart(intArrayOf(1, 2), NO_IDS, 10, cutAtEos(emptySet()))
        assertEquals(listOf(1), text.cached.toArray().asList(), "the last token is read again")
    }
}
