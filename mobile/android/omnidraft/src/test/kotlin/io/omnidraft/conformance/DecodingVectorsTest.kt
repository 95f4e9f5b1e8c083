package io.omnidraft.conformance

import io.omnidraft.Defaults
import io.omnidraft.GenerationConfig
import io.omnidraft.decoding.Allowed
import io.omnidraft.decoding.Categorical
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.Decision
import io.omnidraft.decoding.Distribution
import io.omnidraft.decoding.Draft
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.LogitsError
import io.omnidraft.decoding.MatchProposer
import io.omnidraft.decoding.MeasuredLength
import io.omnidraft.decoding.Model
import io.omnidraft.decoding.NO_COPY
import io.omnidraft.decoding.Outcome
import io.omnidraft.decoding.Plan
import io.omnidraft.decoding.PromptLookup
import io.omnidraft.decoding.RandomSource
import io.omnidraft.decoding.RoundCounts
import io.omnidraft.decoding.SamplingConfig
import io.omnidraft.decoding.Source
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.decoding.Step
import io.omnidraft.decoding.TrieProposer
import io.omnidraft.decoding.Verifier
import io.omnidraft.decoding.blockPays
import io.omnidraft.decoding.draftDistribution
import io.omnidraft.decoding.targetDistribution
import io.omnidraft.decoding.translate
import io.omnidraft.decoding.translateLongest
import io.omnidraft.decoding.verifyBlock
import io.omnidraft.decoding.verifyTokens
import io.omnidraft.support.GivenUniforms
import io.omnidraft.support.vectorMap
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.Node
import io.omnidraft.vocab.VocabMap
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

private const val FLOAT32 = 1e-6 // how far probabilities may be off in a runtime with weights in float32

/** Runs the vectors of the decoding rules that need no session. */
class DecodingVectorsTest : VectorsRun() {
    @TestFactory
    fun random(): List<DynamicTest> = folder("random") { vector ->
        val (given, expected) = vector.input to vector.expected
        if ("weights" in given) {
            val distribution = Categorical(given["weights"].floats())
            assertSame(vector, "indices", expected["indices"], given["uniforms"].nums().map { distribution.draw(it) })
            val source = GivenUniforms(given["uniforms"].nums())
            val weights = given["weights"].nums()
            val indices = given["uniforms"].nums().map { source.categorical(weights) }
            assertSame(vector, "indices of all options", expected["indices"], indices)
        } else if ("bernoulli" in given) {
            val source = GivenUniforms(given["uniforms"].nums())
            assertSame(vector, "answers", expected["answers"], given["bernoulli"].nums().map { source.bernoulli(it) })
            source.finish()
        } else if ("u64" in expected) {
            val source = SplitMix64(given["seed"].bits())
            val numbers = expected["u64"].list().map { source.nextU64() }
            assertSame(vector, "u64", expected["u64"].list().map { it.bits() }, numbers)
        } else {
            val source = SplitMix64(given["seed"].bits())
            assertSame(vector, "uniforms", expected["uniforms"], expected["uniforms"].list().map { source.uniform() })
        }
    }

    @TestFactory
    fun sampling(): List<DynamicTest> = folder("sampling") { vector ->
        val (given, expected) = vector.input to vector.expected
        if (expected["fault"] != null) {
            val refused = assertThrows(LogitsError::class.java) { distributionOf(given) }
            assertEquals(expected["fault"], refused.fault, vector.why)
        } else {
            val distribution = distributionOf(given)
            val actual = DoubleArray(distribution.size) { distribution.probability(it) }
            assertClose(vector, "probabilities", expected["probabilities"].nums(), actual, FLOAT32)
        }
    }

    private fun distributionOf(given: Json): Distribution {
        val row = given["logits"].floats()
        val logits = Logits.of(row, row.size)
        if ("banned" in given) return draftDistribution(logits, 0, given["temperature"].num(), given["banned"].ints())
        return targetDistribution(logits, 0, samplingOf(given["settings"].obj()), given["context"].ints())
    }

    @TestFactory
    fun lookup(): List<DynamicTest> = folder("lookup") { vector ->
        val lookup = PromptLookup()
        val copies = vector.input["contexts"].list().map { lookup.find(listOf(it.ints())) }
        val count = vector.input["count"].int()
        val tokens = copies.map { it.tokens.copyOf(minOf(count, it.tokens.size)) }
        assertSame(vector, "copies", vector.expected["copies"], tokens.map { it.asList() })
        assertSame(vector, "matches", vector.expected["matches"], copies.map { it.match })
    }

