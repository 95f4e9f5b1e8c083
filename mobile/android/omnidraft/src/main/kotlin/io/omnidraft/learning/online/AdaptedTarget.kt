package io.omnidraft.learning.online

import io.omnidraft.Defaults
import io.omnidraft.SettingException
import io.omnidraft.bundle.Bundle
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.TraceAligner
import io.omnidraft.learning.positions.fullTrie
import io.omnidraft.learning.step.Arrays
import io.omnidraft.learning.step.Learner
import io.omnidraft.models.Adapter
import io.omnidraft.traces.Traced
import io.omnidraft.vocab.VocabMap

/*
 * One pair of models that learns from its traces: learner, guard and progress.
 */

/** The mode whose answers the guard counts: those of other modes do not depend on the drafter alone. */
private const val DRAFTED = "trie"

/**
 * Options of an adaptation.
 *
 * @property memory earlier answers that are kept to be replayed, and new answers that are learned from at once.
 * @property maxLength draft tokens of a response with its prompt at most; null for all that the drafter's context
 *   holds.
 */
internal class AdaptOptions(
    val interval: Int = Defaults.LEARNER_INTERVAL, // answers between two rounds of learning, at least
    val passes: Int = Defaults.LEARNER_PASSES, // over the answers of an interval, in steps of Defaults.LEARNER_BATCH
    val replayed: Int = Defaults.LEARNER_REPLAYED, // earlier answers in each step, besides the new ones
    val memory: Int = Defaults.LEARNER_MEMORY,
    val seed: Long = 0, // of the choice of earlier answers
    val maxLength: Int? = null,
) {
    /** The options that a checkpoint records, by name; a later run needs the same values. */
    val settings: Map<String, String> get() = mapOf(
        "interval" to "$interval", "passes" to "$passes", "replayed" to "$replayed", "memory" to "$memory",
        "seed" to "$seed",
    )
}

internal interface AdapterUser {
    /** Digest of the target's adapter in use; null for none. */
    val targetAdapter: String?

    /** Whether the last record of the trace may still grow. */
    val isAnswering: Boolean

    /** Draft with an adapter from the next round on; null drafts without one. */
    fun useDrafterAdapter(adapter: Adapter?)
}

/** The pair that learns. */
internal class AdaptedTarget(
    bundle: Bundle,
    vocabMap: VocabMap,
    val user: AdapterUser,
    val learner: Learner, // it learns, at its first rate times the rate scale of the progress
    val trace: RecordedAnswers, // the records that it learns from
    val options: AdaptOptions,
    checkpoint: LearningCheckpoint?, // to go on from; null begins
    begun: Adapter?, // the adapter that learning begins with, where there is no checkpoint
) {
    private val baseRate = learner.rate
    private val aligner = TraceAligner(
        Aligner(fullTrie(vocabMap), minOf(options.maxLength ?: Int.MAX_VALUE, bundle.drafter.kv.maxLength)),
        bundle.drafter.start,
        user.targetAdapter,
    )
    private val base: Adapter? = if (checkpoint == null) begun else checkpoint.base
    private var good: Arrays
    private var used: Adapter? = checkpoint?.used

    /** Called after each step, when [checkpoint] may be written. */
    var afterStep: () -> Unit = {}

    val guard = Guard()

    val progress: AdaptationProgress = checkpoint?.progress ?: AdaptationProgress()

    init {
        if (checkpoint != null) {
            learner.restore(checkpoint.learner)
            guard.restore(checkpoint.progress.guard)
        }
        good = checkpoint?.good?.takeIf { it.isNotEmpty() } ?: learner.state()
        learner.rate = baseRate * progress.rateScale
    }

    /**
     * Take the records that came since the last time: they are pending, and the guard counts those that were drafted.
     */
    fun collect() {
        val inUse = (used ?: base)?.digest
        for (found in trace.since(progress.read, user.isAnswering)) {
            progress.read = AnswerPlace(progress.answered + 1, found.segment, found.record)
            if (found.traced.start.targetAdapter != user.targetAdapter) continue
            progress.answered += 1
            progress.places += progress.answered to AnswerPlace(progress.answered, found.segment, found.record)
            progress.pending += progress.answered
            observe(found.traced, inUse)
        }
        progress.pending = progress.pending.takeLast(maxOf(options.memory, options.interval))
        progress.dropPlaces()
    }

    /** The training positions of answers; those whose records were deleted to make room are left out. */
    fun aligned(numbers: List<Long>): List<Aligned> {
        val places = numbers.mapNotNull { progress.places[it] }
        val segments = places.map { it.segment }.distinct().associateWith { trace.segment(it) }
        return places.mapNotNull { place -> segments[place.segment]?.generations()?.getOrNull(place.record.toInt()) }
            .filter { it.start.targetAdapter == user.targetAdapter }
            .mapNotNull { alignedOrNull(it) }
    }

    /** Draft with the learner's adapter from now on. */
    fun swapIn() {
        learner.rate = baseRate * progress.rateScale
        used = if (progress.version == 0L) null else learner.adapter()
        user.useDrafterAdapter(used ?: base)
    }

    fun keepGood() {
        good = learner.state()
    }

    /** Draft and learn with the last good adapter. */
    fun goBack() {
        learner.restore(good)
        swapIn()
    }

    /** The whole state, between two steps. */
    fun checkpoint(): LearningCheckpoint {
        progress.guard = guard.state()
        progress.dropPlaces()
        val isGood = progress.version == progress.good && progress.unfinished == null
        return LearningCheckpoint(progress, learner.state(), if (isGood) emptyMap() else good, used, base)
    }

    private fun observe(traced: Traced, inUse: String?) {
        if (traced.start.mode != DRAFTED || traced.start.drafterAdapter != inUse || traced.rounds.isEmpty()) return
        guard.observe(traced.rounds.sumOf { it.tokens.size.toLong() }, traced.rounds.size.toLong())
    }

    /** The positions of a record; null where nothing can be learned from it, such as rows that are no distribution. */
    private fun alignedOrNull(traced: Traced): Aligned? = try {
        aligner.align(traced)
    } catch (_: SettingException) {
        null
    }
}
