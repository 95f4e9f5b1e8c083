package io.omnidraft.learning

import io.omnidraft.GenerationConfig
import io.omnidraft.SessionOptions
import io.omnidraft.learning.online.LearningController
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.TraceAligner
import io.omnidraft.learning.positions.fromTraces
import io.omnidraft.learning.positions.fullTrie
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Session
import io.omnidraft.support.StarterBundles
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.readTraces
import java.io.File

/** What scripts/android/expected_learning.py wrote. */
internal val LEARNED: File get() = StarterBundles.expected("learning")

/** Sums that a small model answers at once; number [n] of many. */
internal fun question(n: Int): String =
    "Ben has ${n % 9 + 2} bags with ${n % 7 + 3} shells each. He finds ${n + 1} more. How many shells does he have?"

/** Settings of short greedy answers. */
internal val SHORT = GenerationConfig(maxNewTokens = 24, numDraftTokens = 4)

/** Answers questions; the ids of each answer. */
internal fun answers(session: Session, questions: IntRange): List<List<Int>> =
    questions.map { session.generate(question(it), SHORT).finish().tokenIds.toList() }

internal fun responsesIn(traces: File, loaded: LoadedBundle): List<Aligned> {
    val map = loaded.vocabMap
    val drafter = loaded.bundle.drafter
    val aligner = TraceAligner(Aligner(fullTrie(map), drafter.kv.maxLength), drafter.start)
    return fromTraces(readTraces(listOf(traces), Vocabularies.of(map)), aligner).toList()
}

/** The files of a session that learns, all in one place. */
internal fun optionsIn(place: File, adapter: File? = null) =
    SessionOptions(File(place, "cache.odc"), File(place, "traces"), adapter, File(place, "learned"))

/** Runs something with a session and its learning; [key] is the publisher's, [level] that of the device's heat. */
internal fun withLearning(
    loaded: LoadedBundle, options: SessionOptions, key: ByteArray? = null, level: Int = 0,
    run: (Session, LearningController) -> Unit,
) = Session(loaded, adapter = options.adapter).use { session ->
    LearningController(session, options, key, throttle = { level }).use { run(session, it) }
}
