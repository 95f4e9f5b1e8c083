package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.Defaults.DRAFT_LENGTH_COPY_ACCEPTANCE as COPY_ACCEPTANCE
import io.omnidraft.Defaults.DRAFT_LENGTH_DECAY as DECAY
import io.omnidraft.Defaults.DRAFT_LENGTH_FIRST_SHARE as FIRST_SHARE
import io.omnidraft.Defaults.DRAFT_LENGTH_LAST_SHARE as LAST_SHARE
import io.omnidraft.Defaults.DRAFT_LENGTH_LONGEST as LONGEST
import io.omnidraft.Defaults.DRAFT_LENGTH_LONGEST_MATCH as LONGEST_MATCH
import io.omnidraft.Defaults.DRAFT_LENGTH_MOST_UNREAD as MOST_UNREAD
import io.omnidraft.Defaults.DRAFT_LENGTH_PRIOR_ACCEPTANCE as PRIOR_ACCEPTANCE
import io.omnidraft.Defaults.DRAFT_LENGTH_PRIOR_ROUNDS as PRIOR_ROUNDS
import io.omnidraft.Defaults.DRAFT_LENGTH_PROBE as PROBE
import io.omnidraft.Defaults.DRAFT_LENGTH_READ as READ
import io.omnidraft.Defaults.DRAFT_LENGTH_REPAID as REPAID
import io.omnidraft.Defaults.DRAFT_LENGTH_SEEN_DECAY as SEEN_DECAY
import io.omnidraft.Defaults.DRAFT_LENGTH_SHORTEST_MATCH as SHORTEST_MATCH
import io.omnidraft.SettingException

/* How many tokens the next round proposes, and from which source: as many as pay, or none (spec/07-draft-length.md). */

/** Of a draft token by its class, where [PRIOR_ACCEPTANCE] is measured. */
private val CHANCES = Defaults.DRAFT_LENGTH_CHANCES.toDoubleArray()
private const val LEAST_GAIN = 1e-9 // target tokens that a draft token gives; a divisor
private val NO_NUMBERS = DoubleArray(0)

internal enum class Source(val word: String) { NONE("none"), DRAFT("draft"), COPY("copy") }

/**
 * What the next round proposes.
 *
 * @property count draft tokens at most, or copied target tokens; 0 where the source is none.
 * @property fresh whether the drafter forgets its context but for the last [MOST_UNREAD] tokens: more of it were not
 *   read, and reading them would take longer than it gains.
 * @property chances the probability that a draft token is accepted, by the class of its confidence; none where the
 *   draft has the whole count.
 * @property worth the first, second, ... draft token is proposed if it is accepted, with those before it, with at least
 *   this probability; otherwise the draft ends before it. None where the draft has a token in any case.
 * @property least the draft goes on after its first, second, ... token if it is accepted so far with at least this
 *   probability; one number less than [count] at least, none where that is 1.
 */
internal class Plan(
    val source: Source = Source.NONE,
    val count: Int = 0,
    val fresh: Boolean = false,
    val chances: DoubleArray = NO_NUMBERS,
    val worth: DoubleArray = NO_NUMBERS,
    val least: DoubleArray = NO_NUMBERS,
)

internal class RoundCounts(
    val classes: IntArray, // of the confidence of each draft token, and of the one that was not worth proposing
    val evaluated: Int, // draft tokens verified
    val accepted: Int, // draft tokens accepted
    val emitted: Int, // target tokens
    val match: Int = 0, // tokens of the context's match before the round; 0 for none
    val agreed: Int = 0, // emitted tokens from the first one on that a copy would have had right, proposed or not
)

internal interface DraftLength {
    /** What it is computed from; null where the length is fixed. */
    val costs: Costs? get() = null

    /** Sets the number of rounds that the time of reading is divided by. */
    fun repay(rounds: Double) {}

    /** The plan of the next round. */
    fun next(match: Int = 0): Plan

    fun record(counts: RoundCounts)
}

internal class FixedLength(numDraftTokens: Int, source: Source = Source.DRAFT) : DraftLength {
    init {
        if (numDraftTokens !in 0..Defaults.MAX_DRAFT_TOKENS) {
            val sentence = "numDraftTokens $numDraftTokens is outside 0..${Defaults.MAX_DRAFT_TOKENS}"
            throw SettingException(sentence, "4 is usual", "numDraftTokens")
        }
    }

    private val plan = if (numDraftTokens > 0) Plan(source, numDraftTokens) else Plan()

    override fun next(match: Int): Plan = plan

