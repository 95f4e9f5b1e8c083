package io.omnidraft.session

import io.omnidraft.decoding.Round
import java.util.TreeMap

/* Counts of a generation; everything else is computed from them. */

/**
 * Counts of a generation; everything else is computed from them.
 *
 * @property rounds target passes after the prompt.
 * @property drafted draft tokens drawn.
 * @property evaluated draft tokens verified.
 * @property acceptedDrafts draft tokens accepted.
 * @property proposed target tokens proposed.
 * @property accepted target tokens accepted into the output.
 * @property copied proposed tokens that were copied from the context.
 * @property acceptedCopies accepted tokens that were copied from the context.
 * @property emitted target tokens of the output.
 * @property learned n-grams that are new in the cache.
 * @property unsound rounds in which the drafter gave NaN or infinity, so that its draft ended there.
 * @property lengths number of rounds without copies, by their draft tokens.
 * @property copiedLengths number of rounds with copies, by their copied tokens.
 * @property draftSeconds and the next four: seconds by part of a round, see [io.omnidraft.decoding.Seconds].
 * @property read tokens of prompts that the target read, without those that its KV buffers held.
 * @property readSeconds seconds of that.
 * @property firstTokenSeconds from the first request for a piece to the first token; of several answers, that of the
 *   last one.
 */
internal data class Statistics(
    val rounds: Int = 0,
    val drafted: Int = 0,
    val evaluated: Int = 0,
    val acceptedDrafts: Int = 0,
    val proposed: Int = 0,
    val accepted: Int = 0,
    val copied: Int = 0,
    val acceptedCopies: Int = 0,
    val emitted: Int = 0,
    val learned: Int = 0,
    val unsound: Int = 0,
    val lengths: Map<Int, Int> = emptyMap(),
    val copiedLengths: Map<Int, Int> = emptyMap(),
    val draftSeconds: Double = 0.0,
    val translateSeconds: Double = 0.0,
    val targetSeconds: Double = 0.0,
    val verifySeconds: Double = 0.0,
    val learnSeconds: Double = 0.0,
    val read: Int = 0,
    val readSeconds: Double = 0.0,
    val firstTokenSeconds: Double = 0.0,
) {
    /** These counts and those of one round: a value of its own, so that any thread may read the counts. */
    fun with(round: Round): Statistics = with(countsOf(round))

    /** These counts and those of another generation after this one. */
    fun with(later: Statistics): Statistics = Statistics(
        rounds = rounds + later.rounds,
        drafted = drafted + later.drafted,
        evaluated = evaluated + later.evaluated,
        acceptedDrafts = acceptedDrafts + later.acceptedDrafts,
        proposed = proposed + later.proposed,
        accepted = accepted + later.accepted,
        copied = copied + later.copied,
        acceptedCopies = acceptedCopies + later.acceptedCopies,
        emitted = emitted + later.emitted,
        learned = learned + later.learned,
        unsound = unsound + later.unsound,
        lengths = sums(lengths, later.lengths),
        copiedLengths = sums(copiedLengths, later.copiedLengths),
        draftSeconds = draftSeconds + later.draftSeconds,
        translateSeconds = translateSeconds + later.translateSeconds,
        targetSeconds = targetSeconds + later.targetSeconds,
        verifySeconds = verifySeconds + later.verifySeconds,
        learnSeconds = learnSeconds + later.learnSeconds,
        read = read + later.read,
        readSeconds = readSeconds + later.readSeconds,
        firstTokenSeconds = if (later.firstTokenSeconds > 0.0) later.firstTokenSeconds else firstTokenSeconds,
    )

    /** Seconds by the names of the parts. */
    val seconds: Map<String, Double>
        get() = linkedMapOf(
            "draft" to draftSeconds,
            "translate" to translateSeconds,
            "target" to targetSeconds,
            "verify" to verifySeconds,
            "learn" to learnSeconds,
        )

    /** Seconds of all rounds; reading the prompt is not part of a round. */
    val totalSeconds: Double get() = seconds.values.sum()

    /** Output tokens a second, without the time that reading the prompt took. */
    val tokensPerSecond: Double get() = if (totalSeconds > 0.0) emitted / totalSeconds else 0.0

    /** Tokens of prompts that the target read a second; 0 where it read none. */
    val readPerSecond: Double get() = if (readSeconds > 0.0) read / readSeconds else 0.0

    /** Output tokens for each target pass; 1 is plain decoding. */
    val tokensPerTargetPass: Double get() = share(emitted, rounds)

    /** Share of drawn draft tokens that were accepted. */
    val acceptanceOfDrafted: Double get() = share(acceptedDrafts, drafted)

    /** Share of verified draft tokens that were accepted. */
    val acceptanceOfEvaluated: Double get() = share(acceptedDrafts, evaluated)
}

private fun share(part: Int, whole: Int) = if (whole == 0) 0.0 else part.toDouble() / whole

private fun sums(a: Map<Int, Int>, b: Map<Int, Int>): Map<Int, Int> {
    if (b.isEmpty()) return a
    val sums = TreeMap(a)
    for ((key, count) in b) sums[key] = (sums[key] ?: 0) + count
    return sums
}

private fun countsOf(round: Round): Statistics {
    val length = mapOf((if (round.copied) round.proposed.size else round.draft.size) to 1)
    return Statistics(
        rounds = 1,
        drafted = round.draft.size,
        evaluated = round.evaluated,
        acceptedDrafts = round.acceptedDrafts,
        proposed = round.proposed.size,
        accepted = round.accepted,
        copied = if (round.copied) round.proposed.size else 0,
        acceptedCopies = if (round.copied) round.accepted else 0,
        emitted = round.emitted.size,
        learned = round.learned,
        unsound = if (round.unsound) 1 else 0,
        lengths = if (round.copied) emptyMap() else length,
        copiedLengths = if (round.copied) length else emptyMap(),
        draftSeconds = round.seconds.draft,
        translateSeconds = round.seconds.translate,
        targetSeconds = round.seconds.target,
        verifySeconds = round.seconds.verify,
        learnSeconds = round.seconds.learn,
        read = round.read.tokens,
        readSeconds = round.read.seconds,
    )
}

/**
 * What a session generated since its conversation began, or since it was loaded.
 *
 * @property answers number of generations.
 * @property totals their counts together.
 * @property peakMemory the most bytes of memory that this process had resident; null where the system does not count
 *   them.
 */
internal class SessionStatistics(val answers: Int, val totals: Statistics, val peakMemory: Long?)
