package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.START
import io.omnidraft.SessionException
import io.omnidraft.decoding.Cut
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.decoding.StopText
import io.omnidraft.decoding.commonLength
import io.omnidraft.decoding.cutAtStop
import io.omnidraft.decoding.freshSeed
import io.omnidraft.decoding.noDrafter
import io.omnidraft.device.CostsSource
import io.omnidraft.disk.ValueError
import io.omnidraft.models.Role
import io.omnidraft.session.state.TOO_LONG
import io.omnidraft.session.state.asksDrafter
import io.omnidraft.session.state.checkPrompt
import io.omnidraft.traces.Digests
import io.omnidraft.traces.Recorder
import io.omnidraft.traces.RecordingSource
import io.omnidraft.traces.TraceStore
import io.omnidraft.traces.Tracer
import io.omnidraft.traces.concatenated

/* How a generation begins, on a prompt or on a saved state, and runs one round at a time. */

internal class Recording(val store: TraceStore, val tracer: Tracer)

/** Begins a generation after a prompt in target ids; it becomes the answer of [text]. */
internal fun generateFromPrompt(
    models: SessionModels,
    text: TextState, // its state; the generation before ends here
    ids: IntArray,
    config: GenerationConfig,
    recording: Recording?, // where to record the generation; null for nowhere
    tooLong: String = TOO_LONG, // the remedy where the prompt is longer than the context
    grammar: Grammar? = null, // what the output must belong to; such a generation is recorded nowhere
): Generation {
    val context = firstContext(models, text, ids, config)
    checkPrompt(ids, models.loaded.bundle.target, tooLong)
    grammar?.let { checkGrammar(models, config, it, ids) }
    // Above temperature 0 the drafts decide which text a seed gives. A seed that the caller gives repeats its text
    // where the n-grams are the same, so its draft length learns nothing from earlier texts. A seed that is drawn here
    // need not repeat anything, and the draft length uses all counts so far.
    val seed = config.seed ?: freshSeed()
    val repeatable = config.seed != null && config.temperature > 0.0
    if (repeatable) text.lengths = LengthState()
    text.lengths.beginText(context.size, if (repeatable) 0 else commonLength(text.decoder.context, context))
    text.random = SplitMix64(seed)
    text.drops = models.drops
    val seeded = config.copy(seed = seed)
    val generation = generateFromState(models, text, seeded, ids, context, Emitted(), recording, grammar)
    text.begin(generation)
    return generation
}

/** A generation that continues after a prompt and the output so far. */
internal fun generateFromState(
    models: SessionModels,
    text: TextState, // its state; what the draft length learned and the random source are set already
    config: GenerationConfig,
    prompt: IntArray, // target ids of the prompt
    context: IntArray, // prompt and output in draft ids
    emitted: Emitted,
    recording: Recording? = null, // where to record the generation; null for nowhere
    grammar: Grammar? = null, // what the output must belong to
): Generation {
    val loaded = models.loaded
    val eosIds = endsOf(loaded, config)
    val stopText = StopText(config.stop)
    val bytesOf = loaded.outputText::bytesOf
    val cut = Cut { tokens -> cutAtStop(tokens, eosIds, stopText, bytesOf) }
    if (cut.cut(emitted.tokenIds).tokens.size < emitted.tokenIds.size) {
        throw ValueError("its output continues after an end token or a stop string")
    }
    // What is recorded are the target's own distributions.
    val recorded = if (grammar == null) recording else null
    val constraint = grammar?.let { models.grammars.constraint(it, eosIds, proposes = config.mode != Mode.PLAIN) }
    val room = roomOf(models, config, prompt) - emitted.tokenIds.size
    text.decoder.restart(prompt + emitted.tokenIds, context, room, cut, constraint)
    val verified = config.copy(verification = verificationFor(config, loaded.bundle))
    val rounds = SessionRounds(models, text, verified, recorded, emitted.tokenIds.isNotEmpty())
    val limits = Limits(eosIds, models.target.maxLength, constraint)
    val thoughts = Thoughts(loaded.bundle.prompt.think, loaded.outputText.endsInThought(prompt))
    val generation = Generation(rounds, config, prompt, stopText, limits, thoughts)
    if (grammar != null && grammar.tools.isNotEmpty()) loaded.bundle.prompt.toolForm?.let { generation.readCalls(it.calls) }
    generation.replay(emitted)
    return generation
}

/** Refuses a grammar that no output can belong to. */
private fun checkGrammar(models: SessionModels, config: GenerationConfig, grammar: Grammar, ids: IntArray) {
    if (models.loaded.outputText.endsInThought(ids) && !grammar.isFree(START)) {
        val message = "the prompt ends inside a thought, and a grammar is for a whole output"
        throw GrammarException("", message, "use another template")
    }
    val constraint = models.grammars.constraint(grammar, endsOf(models.loaded, config), proposes = false)
    constraint.checkRoom(roomOf(models, config, ids))
}

