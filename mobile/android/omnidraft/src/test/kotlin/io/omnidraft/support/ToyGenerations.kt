package io.omnidraft.support

import io.omnidraft.decoding.ContextModel
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.FixedLength
import io.omnidraft.decoding.MatchProposer
import io.omnidraft.decoding.Observer
import io.omnidraft.decoding.PlainProposer
import io.omnidraft.decoding.PromptLookup
import io.omnidraft.decoding.Proposer
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.SamplingConfig
import io.omnidraft.decoding.Source
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.decoding.TrieProposer
import io.omnidraft.decoding.Verifier
import io.omnidraft.decoding.cutAtEos
import io.omnidraft.decoding.speculate
import io.omnidraft.decoding.verifyBlock
import io.omnidraft.decoding.verifyTokens
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap
import kotlin.math.exp

/* Generations of random models in the toy language of spec/vectors/maps. */

internal enum class ToyMode(val word: String) { TOKENS("trie"), BLOCK("trie"), MATCH("match"), LOOKUP("lookup"), PLAIN("plain") }

/**
 * A generation of random models.
 *
 * @property map of the toy language.
 * @property mode how it proposes and verifies.
 * @property seed of the models and of the text.
 */
internal class ToyGeneration(
    val map: VocabMap,
    val mode: ToyMode,
    private val seed: Int,
    private val sampling: SamplingConfig = SamplingConfig(),
    private val tokens: Int = 40,
) {
    val target = ContextModel(2L * seed, map.targetSize)

    /** The text, in both vocabularies. */
    val text = DecoderState()

    val proposer: Proposer = proposer()

    private fun proposer(): Proposer {
        val drafter = Drafter(ContextModel(2L * seed + 1, map.draftSize), intArrayOf(START))
        val cache = NgramCache(map).also { it.insert(FIRST_GRAM) }
        return when (mode) {
            ToyMode.TOKENS -> TrieProposer(drafter, cache, sampling.temperature, Verifier(::verifyTokens))
            ToyMode.BLOCK -> TrieProposer(drafter, cache, sampling.temperature, Verifier(::verifyBlock))
            ToyMode.MATCH -> MatchProposer(drafter, cache, sampling.temperature)
            ToyMode.LOOKUP -> PromptLookup()
            ToyMode.PLAIN -> PlainProposer()
        }
    }

    /** All rounds; a trace of [TOY_PROMPT] begins with the same ids in both vocabularies. */
    fun run(observe: Observer): List<Round> {
        text.restart(TOY_PROMPT, TOY_PROMPT, tokens, cutAtEos(emptySet()))
        val source = if (mode == ToyMode.LOOKUP) Source.COPY else Source.DRAFT
        val length = FixedLength(if (mode == ToyMode.PLAIN) 0 else 5, source = source)
        return speculate(target, proposer, text, sampling, length, SplitMix64(seed.toLong()), observe).asSequence().toList()
    }

    companion object {
        /** Means the same in both toy vocabularies. */
        val TOY_PROMPT = intArrayOf(0, 3, 1)

        const val START = 7

        private const val FIRST_GRAM = 6
    }
}

/** Probabilities of logits at temperature 1. */
internal fun softmax(logits: FloatArray): DoubleArray {
    val largest = logits.max()
    val weights = DoubleArray(logits.size) { exp((logits[it] - largest).toDouble()) }
    val total = weights.sum()
    return DoubleArray(logits.size) { weights[it] / total }
}