    @TestFactory
    fun translate(): List<DynamicTest> = folder("translate") { vector ->
        val (given, expected) = vector.input to vector.expected
        val trie = cacheOf(given).trie
        val draft = listOf(given["draft"].ints())
        val (most, expands) = given["max_tokens"].int() to given["expand"].bool()
        val isWalk = "decisions" in expected
        val proposal =
            if (isWalk) translate(draft, trie, most, expands) else translateLongest(draft, trie, most, expands)
        assertSame(vector, "tokens", expected["tokens"], proposal.tokens.toArray())
        assertSame(vector, "ends", expected["ends"], proposal.ends.toArray())
        assertSame(vector, "used", expected["used"], proposal.used)
        if (isWalk) {
            assertSame(vector, "tail", expected["tail"], path(trie.map, proposal.tail))
            assertSame(vector, "decisions", expected["decisions"], proposal.decisions.map { jsonOf(trie.map, it) })
        }
    }

    private fun jsonOf(map: VocabMap, decision: Decision): Json {
        val fields = mapOf("step" to decision.step.word, "row" to decision.row, "draft" to decision.draft)
        if (decision.step == Step.EXPAND) return fields + ("target_id" to decision.targetId)
        val excluded = decision.excluded?.let { mapOf("excluded" to path(map, it)) }.orEmpty()
        return fields + ("path" to path(map, decision.node)) + excluded
    }

    /** The draft tokens that lead to a node. */
    private fun path(map: VocabMap, node: Node?): IntArray? =
        node?.let { map.spell(map.leaves[it.low]).copyOf(it.depth) }

    @TestFactory
    fun verify(): List<DynamicTest> = folder("verify") { vector ->
        val rule = vector.input["rule"]
        if (rule == null || rule == "paper") {
            // A baseline, which this runtime does not have: there is no mode of this name to ask for.
            assertTrue(GenerationConfig.Mode.values().none { it.word == "paper" }, vector.why)
        } else {
            checkVerdict(vector)
        }
    }

    private fun checkVerdict(vector: Vector) {
        val (given, expected) = vector.input to vector.expected
        val random = GivenUniforms(given["uniforms"].nums())
        val recorder = ContextRecorder()
        val proposer = proposerOf(given["rule"].str(), recorder, cacheOf(given))
        val draft = Draft(listOf(given["draft"].ints()), distributions(given["q"]))
        val proposal = proposer.translate(draft, 8)
        assertSame(vector, "proposal", given["proposal"], proposal.tokens.toArray())
        val rows = distributions(given["p"])
        val verdict = proposer.verify(draft, proposal, { rows[it] }, random)
        random.finish()
        assertSame(vector, "accepted", expected["accepted"], verdict.accepted)
        assertSame(vector, "token", expected["token"], verdict.token)
        assertSame(vector, "is_bonus", expected["is_bonus"], verdict.isBonus)
        assertSame(vector, "evaluated", expected["evaluated"], verdict.evaluated)
        assertSame(vector, "accepted_drafts", expected["accepted_drafts"], verdict.acceptedDrafts)
        assertSame(vector, "target_rewind", expected["target_rewind"], proposal.tokens.size - verdict.accepted)
        val context = IntList()
        proposer.learn(Outcome(draft, proposal, verdict, verdict.tokens(proposal)), context)
        proposer.propose(Plan(Source.DRAFT, 1), NO_COPY, context, GivenUniforms(DoubleArray(0)))
        val kept = given["draft"].ints().dropLast(expected["draft_rewind"].int())
        assertSame(vector, "context", kept + expected["draft_append"].ints().asList(), recorder.context)
    }

    private fun proposerOf(rule: String, drafter: Drafter, cache: NgramCache): TrieProposer = when (rule) {
        "token" -> TrieProposer(drafter, cache, 1.0, Verifier(::verifyTokens))
        "block" -> TrieProposer(drafter, cache, 1.0, Verifier(::verifyBlock))
        "match" -> MatchProposer(drafter, cache, 1.0)
        else -> error("the rule $rule is unknown")
    }

    private fun distributions(rows: Any?): MutableList<Distribution> =
        rows.list().map { Categorical(it.floats()) }.toMutableList()

    @TestFactory
    fun draftLength(): List<DynamicTest> = folder("draft_length") { vector ->
        val (given, expected) = vector.input to vector.expected
        val costs = costsOf(given["costs"].obj())
        if ("vocab_size" in given) {
            val usual = Defaults.BLOCK_USUAL_DRAFT
            val pays = blockPays(costs.roundSeconds(usual), given["vocab_size"].int())
            assertEquals(expected["verification"], if (pays) "block" else "token", vector.why)
        } else {
            checkTexts(vector, costs)
        }
    }

