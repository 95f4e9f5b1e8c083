package io.omnidraft.session

import io.omnidraft.Defaults
import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.GenerationConfig.Verification
import io.omnidraft.Notice
import io.omnidraft.TokenizerException
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.CPU_GRAPH
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.placed
import io.omnidraft.chat.OutputText
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.DraftLength
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.FixedLength
import io.omnidraft.decoding.IdSet
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.MeasuredLength
import io.omnidraft.decoding.Source
import io.omnidraft.decoding.blockPays
import io.omnidraft.device.CostsSource
import io.omnidraft.device.DeviceCosts
import io.omnidraft.device.Machine
import io.omnidraft.device.Measure
import io.omnidraft.device.StateDirectory
import io.omnidraft.device.deviceCosts
import io.omnidraft.device.thisMachine
import io.omnidraft.grammar.ByteTrie
import io.omnidraft.models.Engine
import io.omnidraft.models.checkThreads
import io.omnidraft.models.fastestThreads
import io.omnidraft.models.threadsFor
import io.omnidraft.session.state.asksDrafter
import io.omnidraft.session.state.copies
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap
import io.omnidraft.vocab.loadVocabMap
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import io.omnidraft.vocab.tokenizer.Tokenizer

/* A loaded bundle: graphs, tokenizers and vocabulary map, which sessions share and never change. */

internal const val MEASURE_SECONDS = 1.5 // for timing a device; a pass that has begun then is finished
private const val MEASURED_TEXT = "How many legs do 3 cats have? Count the legs of each cat, and add them up."
private const val MEASURED_TOKENS = 16 // of that text
private const val LEAST_CONTEXT = 64 // positions that timing takes at most

/**
 * The graphs, tokenizers and vocabulary map of a bundle.
 *
 * Any number of sessions may share it, each in its own thread: nothing here changes after loading.
 */
internal class LoadedBundle(
    val bundle: Bundle,
    val target: SharedGraph,
    val targetTokenizer: Tokenizer,
    val vocabMap: VocabMap, // how the drafter's tokens spell the target's
    val drafter: SharedGraph?, // the drafter's graph; null where the drafter was not loaded
    val drafterTokenizer: Tokenizer?, // the drafter's tokenizer; null where the drafter was not loaded
    val notices: List<Notice> = emptyList(), // that it runs without the drafter, or on the CPU instead of a provider
) : AutoCloseable {
    /** Costs on this device, and where they come from; null where the bundle's are used unasked. Set while it is loaded. */
    var device: DeviceCosts? = null

    /** Seconds that the draft length "auto" begins with. */
    val costs: Costs get() = device?.costs ?: bundle.costs

    val outputText: OutputText by lazy {
        OutputText(targetTokenizer, bundle.prompt.think, bundle.prompt.toolForm?.calls, vocabMap::bytesOf)
    }

    val targetTrie: ByteTrie by lazy { ByteTrie(targetTokenizer.tokens, bundle.target.vocabSize) }

    /** The bytes of the drafter's tokens; there is a drafter. */
    val draftTrie: ByteTrie by lazy { ByteTrie(checkNotNull(drafterTokenizer).tokens, bundle.drafter.vocabSize) }

    /** The draft ids that the drafter may propose. */
    val draftAllowed: IdSet by lazy {
        IdSet(vocabMap.draftSize).also { for (id in 0 until it.size) if (vocabMap.draftAllowed[id]) it.add(id) }
    }

    /** The visible text of a prompt in draft ids; empty without a drafter. */
    fun draftPrompt(promptIds: IntArray): IntArray =
        drafterTokenizer?.encode(utf8Text(targetTokenizer.textOf(promptIds))) ?: IntArray(0)

    /** Frees the graphs as soon as no session uses them. */
    override fun close() {
        target.close()
        drafter?.close()
    }
}

internal class Loading(
    val threads: Int = 0, // of a target pass; 0: chosen for this device. The drafter always runs on one.
    val drafter: Boolean = true, // whether to load the drafter; without it only mode lookup drafts anything
    val xnnpack: Boolean = false, // whether kernels of XNNPACK are used
    val targetOn: String = CPU_GRAPH, // where the target runs; see placed
    val drafterOn: String = CPU_GRAPH,
    val measure: Measure = Measure.AUTO, // whether to time this device; see Measure
    val state: StateDirectory = StateDirectory.NONE,
    val notices: List<Notice> = emptyList(),
    val measureSeconds: Double = MEASURE_SECONDS, // tests of measured costs give a slow machine more
) {
    /** The same with the dynamic graphs on the CPU, without XNNPACK. */
    fun onCpu(notices: List<Notice>): Loading =
        Loading(threads, drafter, measure = measure, state = state, notices = notices, measureSeconds = measureSeconds)
}

/**
 * Loads the graphs of a bundle once, for any number of sessions.
 *
 * @param most threads of a target pass at most, where [loading] names no number.
 */