    /** A fixed length has nothing to learn. */
    override fun record(counts: RoundCounts) = Unit
}

/** One way to propose tokens in the next round. */
internal class Option(val source: Source, val count: Int, val tokens: Double, val seconds: Double) {
    val speed: Double get() = tokens / seconds
}

/**
 * Maximises expected tokens a second, from measured costs and running acceptance.
 *
 * While the drafter does not pay it drafts a little now and then, to notice when the text changes. Such a probe waits
 * until it costs a small share of the time that passed without one. Each probe that changes nothing halves the share,
 * so a drafter that never helps costs a few percent at first and soon almost nothing. Copies need no probes: every
 * match of the context is compared with what was emitted.
 */
internal open class MeasuredLength(
    override val costs: Costs,
    val state: LengthState = LengthState(), // what was learned so far; it is changed
    private val drafts: Boolean = true, // whether the drafter can be used
    private val copies: Boolean = false, // whether the context can be used
    val longest: Int = LONGEST, // tokens of a round at most
) : DraftLength {
    /** Seconds of one more draft token after the first, the second, ... */
    private val more = DoubleArray(LONGEST - 1) { costs.roundSeconds(it + 2) - costs.roundSeconds(it + 1) }

    /** Seconds of verifying the first, the second, ... token when it is drafted already. */
    private val verified = DoubleArray(LONGEST) {
        costs.roundSeconds(it + 1) - costs.roundSeconds(it) - costs.draft
    }

    private var repaid = REPAID

    /** Expected tokens a second where the context has no match. */
    val speed: Double
        get() {
            val best = fastest(otherOptions(0)).speed
            return maxOf(best, draft(best).first)
        }

    override fun repay(rounds: Double) {
        repaid = rounds
    }

    override fun next(match: Int): Plan {
        val best = fastest(otherOptions(match))
        if (!drafts) return Plan(best.source, best.count)
        val (speed, plan) = draft(best.speed)
        // A text that ends at once does not wait for the drafter, which reads as long as its tokens took.
        val isPaid = state.written * costs.passSeconds(1) >= reading()
        if (isPaid && speed > best.speed) {
            state.idle = 0
            state.share = FIRST_SHARE
            return plan
        }
        if (isPaid && probeIsDue(best)) {
            state.idle = 0
            state.share = maxOf(state.share / 2.0, LAST_SHARE)
            return Plan(plan.source, minOf(PROBE, longest), plan.fresh, plan.chances)
        }
        state.idle += 1
        return Plan(best.source, best.count)
    }

    /**
     * The expected speed of a draft, and its plan.
     *
     * A draft token is worth its time if it brings as many tokens a second as the text has on average: when it is
     * drafted, that of verifying it, and before, that of drafting it too. Of a token that is not drafted yet, the
     * chance is the mean over the classes.
     *
     * @param other speed of the best round without a drafter.
     */
    private fun draft(other: Double): Pair<Double, Plan> {
        val chances = chances()
        val ratio = ratio()
        val seen = state.seen.sum()
        val shares = DoubleArray(CLASSES) { (state.seen[it] + weight(seen) / CLASSES) / (seen + weight(seen)) }
        val gain = ratio * shares.indices.sumOf { shares[it] * chances[it] }
        var tokens = 1.0 + gain
        var seconds = costs.roundSeconds(1) + reading() / repaid
        val first = maxOf(other, tokens / seconds) * verified[0]
        for (i in 0 until CLASSES) {
            if (ratio * chances[i] >= first) continue
            tokens -= shares[i] * ratio * chances[i]
            seconds -= shares[i] * verified[0]
        }
        val second = maxOf(other, tokens / seconds) * more[0]
        for (i in 0 until CLASSES) {
            if (chances[i] * gain < second) continue
            tokens += shares[i] * chances[i] * gain
            seconds += shares[i] * more[0]
        }
        val speed = tokens / seconds
        val worth = DoubleArray(LONGEST) { speed / ratio * verified[it] }
        val least = DoubleArray(more.size) { speed / maxOf(gain, LEAST_GAIN) * more[it] }
        return speed to Plan(Source.DRAFT, longest, state.unread > MOST_UNREAD, chances, worth, least)
    }

    /** Plain decoding and all copies; of equal speeds the first one counts. */
    private fun otherOptions(match: Int): List<Option> {
        val options = ArrayList<Option>(1 + longest)
        options.add(Option(Source.NONE, 0, 1.0, costs.passSeconds(1)))
        if (copies && match > 0) {
            val byLength = running(COPY_ACCEPTANCE, state.agreed, state.compared)
            val expected = expected(DoubleArray(longest) { byLength[matchClass(match + it)] })
            for (k in 1..longest) options.add(Option(Source.COPY, k, 1.0 + expected[k - 1], costs.copySeconds(k)))
        }
        return options
    }

    /** The probability that a draft token is accepted, by the class of its confidence. */
    private fun chances(): DoubleArray {
        val scale = minOf(1.0, costs.acceptance / PRIOR_ACCEPTANCE)
        return DoubleArray(CLASSES) { share(scale * CHANCES[it], state.accepted[it], state.evaluated[it]) }
    }

    /** Target tokens for each accepted draft token: n-grams give less than one, expansions more. */
    private fun ratio(): Double = minOf(1.5, (state.targets + PRIOR_ROUNDS) / (state.drafts + PRIOR_ROUNDS))

    override fun record(counts: RoundCounts) {
        state.unread = if (counts.classes.isEmpty()) state.unread + counts.emitted else 0
        state.written += counts.emitted
        if (counts.classes.isEmpty()) state.fade() else recordDraft(counts)
        if (counts.match > 0) {
            val tokens = minOf(counts.emitted, counts.agreed + 1, LONGEST)
            for (j in 0 until tokens) {
                count(state.agreed, state.compared, matchClass(counts.match + j), j < counts.agreed)
            }
        }
    }

    private fun recordDraft(counts: RoundCounts) {
        for (each in counts.classes) {
            for (i in 0 until CLASSES) state.seen[i] *= SEEN_DECAY
            state.seen[each] += 1.0
        }
        // Of a refused target token only the first piece counts.
        for (j in 0 until minOf(counts.evaluated, counts.accepted + 1, counts.classes.size)) {
            for (i in 0 until CLASSES) {
                state.evaluated[i] *= SEEN_DECAY
                state.accepted[i] *= SEEN_DECAY
            }
            state.evaluated[counts.classes[j]] += 1.0
            if (j < counts.accepted) state.accepted[counts.classes[j]] += 1.0
        }
        state.drafts = state.drafts * DECAY + counts.accepted
        state.targets = state.targets * DECAY + (counts.emitted - 1)
    }

    /** Whether a probe that gives one token costs little beside the rounds since the last draft. */
    private fun probeIsDue(best: Option): Boolean {
        val seconds = costs.roundSeconds(minOf(PROBE, longest)) + reading()
        return state.share * state.idle * costs.target[0] >= seconds - 1.0 / best.speed
    }

    /** Seconds that the drafter needs for what it did not read yet. */
    private fun reading(): Double = minOf(state.unread, MOST_UNREAD.toLong()) * READ * costs.draft
}

