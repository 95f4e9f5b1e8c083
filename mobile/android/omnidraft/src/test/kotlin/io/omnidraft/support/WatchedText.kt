package io.omnidraft.support

import io.omnidraft.GenerationConfig
import io.omnidraft.bundle.KvShape
import io.omnidraft.conformance.Json
import io.omnidraft.conformance.ROOT
import io.omnidraft.conformance.Vector
import io.omnidraft.conformance.assertSame
import io.omnidraft.conformance.bits
import io.omnidraft.conformance.costsOf
import io.omnidraft.conformance.int
import io.omnidraft.conformance.ints
import io.omnidraft.conformance.list
import io.omnidraft.conformance.nums
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.DraftLength
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.FixedLength
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.MeasuredLength
import io.omnidraft.decoding.Plan
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.RoundCounts
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.decoding.cutAtEos
import io.omnidraft.models.Graph
import io.omnidraft.models.OrtModel
import io.omnidraft.models.kvBuffers
import io.omnidraft.models.kvShape
import io.omnidraft.models.tensor
import io.omnidraft.session.Decode
import io.omnidraft.session.DecoderModels
import io.omnidraft.vocab.NgramCache
import java.io.File
import java.nio.FloatBuffer
import kotlin.math.abs

/** The runtime's own random source, which counts the uniforms that it takes. */
internal class CountingSource(seed: Long) : SplitMix64(seed) {
    var taken = 0

    override fun uniform(): Double {
        taken++
        return super.uniform()
    }
}

private val NOTHING = RoundCounts(IntArray(0), 0, 0, 0)

/** The runtime's own draft length, which records what a round asked and learned. */
internal class WatchedLength(private val length: MeasuredLength) : DraftLength by length {
    private var plan: Plan? = null
    var counts: RoundCounts = NOTHING
        private set

    /** Tokens of the text, as the draft length counted them. */
    val written: Long get() = length.state.written

    override fun next(match: Int): Plan = length.next(match).also { plan = it }

    override fun record(counts: RoundCounts) {
        length.record(counts)
        this.counts = counts
    }

    /** The plan of a round (null where none was asked for), its match and what agreed, as vectors have them. */
    fun take(): Json {
        val asked = plan?.let { listOf(it.source.word, it.count, it.fresh) }
        val taken = counts
        plan = null
        counts = NOTHING
        return mapOf("plan" to asked, "match" to taken.match, "agreed" to taken.agreed)
    }
}

/** The runtime's own model, which records its passes; keys and values that it does not hold are NaN. */
internal class WatchedModel private constructor(graph: Graph, private val buffers: Map<String, FloatBuffer>) :
    OrtModel(graph, { kv -> buffers.mapValues { tensor(it.value, kvShape(kv)) } }) {
    /** The past and the number of tokens of each pass. */
    val passes = ArrayList<Pair<Int, Int>>()

    init {
        spoil()
    }

    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        passes.add(length to tokens.size)
        return super.score(tokens, numLogits)
    }

    override fun rewind(length: Int) {
        super.rewind(length)
        spoil()
    }

    private fun spoil() {
        for (buffer in buffers.values) for (at in length until buffer.capacity()) buffer.put(at, Float.NaN)
    }

    companion object {
        fun of(file: String, vocabSize: Int, maxLength: Int): WatchedModel {
            val kv = KvShape(1, 1, 1, maxLength)
            return WatchedModel(Graph(File(ROOT, "generate/$file"), kv, vocabSize), kvBuffers(kv))
        }
    }
}

/** Runs a vector of `generate` or `logprobs`: the real loop on tiny graphs in onnxruntime. */
internal class WatchedText(private val vector: Vector) : AutoCloseable {
    private val cache = NgramCache(vectorMap(vector.input["map"].str())).also { cache ->
        vector.input["active"].ints().forEach { cache.insert(it) }
    }
    private val target = model("target", "max_length", cache.map.targetSize)
    private val drafter = model("drafter", "draft_max_length", cache.map.draftSize)
    private val models = DecoderModels(target, Drafter(drafter, vector.input["draft_start"].ints()), cache)
    private val text = DecoderState()

    /** Runs all texts of the vector, and compares them with what is expected. */
    fun run() {
        run(vector.input, vector.expected)
        val later = (vector.input["then"] ?: emptyList<Any>()).list()
        val due = (vector.expected["then"] ?: emptyList<Any>()).list()
        check(later.size == due.size)
        for ((given, expect) in later.zip(due)) run(vector.input + given.obj(), expect.obj())
    }

    override fun close() {
        target.close()
        drafter.close()
    }

    private fun model(role: String, length: String, vocabSize: Int) =
        WatchedModel.of(vector.input[role].str(), vocabSize, vector.input[length].int())

