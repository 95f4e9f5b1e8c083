package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.vocab.IntList
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import kotlin.math.abs

private const val LENGTH = 3 // tokens whose joint distribution is compared
private val PROMPT = listOf(0, 3, 1, 0, 3) // its last two tokens occur before, so that a copy is proposed
private const val FLOAT32 = 1e-6 // total variation that float32 weights may cause
private val CACHES = listOf(emptyList(), listOf("FO"), listOf("FLAKE", "FO"), GRAMS.keys.toList())
private val ALL = SamplingConfig(1.2, topK = 6, topP = 0.9, minP = 0.05, repetitionPenalty = 1.8)
private val TRUNCATED = mapOf(
    "top-k" to SamplingConfig(1.0, topK = 4),
    "top-p" to SamplingConfig(0.8, topP = 0.7),
    "min-p" to SamplingConfig(1.3, minP = 0.15),
    "penalty" to SamplingConfig(1.0, repetitionPenalty = 2.5),
    "all" to ALL,
)

/** How the proposals of a case are made and verified. */
private enum class Kind { TOKEN, BLOCK, MATCH, LOOKUP, COPYING, PLAIN }

/**
 * A fixed number of draft tokens, but a draft ends where the drafter is not confident: before a token of half the
 * confidence of that after which it ends.
 */
private class EndingLength(count: Int, least: Double) : DraftLength by FixedLength(count) {
    private val chances = Defaults.DRAFT_LENGTH_CHANCES.toDoubleArray()
    private val worth = DoubleArray(count) { 0.5 * least }
    private val plan = Plan(Source.DRAFT, count, false, chances, worth, DoubleArray(count) { least })

    override fun next(match: Int): Plan = plan
}

/** One generation whose distribution is enumerated. */
private data class Case(
    val kind: Kind,
    val sampling: SamplingConfig = SamplingConfig(1.0),
    val seed: Long = 3,
    val count: Int = 2,
    val grams: List<String> = GRAMS.keys.toList(),
    val most: Int = 16,
    val rounds: Int = 1,
    val drafter: Model? = null,
    val least: Double = 0.0, // a draft ends early where it is accepted so far with less than this probability
)

/** Exactness by enumeration: at every temperature, the output has exactly the target's distribution. */
class ExactnessTest {
    private fun proposer(case: Case, drafter: Drafter): Proposer {
        val cache = toyCache(toyMap(), case.grams)
        val temperature = case.sampling.temperature
        val verifier = Verifier(if (case.kind == Kind.BLOCK) ::verifyBlock else ::verifyTokens)
        return when (case.kind) {
            Kind.LOOKUP -> PromptLookup()
            Kind.MATCH -> MatchProposer(drafter, cache, temperature)
            Kind.COPYING -> CopyingProposer(TrieProposer(drafter, cache, temperature))
            else ->
                if (temperature == 0.0) MatchProposer(drafter, cache)
                else TrieProposer(drafter, cache, temperature, verifier)
        }
    }

    private fun lengthOf(case: Case): DraftLength = when (case.kind) {
        Kind.PLAIN -> FixedLength(0)
        Kind.LOOKUP, Kind.COPYING -> FixedLength(case.count, source = Source.COPY)
        else -> if (case.least > 0.0) EndingLength(case.count, case.least) else FixedLength(case.count)
    }

    /** The distribution of the first tokens, by the real loop, drafter, translator and verifier. */
    private fun distributionOfOutput(case: Case): Map<List<Int>, Double> {
        val target = ContextModel(2 * case.seed, TARGET_TOKENS.size)
        val model = case.drafter ?: ContextModel(2 * case.seed + 1, DRAFT_TOKENS.size)
        val distribution = outcomes { random ->
            model.rewind(0)
            val text = DecoderState()
            text.restart(PROMPT.toIntArray(), intArrayOf(0, 3), case.most, cutAtEos(emptySet()))
            val loop = speculate(target, proposer(case, Drafter(model)), text, case.sampling, lengthOf(case), random)
            val emitted = ArrayList<Int>()
            for (i in 0 until case.rounds) if (loop.hasNext()) emitted.addAll(loop.next().emitted.asList())
            emitted.toList()
        }
        assertEquals(1.0, distribution.values.sum(), 1e-9)
        return distribution
    }