internal fun loadBundle(
    bundle: Bundle,
    loading: Loading = Loading(),
    most: Int = threadsFor(bundle.target.parameters),
): LoadedBundle {
    if (loading.threads != 0) checkThreads(loading.threads)
    val opened = placed(bundle, loading.targetOn, loading.drafterOn)
    val targetTokenizer = loadTokenizer(opened, opened.target)
    val drafts = loading.drafter && !opened.drafter.isAbsent
    val drafterTokenizer = if (drafts) loadTokenizer(opened, opened.drafter) else null
    val vocabMap = loadVocabMap(opened.file(opened.vocabMap))
    vocabMap.checkFits(
        drafterTokenizer?.fingerprint ?: vocabMap.draftFingerprint,
        targetTokenizer.fingerprint,
        opened.drafter.vocabSize,
        opened.target.vocabSize,
    )
    val drafter = if (drafts) SharedGraph { openWeights(opened, opened.drafter, 1, loading) } else null
    val trial = ThreadTrial(loading) { threads ->
        val target = SharedGraph { openWeights(opened, opened.target, threads, loading) }
        LoadedBundle(opened, target, targetTokenizer, vocabMap, drafter, drafterTokenizer, loading.notices)
    }
    try {
        return trial.fastest(most)
    } catch (error: Throwable) {
        drafter?.close()
        throw error
    }
}

/** Opens a bundle with other numbers of threads, of which it keeps the costs, and one by one: each has weights of its own. */
private class ThreadTrial(private val loading: Loading, private val withThreads: (Int) -> LoadedBundle) {
    private val devices = HashMap<Int, DeviceCosts>() // by threads

    /** The bundle with the threads that it is fastest with, where costs are measured and kept; else with [most]. */
    fun fastest(most: Int): LoadedBundle {
        val isKept = loading.measure == Measure.AUTO && loading.state.root != null
        val threads = when {
            loading.threads != 0 -> loading.threads
            isKept && loading.targetOn == CPU_GRAPH -> fastestThreads(most, ::speed)
            else -> most
        }
        val loaded = withThreads(threads)
        try {
            loaded.target.ready()
            loaded.drafter?.ready()
            val device = costs(loaded, threads)
            // All, since threads were compared by them.
            loaded.device = DeviceCosts(device.costs, device.source) { devices.values.forEach { it.forget() } }
            return loaded
        } catch (error: Throwable) {
            loaded.target.close()
            throw error
        }
    }

    /** Expected tokens a second; null where the costs are not those of this device. */
    private fun speed(threads: Int): Double? {
        val loaded = withThreads(threads)
        try {
            val device = costs(loaded, threads)
            val isOfThis = device.source != CostsSource.MANIFEST || loaded.bundle.measuredOn == machine(threads)
            return if (isOfThis) MeasuredLength(device.costs).speed else null
        } finally {
            loaded.target.close()
        }
    }

    /** The costs of the models here; they are timed where nothing is known of this machine. */
    private fun costs(loaded: LoadedBundle, threads: Int): DeviceCosts = devices.getOrPut(threads) {
        val bundle = loaded.bundle
        val here = machine(threads)
        deviceCosts(loading.state, bundle.seal, bundle.costs, bundle.measuredOn, here, loading.measure) {
            timed(loaded, loading.measureSeconds)
        }
    }

    private fun machine(threads: Int): Machine =
        thisMachine(Engine.version, threads, loading.targetOn, loading.drafterOn)
}

private fun timed(loaded: LoadedBundle, seconds: Double): Costs? {
    val bundle = loaded.bundle
    val drafter = loaded.drafter ?: return null
    val text = loaded.targetTokenizer.encode(MEASURED_TEXT)
    val ids = text.copyOf(minOf(text.size, MEASURED_TOKENS))
    val shortest = minOf(bundle.target.kv.maxLength, bundle.drafter.kv.maxLength)
    if (ids.isEmpty() || shortest < LEAST_CONTEXT) return null
    return loaded.target.lent { target ->
        drafter.lent { small ->
            val models = DecoderModels(target, Drafter(small, bundle.drafter.start), NgramCache(loaded.vocabMap))
            measureWithin(models, ids, loaded.draftPrompt(ids), seconds)
        }
    }
}

internal fun loadTokenizer(bundle: Bundle, entry: ModelEntry): Tokenizer {
    val compiled = entry.compiledTokenizer ?: throw TokenizerException(
        "not_compiled",
        "the bundle ${bundle.path.name} has no compiled tokenizer for ${entry.source}",
        "export it again with a newer omnidraft",
    )
    return CompiledTokenizer.fromFile(bundle.file(compiled))
}

internal fun drafts(config: GenerationConfig, hasDrafter: Boolean): Boolean =
    config.copies || (config.asksDrafter && hasDrafter)

/** The draft length of a generation; without a drafter it can only copy. */
internal fun draftLengthFor(
    config: GenerationConfig,
    hasDrafter: Boolean, // whether the drafter is loaded
    costs: Costs,
    state: LengthState, // what earlier texts taught; "auto" changes it
): DraftLength {
    if (!drafts(config, hasDrafter)) return FixedLength(0)
    val count = config.numDraftTokens ?: return MeasuredLength(
        costs,
        state,
        drafts = config.asksDrafter && hasDrafter,
        copies = config.copies,
    )
    val source = if (config.mode == Mode.LOOKUP) Source.COPY else Source.DRAFT
    return FixedLength(count, source)
}

/**
 * How a generation's drafts are verified; "auto" decides by the length of a usual round.
 *
 * The decision decides what a seed draws. It uses the bundle's costs, not those measured here, so it is the same on
 * every device.
 */
internal fun verificationFor(config: GenerationConfig, bundle: Bundle): Verification {
    if (config.verification != Verification.AUTO) return config.verification
    val seconds = bundle.costs.roundSeconds(Defaults.BLOCK_USUAL_DRAFT)
    return if (blockPays(seconds, bundle.target.vocabSize)) Verification.BLOCK else Verification.TOKEN
}