    private fun run(given: Json, expect: Json) {
        val rows = expect["rounds"].list().map { it.obj() }
        val length = lengthOf(given)
        val random = CountingSource(given["seed"].bits())
        val eos = given["eos_ids"].ints().toSet()
        val prompt = given["prompt"].ints()
        val left = minOf(given["max_new_tokens"].int(), given["max_length"].int() - prompt.size + 1)
        val constraint = constraintOf(given, cache.map.draftAllowed)
        constraint?.checkRoom(left)
        text.restart(prompt, given["draft_prompt"].ints(), left, cutAtEos(eos), constraint)
        val config = configOf(given, "logprobs" in rows[0])
        val rounds = Decode(models, text, config, length, random).asSequence().map { it to row(it, length) }.toList()
        assertSame(vector, "tokens", expect["tokens"], rounds.flatMap { it.first.emitted.asList() })
        val probabilities = listOf("logprobs")
        assertSame(vector, "rounds", rows.map { it - probabilities }, rounds.map { it.second })
        for ((round, row) in rounds.map { it.first }.zip(rows)) compareLogprobs(row, round)
        assertSame(vector, "uniforms", expect["uniforms"], random.taken)
        assertSame(vector, "complete", expect["complete"] ?: false, constraint?.isComplete ?: false)
        assertSame(vector, "context", expect["context"], text.context.toArray())
        assertSame(vector, "written", expect["written"], (length as? WatchedLength)?.written)
        val entries = cache.entries().map {
            mapOf("target_id" to it.targetId, "hits" to it.hits, "accepted" to it.accepted, "tick" to it.tick)
        }
        assertSame(vector, "entries", expect["entries"], entries)
    }

    private fun row(round: Round, length: DraftLength): Json {
        val row = LinkedHashMap<String, Any?>()
        row["draft"] = round.draft
        row["proposed"] = round.proposed
        row["accepted"] = round.accepted
        row["emitted"] = round.emitted
        row["evaluated"] = round.evaluated
        row["accepted_drafts"] = round.acceptedDrafts
        row["learned"] = round.learned
        if ("copied" in fields()) row["copied"] = round.copied
        row["target_passes"] = joined(target.passes, 1)
        target.passes.clear()
        var seen = round.draft.size
        if (length is WatchedLength) {
            seen = maxOf(seen, length.counts.classes.size) // one more where a token was not worth proposing
            row.putAll(length.take())
        }
        row["draft_passes"] = joined(drafter.passes, seen)
        drafter.passes.clear()
        return row
    }

    private fun fields(): Set<String> = vector.expected["rounds"].list()[0].obj().keys

    /** Logits are float32. */
    private fun compareLogprobs(row: Json, round: Round) {
        val expected = (row["logprobs"] ?: return).nums()
        val isSame = expected.size == round.logprobs.size && expected.indices.all {
            abs(expected[it] - round.logprobs[it]) <= 1e-6
        }
        check(isSame) { "logprobs ${round.logprobs.asList()}, due ${expected.asList()}; ${vector.why}" }
    }

    private fun lengthOf(given: Json): DraftLength {
        val count = given["num_draft_tokens"]
        if (count != "auto") return FixedLength(if (given["mode"] == "plain") 0 else count.int())
        val costs = costsOf(given["costs"].obj())
        val copies = given["mode"] == "trie" || given["mode"] == "lookup"
        val drafts = given["mode"] != "lookup"
        val state = LengthState().apply { beginText(if (drafts) given["draft_prompt"].ints().size else 0, 0) }
        return WatchedLength(MeasuredLength(costs, state, drafts, copies))
    }

    private fun configOf(given: Json, logprobs: Boolean): GenerationConfig {
        val names = listOf("max_new_tokens", "mode", "num_draft_tokens", "verification")
        val settings = given["sampling"].obj() + names.associateWith { given[it] } + ("logprobs" to logprobs)
        return StarterBundles.config(settings, seed = null)
    }

    /**
     * The passes of a round as vectors have them: the past of the first, then the tokens that each reads.
     *
     * A runtime may read a text in passes of any lengths, so all but the last [wanted] are joined with the next.
     */
    private fun joined(passes: List<Pair<Int, Int>>, wanted: Int): List<Int> {
        if (wanted == 0) {
            check(passes.isEmpty()) { "a pass that nothing was drawn from" }
            return emptyList()
        }
        for ((pass, following) in passes.zipWithNext()) {
            check(pass.first + pass.second == following.first) { "read twice, or not at all: $passes" }
        }
        val fed = passes.map { it.second }
        val first = fed.size + 1 - wanted
        return listOf(passes[0].first, fed.take(first).sum()) + fed.drop(first)
    }
}