    private fun checkTexts(vector: Vector, costs: Costs) {
        val state = LengthState()
        val texts = vector.input["texts"].list() zip vector.expected["texts"].list()
        for ((text, expected) in texts) {
            val (context, shared) = text.obj()["context"].ints().asList()
            state.beginText(context, shared)
            val length = MeasuredLength(costs, state, drafts = vector.input["drafts"].bool(), copies = true)
            val plans = text.obj()["records"].list().flatMap { driven(length, it.list()) }
            val rows = plans.map { listOf(it.source.word, it.count, it.fresh) }
            assertSame(vector, "plans", expected.obj()["plans"].list().flatMap { repeated(it.list()) }, rows)
            val last = plans.lastOrNull { it.source == Source.DRAFT }
            checkDraft(vector, expected.obj()["last_draft"], last)
            checkState(vector, expected.obj()["state"].obj(), state)
        }
        assertEquals(vector.expected["texts"].list().size, texts.size, vector.why)
    }

    private fun repeated(row: List<Any?>): List<Any?> = List(row[0].int()) { row.drop(1) }

    private fun driven(length: MeasuredLength, record: List<Any?>): List<Plan> {
        val match = record[1].int()
        val classes = record[2].ints()
        val (evaluated, accepted, emitted, agreed) = record.drop(3).map { it.int() }
        return List(record[0].int()) {
            val plan = length.next(match)
            length.record(RoundCounts(classes, evaluated, accepted, emitted, match, agreed))
            plan
        }
    }

    private fun checkDraft(vector: Vector, expected: Any?, draft: Plan?) {
        assertEquals(expected == null, draft == null, vector.why)
        if (draft == null) return
        val lists = mapOf("chances" to draft.chances, "worth" to draft.worth, "least" to draft.least)
        for ((name, list) in lists) assertClose(vector, name, expected.obj()[name].nums(), list)
    }

    private fun checkState(vector: Vector, expected: Json, state: LengthState) {
        val lists = mapOf(
            "seen" to state.seen, "evaluated" to state.evaluated, "accepted" to state.accepted,
            "compared" to state.compared, "agreed" to state.agreed,
            "drafts" to doubleArrayOf(state.drafts), "targets" to doubleArrayOf(state.targets),
            "idle" to doubleArrayOf(state.idle.toDouble()), "unread" to doubleArrayOf(state.unread.toDouble()),
            "written" to doubleArrayOf(state.written.toDouble()), "share" to doubleArrayOf(state.share),
        )
        assertEquals(expected.keys, lists.keys, vector.why)
        for ((name, actual) in lists) {
            val due = expected[name]
            assertClose(vector, name, if (due is List<*>) due.nums() else doubleArrayOf(due.num()), actual)
        }
    }
}

private class ContextRecorder : Drafter(NothingModel) {
    var context: List<Int> = emptyList()

    override fun propose(
        context: IntList,
        plan: Plan,
        temperature: Double,
        banned: IntArray,
        random: RandomSource,
        allowed: Allowed?,
    ): Draft {
        this.context = context.toArray().asList()
        return Draft()
    }
}

private object NothingModel : Model {
    override val vocabSize: Int = 2
    override val maxLength: Int = 64
    override val length: Int = 0

    override fun score(tokens: IntArray, numLogits: Int?): Logits = throw AssertionError("nothing may be read")

    override fun rewind(length: Int) = assertEquals(0, length)
}

private fun listOf(ids: IntArray): IntList = IntList().apply { addAll(ids) }

/** The sampling of a vector; what it does not say changes nothing. */
internal fun samplingOf(settings: Json): SamplingConfig {
    val known = setOf("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    check(known.containsAll(settings.keys)) { "unknown settings in ${settings.keys}" }
    return SamplingConfig(
        settings["temperature"]?.num() ?: 0.0,
        settings["top_k"]?.int() ?: 0,
        settings["top_p"]?.num() ?: 1.0,
        settings["min_p"]?.num() ?: 0.0,
        settings["repetition_penalty"]?.num() ?: 1.0,
    )
}

internal fun costsOf(costs: Json): Costs =
    Costs(costs["target"].nums(), costs["draft"].num(), costs["host"].num(), costs["acceptance"].num())

/** A cache with the active n-grams of a vector, which may have less room for them or be prefilled. */
internal fun cacheOf(given: Json): NgramCache {
    val cache = NgramCache(vectorMap(given["map"].str()), given["capacity"]?.int() ?: Defaults.CACHE_CAPACITY)
    for (target in given["active"].ints()) check(cache.insert(target)) { "no n-gram of $target" }
    if (given["prefilled"]?.bool() == true) cache.prefill()
    return cache
}