    /** Distance to the target's own distribution of [LENGTH] tokens; the target continues shorter outputs. */
    private fun totalVariation(distribution: Map<List<Int>, Double>, case: Case): Double {
        val target = ContextModel(2 * case.seed, TARGET_TOKENS.size)
        val difference = HashMap<List<Int>, Double>()
        fun goOn(context: List<Int>, weight: Double) {
            if (weight == 0.0) return
            if (context.size >= LENGTH) {
                difference.merge(context.take(LENGTH), weight, Double::plus)
                return
            }
            val before = PROMPT + context
            processed(target.row(before), case.sampling, before)
                .forEachIndexed { token, chance -> goOn(context + token, weight * chance) }
        }
        for ((context, weight) in distribution) goOn(context, weight)
        goOn(emptyList(), -1.0)
        return 0.5 * difference.values.sumOf { abs(it) }
    }

    private fun distance(case: Case): Double = totalVariation(distributionOfOutput(case), case)

    private fun check(name: String, case: Case): DynamicTest = DynamicTest.dynamicTest(name) {
        val distance = distance(case)
        assertTrue(distance < FLOAT32, "total variation $distance")
    }

    @TestFactory
    fun aRoundHasTheTargetsDistribution(): List<DynamicTest> =
        listOf(Kind.TOKEN, Kind.BLOCK).flatMap { kind ->
            CACHES.flatMap { grams ->
                listOf(0.4, 1.0).map { temperature ->
                    val sampling = SamplingConfig(temperature)
                    check("$kind $grams $temperature", Case(kind, sampling, seed = grams.size.toLong(), grams = grams))
                }
            }
        }

    /** Three draft tokens reach every node of the trie, and the limit, or the confidence, cuts proposals. */
    @TestFactory
    fun aLongRoundHasTheTargetsDistribution(): List<DynamicTest> =
        listOf(Kind.TOKEN, Kind.BLOCK).flatMap { kind ->
            listOf(0.0, 0.2).map {
                val grams = listOf("FLAKE", "FO")
                check("$kind $it", Case(kind, seed = 1, count = 3, grams = grams, most = 3, least = it))
            }
        }

    /** Each limit lets other drafts end early; a block whose length depends on the path is exact, too. */
    @TestFactory
    fun aDraftThatEndsByItsConfidenceLeavesTheTargetsDistribution(): List<DynamicTest> =
        listOf(Kind.TOKEN, Kind.BLOCK, Kind.MATCH).flatMap { kind ->
            CACHES.flatMap { grams ->
                listOf(1L to 0.15, grams.size.toLong() to 0.25, 3L to 0.4).map { (seed, least) ->
                    check("$kind $grams $seed $least", Case(kind, seed = seed, grams = grams, least = least))
                }
            }
        }

    /** So the test above is not of a fixed length in disguise. */
    @Test
    fun draftsOfOneTextEndAtDifferentLengths() {
        val drafter = Drafter(ContextModel(7, DRAFT_TOKENS.size))
        val context = IntList().apply { addAll(intArrayOf(0, 3)) }
        val plan = EndingLength(3, 0.25).next()
        val drafts = List(20) { drafter.propose(context, plan, 1.0, NO_IDS, SplitMix64(it.toLong())) }
        assertTrue(drafts.map { it.tokens.size }.toSet().size > 1)
        assertEquals(setOf(0, 1), drafts.map { it.classes.size - it.tokens.size }.toSet(), "after a token, or before one")
    }

    @TestFactory
    fun aRoundOfOtherProposersHasTheTargetsDistribution(): List<DynamicTest> =
        listOf(Kind.MATCH, Kind.LOOKUP, Kind.COPYING, Kind.PLAIN).flatMap { kind ->
            listOf(0.4, 1.0).map { check("$kind $it", Case(kind, SamplingConfig(it))) }
        }

