package io.omnidraft.session.state

import io.omnidraft.Stats
import io.omnidraft.bundle.peakBytes
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.Seconds
import io.omnidraft.decoding.TextRead

/** Counts of a generation, or of some after one another, as a value that any thread may read; the names are those of [Stats]. */
internal data class Statistics(
    val rounds: Int = 0,
    val drafted: Int = 0,
    val evaluated: Int = 0,
    val acceptedDrafts: Int = 0,
    val proposed: Int = 0,
    val accepted: Int = 0,
    val emitted: Int = 0,
    val learned: Int = 0,
    val unsound: Int = 0,
    val seconds: Seconds = Seconds(),
    val read: TextRead = TextRead(),
    val firstTokenSeconds: Double = 0.0,
) {
    fun with(round: Round): Statistics = with(
        Statistics(
            rounds = 1,
            drafted = round.draft.size,
            evaluated = round.evaluated,
            acceptedDrafts = round.acceptedDrafts,
            proposed = round.proposed.size,
            accepted = round.accepted,
            emitted = round.emitted.size,
            learned = round.learned,
            unsound = if (round.unsound) 1 else 0,
            seconds = round.seconds,
            read = round.read,
        ),
    )

    /** These counts and those of another generation after this one. */
    fun with(later: Statistics): Statistics = Statistics(
        rounds = rounds + later.rounds,
        drafted = drafted + later.drafted,
        evaluated = evaluated + later.evaluated,
        acceptedDrafts = acceptedDrafts + later.acceptedDrafts,
        proposed = proposed + later.proposed,
        accepted = accepted + later.accepted,
        emitted = emitted + later.emitted,
        learned = learned + later.learned,
        unsound = unsound + later.unsound,
        seconds = seconds + later.seconds,
        read = read + later.read,
        firstTokenSeconds = if (later.firstTokenSeconds > 0.0) later.firstTokenSeconds else firstTokenSeconds,
    )

    /** The counts of a number of generations as an app reads them. */
    fun stats(answers: Int): Stats = Stats(
        answers = answers,
        rounds = rounds,
        unsound = unsound,
        drafted = drafted,
        evaluated = evaluated,
        acceptedDrafts = acceptedDrafts,
        proposed = proposed,
        accepted = accepted,
        emitted = emitted,
        learned = learned,
        seconds = seconds.run {
            mapOf("draft" to draft, "translate" to translate, "target" to target, "verify" to verify, "learn" to learn)
        },
        read = read.tokens,
        readSeconds = read.seconds,
        firstTokenSeconds = firstTokenSeconds,
        peakMemory = peakBytes(),
    )
}