/** The index of a confidence in the arrays of [LengthState]. */
internal fun confidenceClass(confidence: Double): Int = CONFIDENCES.count { it <= confidence }

/** The index of a match's length in the arrays of [LengthState]. */
internal fun matchClass(match: Int): Int = minOf(match, LONGEST_MATCH) - SHORTEST_MATCH

/** Shares of success; each is the assumption for the next, with a weight that falls with the trials. */
private fun running(prior: Double, successes: DoubleArray, trials: DoubleArray): DoubleArray {
    var assumed = prior
    return DoubleArray(trials.size) {
        assumed = share(assumed, successes[it], trials[it])
        assumed
    }
}

/** The share of success, with an assumption. */
private fun share(assumed: Double, successes: Double, trials: Double): Double {
    val weight = weight(trials)
    return (successes + weight * assumed) / (trials + weight)
}

/** The weight of an assumption beside trials, in trials; it falls with them. */
private fun weight(trials: Double): Double = PRIOR_ROUNDS * PRIOR_ROUNDS / (PRIOR_ROUNDS + trials)

/** The first of the options of the largest speed. */
private fun fastest(options: List<Option>): Option {
    var best = options[0]
    for (option in options) if (option.speed > best.speed) best = option
    return best
}

private fun count(successes: DoubleArray, trials: DoubleArray, place: Int, isRight: Boolean) {
    successes[place] = successes[place] * DECAY + if (isRight) 1.0 else 0.0
    trials[place] = trials[place] * DECAY + 1.0
}

/** Expected accepted tokens of 1, 2, ... proposed ones: c_0, c_0 + c_0 x c_1, ... */
private fun expected(chances: DoubleArray): DoubleArray {
    var product = 1.0
    var sum = 0.0
    return DoubleArray(chances.size) {
        product *= chances[it]
        sum += product
        sum
    }
}
