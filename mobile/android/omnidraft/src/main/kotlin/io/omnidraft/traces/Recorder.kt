package io.omnidraft.traces

import io.omnidraft.decoding.Outcome
import io.omnidraft.decoding.TargetProbs
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.VocabMap

/* Records one generation: an observer of the loop that writes each round to a trace. */

/** The digests of the drafter's and of the target's adapter; null for none. */
internal data class Digests(val drafter: String?, val target: String?)

/**
 * The generation that a record is about.
 *
 * @property context gives the text before the first round in draft ids; called in the first round, before it is learned.
 */
internal class RecordingSource(
    val vocabMap: VocabMap, // spells the emitted tokens
    val context: () -> IntArray,
    val adapters: () -> Digests, // gives the digests of the adapters that the last round ran with
    val mode: String,
    val continues: Boolean, // whether the generation began in another record
)

/** Writes the rounds of one generation to a store; [record] is an observer of `speculate`. */
internal class Recorder(
    private val store: TraceStore,
    private val tracer: Tracer, // makes a round of a record from a round of the loop
    private val source: RecordingSource,
) : AutoCloseable {
    private val context = IntList() // the text so far in draft ids
    private var hasContext = false
    private var adapters = Digests(null, null)
    private var continues = source.continues
    private var place: SegmentPlace? = null // of the record that is being extended

    /** Record a round, before anything is learned from it. */
    fun record(outcome: Outcome, probs: TargetProbs) {
        val adapters = source.adapters()
        if (!hasContext) context.addAll(source.context())
        hasContext = true
        val traced = tracer(outcome, probs)
        // The next round is of other models, or comes after a gap.
        if (adapters != this.adapters || traced == null) place = null
        this.adapters = adapters
        if (traced != null) append(traced)
        context.addAll(outcome.emitted.asList().concatenated { source.vocabMap.spell(it) })
        continues = true
    }

    /** Make the record reach the disk. */
    override fun close() = store.sync()

    private fun append(traced: TracedRound) {
        place = store.append(traced, place) { start() }
    }

    private fun start(): Start {
        val (skipped, kept) = window(context)
        return Start(adapters.drafter, adapters.target, source.mode, continues, skipped, kept)
    }
}