    @TestFactory
    fun truncationAndPenaltyArePartOfTheDistribution(): List<DynamicTest> =
        listOf(Kind.TOKEN, Kind.BLOCK, Kind.MATCH, Kind.LOOKUP).flatMap { kind ->
            TRUNCATED.map { (name, sampling) -> check("$kind $name", Case(kind, sampling, seed = 4)) }
        }

    /** Several rounds, with a cache that learns between them and a limit inside accepted blocks. */
    @TestFactory
    fun wholeGenerationsHaveTheTargetsDistribution(): List<DynamicTest> =
        listOf(Kind.TOKEN, Kind.BLOCK).flatMap { kind ->
            listOf(SamplingConfig(1.0), ALL).map {
                check("$kind $it", Case(kind, it, seed = 7, count = 1, grams = listOf("FO"), most = 2, rounds = 2))
            }
        }

    /** Rows of the drafter of which nothing can be drawn end a draft, and the round goes on. */
    @TestFactory
    fun anUnsoundDrafterLeavesTheTargetsDistribution(): List<DynamicTest> {
        val spoils = mapOf<String, (FloatArray) -> Unit>(
            "one NaN" to { it[2] = Float.NaN },
            "infinity" to { it[3] = Float.POSITIVE_INFINITY },
            "nothing" to { it.fill(Float.NEGATIVE_INFINITY) },
        )
        return spoils.flatMap { (name, spoil) ->
            listOf(Kind.TOKEN, Kind.BLOCK).map { kind ->
                check("$kind $name", Case(kind, drafter = UnsoundModel(7, DRAFT_TOKENS.size, spoil)))
            }
        }
    }

    @TestFactory
    fun greedyIsExactWithEveryProposer(): List<DynamicTest> = Kind.values().flatMap { kind ->
        listOf(1.0, 1.9).flatMap { penalty ->
            CACHES.map { grams ->
                val sampling = SamplingConfig(repetitionPenalty = penalty)
                val seed = grams.size.toLong()
                val case = Case(kind, sampling, seed, count = 5, grams = grams, most = LENGTH, rounds = LENGTH)
                check("$kind $penalty $grams", case)
            }
        }
    }

    /** The comparison has power: the distribution under another setting is far from the output's. */
    @Test
    fun theWrongSamplingIsSeen() {
        val distribution = distributionOfOutput(Case(Kind.TOKEN, ALL, seed = 4))
        for (name in listOf("top-k", "top-p", "min-p", "penalty")) {
            val distance = totalVariation(distribution, Case(Kind.TOKEN, TRUNCATED.getValue(name), seed = 4))
            assertTrue(distance > 0.01, "$name: $distance")
        }
    }

    /** The enumeration would also pass without any draft, so rounds with several tokens must occur. */
    @Test
    fun draftingIsUsed() {
        for (kind in listOf(Kind.TOKEN, Kind.BLOCK, Kind.LOOKUP)) {
            val several = distributionOfOutput(Case(kind, seed = 0)).filterKeys { it.size > 1 }.values.sum()
            assertTrue(several > 0.02, "$kind: $several")
        }
    }

    /** A seed gives the same tokens as the questions that the loop asks of it, whatever the order of memory is. */
    @Test
    fun aSeedRepeatsItsText() {
        val texts = List(2) { generated(SplitMix64(42)) }
        assertEquals(texts[0], texts[1])
        assertTrue(generated(SplitMix64(43)) != texts[0], "another seed, another text")
    }

    private fun generated(random: RandomSource): List<Int> {
        val case = Case(Kind.BLOCK)
        val text = DecoderState()
        text.restart(PROMPT.toIntArray(), intArrayOf(0, 3), 40, cutAtEos(emptySet()))
        val target = ContextModel(6, TARGET_TOKENS.size)
        val drafter = Drafter(ContextModel(7, DRAFT_TOKENS.size))
        val loop = speculate(target, proposer(case, drafter), text, case.sampling, FixedLength(3), random)
        return loop.asSequence().flatMap { it.emitted.asSequence() }.toList()
    }
}