private fun endsOf(loaded: LoadedBundle, config: GenerationConfig): Set<Int> =
    if (config.ignoreEos) emptySet() else loaded.bundle.target.eosIds.toSet()

/** Tokens that may be emitted after a prompt; the last of them needs no position. */
private fun roomOf(models: SessionModels, config: GenerationConfig, prompt: IntArray): Int =
    minOf(config.maxNewTokens, models.target.maxLength - prompt.size + 1)

/** Runs something as the one user of the models; the target reads its text again where its adapter changed. */
internal fun <T> turn(models: SessionModels, decoder: DecoderState, work: () -> T): T = models.turn { targetChanged ->
    if (targetChanged) decoder.cached.clear()
    work()
}

/**
 * The rounds of one generation of a session: only the newest generation may run, and it can be cancelled during each
 * pass. Where the drafter was dropped since the last round, the rounds go on without it, from the same random state.
 */
private class SessionRounds(
    private val models: SessionModels,
    private val text: TextState,
    private val config: GenerationConfig,
    private val recording: Recording?,
    private var hasOutput: Boolean,
) : Rounds {
    // A session that loads a file, or begins a text, replaces these; a generation goes on with its own.
    private val decoder = text.decoder
    private val random = text.random
    private val lengths = text.lengths
    private val costs = text.costs
    private val cache = text.cache
    private val context = decoder.context
    private var drops = models.drops
    private var passSeconds = 0.0
    private val kept = models.loaded.device?.takeIf { it.source == CostsSource.KEPT }
    private val watch = kept?.let { CostsWatch(it.costs) }
    private var rounds = decode(models.hasDrafter)

    override fun next(generation: Generation): Round? = turn(models, decoder) {
        if (text.answer !== generation) {
            throw SessionException("a newer generation of this session took over", "start another one to continue")
        }
        models.cancelledBy({ generation.isCancelled }) {
            if (drops != models.drops) goOnWithoutDrafter()
            if (rounds.hasNext()) rounds.next().also { watchCosts(it) } else null
        }.also { hasOutput = true }
    }

    /** Forgets costs that were kept where the passes are twice as slow. */
    private fun watchCosts(round: Round) {
        passSeconds = round.seconds.target
        val length = decoder.tokens.size - round.emitted.size
        if (watch?.areOutdated(round.proposed.size + 1, passSeconds, length) == true) kept?.forget?.invoke()
    }

    override fun pause(generation: Generation) = models.throttle.pause(passSeconds) { generation.isCancelled }

    override fun interrupt() {
        models.interrupt()
        models.throttle.wake()
    }

    private fun goOnWithoutDrafter() {
        drops = models.drops
        rounds.close()
        rounds = decode(hasDrafter = false)
    }

    private fun decode(hasDrafter: Boolean): Decode {
        val drafter: Drafter =
            if (hasDrafter) models.drafter else noDrafter(models.loaded.bundle.drafter.vocabSize)
        return Decode(
            DecoderModels(models.target, drafter, cache),
            decoder,
            config,
            draftLengthFor(config, hasDrafter, costs, lengths),
            random,
            recording?.let { recorderOf(it, hasDrafter) },
        )
    }

    private fun recorderOf(recording: Recording, hasDrafter: Boolean): Recorder {
        val loaded = models.loaded
        val tokens = decoder.tokens.toArray()
        val source = RecordingSource(
            loaded.vocabMap,
            { if (config.asksDrafter && hasDrafter) context.toArray() else spelled(loaded, tokens) },
            { Digests(models.digest(Role.DRAFTER), models.digest(Role.TARGET)) },
            config.mode.word,
            hasOutput,
        )
        return Recorder(recording.store, recording.tracer, source)
    }
}

/** A text in draft ids: without a drafter the decoder keeps none. */
private fun spelled(loaded: LoadedBundle, tokens: IntArray): IntArray {
    val encoded = loaded.draftPrompt(tokens)
    return if (encoded.isNotEmpty()) encoded else tokens.asList().concatenated { loaded.vocabMap.spell(it) }
}

/** A prompt in draft ids; where it continues the text before, only the new part is encoded. */
private fun firstContext(
    models: SessionModels,
    text: TextState,
    ids: IntArray,
    config: GenerationConfig,
): IntArray {
    val tokenizer = models.loaded.drafterTokenizer
    if (!config.asksDrafter || tokenizer == null || !models.hasDrafter) return IntArray(0)
    // After the drafter was dropped its context counts as empty.
    val before = text.answer?.takeIf { text.drops == models.drops }?.let {
        EarlierText(it.config.mode, text.decoder.tokens.toArray(), text.decoder.context.toArray())
    }
    return draftContext(models.loaded.targetTokenizer, tokenizer, ids, before)
}
