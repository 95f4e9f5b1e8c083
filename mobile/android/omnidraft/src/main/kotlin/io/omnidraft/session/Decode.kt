package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.GenerationConfig.Verification
import io.omnidraft.decoding.Copy
import io.omnidraft.decoding.CopyingProposer
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.Draft
import io.omnidraft.decoding.DraftLength
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.InGrammar
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.MatchProposer
import io.omnidraft.decoding.Model
import io.omnidraft.decoding.Outcome
import io.omnidraft.decoding.PlainProposer
import io.omnidraft.decoding.Plan
import io.omnidraft.decoding.Probs
import io.omnidraft.decoding.PromptLookup
import io.omnidraft.decoding.Proposal
import io.omnidraft.decoding.Proposer
import io.omnidraft.decoding.RandomSource
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.Seconds
import io.omnidraft.decoding.TargetProbs
import io.omnidraft.decoding.TextRead
import io.omnidraft.decoding.TrieProposer
import io.omnidraft.decoding.Verdict
import io.omnidraft.decoding.Verifier
import io.omnidraft.decoding.speculate
import io.omnidraft.decoding.verifyBlock
import io.omnidraft.session.state.copies
import io.omnidraft.session.state.sampling
import io.omnidraft.traces.Recorder
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.NgramCache

/* The loop as a session runs it: with a mode by name, seconds, log-probabilities and a trace. */

internal class DecoderModels(val target: Model, val drafter: Drafter, val cache: NgramCache)

/** The rounds of a generation, each with its seconds and, if asked for, its log-probabilities. */
internal class Decode(
    models: DecoderModels,
    text: DecoderState, // from which the generation continues; see speculate
    private val config: GenerationConfig,
    draftLength: DraftLength, // how many tokens to draft in each round
    random: RandomSource,
    private var recorder: Recorder? = null, // of a trace
) : Iterator<Round>, AutoCloseable {
    private val watch = Stopwatch()
    private var logprobs = DoubleArray(0)
    private var hasFailed = false
    private val rounds: Iterator<Round>

    init {
        val inner = proposerFor(config, models.drafter, models.cache)
        val constrained = text.constraint?.let { InGrammar(inner, draftLength, it) }
        val proposer = constrained ?: inner
        val target = TimedTarget(models.target, watch, text)
        val timed = TimedProposer(proposer, watch)
        rounds = speculate(target, timed, text, config.sampling, constrained ?: draftLength, random, ::observe)
    }

    private fun observe(outcome: Outcome, probs: TargetProbs) {
        if (config.logprobs) logprobs = probs.logprobs(outcome.emitted)
        recorder?.record(outcome, probs)
    }

    override fun hasNext(): Boolean = !hasFailed && ending { rounds.hasNext() }.also { if (!it) close() }

    override fun next(): Round {
        val round = ending { rounds.next() }
        return round.copy(seconds = watch.take(), read = watch.takeRead(), logprobs = logprobs)
    }

    /** Ends the record; a second call does nothing. */
    override fun close() {
        recorder?.close()
        recorder = null
    }

    /** An exception ends the rounds, and so the record. */
    private inline fun <T> ending(work: () -> T): T {
        hasFailed = true
        try {
            return work().also { hasFailed = false }
        } finally {
            if (hasFailed) close()
        }
    }
}

/**
 * The proposer of a mode: what `baselines` makes in the reference runtime, without the modes for comparisons.
 *
 * At temperature 0 a proposal is accepted while it is the argmax, so drafts are verified by equality.
 */
internal fun proposerFor(config: GenerationConfig, drafter: Drafter, cache: NgramCache): Proposer {
    if (config.mode == Mode.LOOKUP) return PromptLookup()
    if (config.mode == Mode.PLAIN) return PlainProposer()
    val temperature = config.temperature
    val drafting = when {
        temperature == 0.0 -> MatchProposer(drafter, cache)
        config.verification == Verification.BLOCK -> TrieProposer(drafter, cache, temperature, Verifier(::verifyBlock))
        else -> TrieProposer(drafter, cache, temperature)
    }
    return if (config.copies) CopyingProposer(drafting) else drafting
}

internal enum class RoundPart { DRAFT, TRANSLATE, TARGET, VERIFY, LEARN }

/** Adds up the seconds of the parts of a round. */
internal class Stopwatch {
    private val parts = DoubleArray(RoundPart.values().size)
    private var read = TextRead()

    /** Adds the time since [started] to a part. */
    fun add(part: RoundPart, started: Double) {
        parts[part.ordinal] += seconds() - started
    }

    /** The seconds since the last call. */
    fun take(): Seconds {
        val taken = Seconds(parts[0], parts[1], parts[2], parts[3], parts[4])
        parts.fill(0.0)
        return taken
    }

    /** Counts tokens that the target read since [started]. */
    fun addRead(tokens: Int, started: Double) {
        read += TextRead(tokens, seconds() - started)
    }

    /** What was read since the last call. */
    fun takeRead(): TextRead = read.also { read = TextRead() }

    inline fun <T> time(part: RoundPart, work: () -> T): T {
        val started = seconds()
        return work().also { add(part, started) }
    }
}

/** A target whose scoring and rewinding is timed; reading a prompt is counted apart from the round. */
internal class TimedTarget(
    private val model: Model,
    private val watch: Stopwatch,
    private val text: DecoderState,
) : Model {
    override val vocabSize: Int get() = model.vocabSize
    override val maxLength: Int get() = model.maxLength
    override val length: Int get() = model.length

    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        if (text.isRead) return watch.time(RoundPart.TARGET) { model.score(tokens, numLogits) }
        val started = seconds()
        return model.score(tokens, numLogits).also { watch.addRead(tokens.size, started) }
    }

    override fun rewind(length: Int) = watch.time(RoundPart.VERIFY) { model.rewind(length) }
}

internal class TimedProposer(private val proposer: Proposer, private val watch: Stopwatch) : Proposer by proposer {
    override fun find(tokens: IntList): Copy = watch.time(RoundPart.DRAFT) { proposer.find(tokens) }

    override fun propose(plan: Plan, copy: Copy, context: IntList, random: RandomSource): Draft =
        watch.time(RoundPart.DRAFT) { proposer.propose(plan, copy, context, random) }

    override fun translate(draft: Draft, room: Int): Proposal =
        watch.time(RoundPart.TRANSLATE) { proposer.translate(draft, room) }

    override fun verify(draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource): Verdict =
        watch.time(RoundPart.VERIFY) { proposer.verify(draft, proposal, probs, random) }

    override fun learn(outcome: Outcome, context: IntList): Int =
        watch.time(RoundPart.LEARN) { proposer.learn(outcome, context) }
}
