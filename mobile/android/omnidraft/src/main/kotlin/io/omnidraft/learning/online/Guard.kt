package io.omnidraft.learning.online

import io.omnidraft.Defaults
import io.omnidraft.disk.array
import io.omnidraft.disk.integer
import io.omnidraft.disk.mapping
import io.omnidraft.learning.studentT
import kotlin.math.sqrt

/* A statistical test of whether an adapter drafts worse than the one before (spec/13-learner.md, The guard). */

internal enum class GuardVerdict { GOOD, UNSURE, WORSE }

internal class AnswerCounts(val tokens: Long, val passes: Long)

/**
 * When an adapter counts as worse.
 *
 * @property deviations confidence as one-sided normal standard deviations; 3.3 is wrong 1 time in 2,000.
 */
internal class GuardOptions(
    val least: Int = Defaults.LEARNER_GUARD_LEAST, // answers in a window before it is judged, 2 or more
    val window: Int = Defaults.LEARNER_GUARD_WINDOW, // answers in a window at most
    val deviations: Double = Defaults.LEARNER_GUARD_DEVIATIONS,
    val fall: Double = Defaults.LEARNER_GUARD_FALL, // the smallest decrease that counts, as a share of the value before
)

/** The recorded answers of a guard: those before the last "good", and those since. */
internal class GuardState(val reference: List<AnswerCounts>, val current: List<AnswerCounts>) {
    fun asJson(): Map<String, Any?> = mapOf("reference" to jsonOf(reference), "current" to jsonOf(current))

    companion object {
        /** Answers that a file may hold in one list; more than any window. */
        private const val MOST = 4096

        val EMPTY = GuardState(emptyList(), emptyList())

        /** Read back what [asJson] gave; @throws io.omnidraft.disk.ValueError it is another value. */
        fun fromJson(value: Any?): GuardState {
            val fields = mapping(value)
            return GuardState(answers(fields["reference"]), answers(fields["current"]))
        }

        private fun answers(value: Any?): List<AnswerCounts> = array(value, MOST).map { each ->
            val pair = array(each, 2, 2)
            AnswerCounts(integer(pair[0], 1).toLong(), integer(pair[1], 1).toLong())
        }

        private fun jsonOf(answers: List<AnswerCounts>): List<Any?> = answers.map { listOf(it.tokens, it.passes) }
    }
}

/**
 * Compares the answers since the last change that was found good with the answers before it.
 *
 * A window is good if it is not lower than the reference, or if it is full and not significantly lower. A window that
 * is not lower joins the reference. A single unlucky sample therefore passes, and a series of small losses does not.
 */
internal class Guard(val options: GuardOptions = GuardOptions()) {
    private var reference: List<AnswerCounts> = emptyList()
    private var current: List<AnswerCounts> = emptyList()

    /** Record one answer: emitted tokens, and target passes (1 or more). */
    fun observe(tokens: Long, passes: Long) {
        current = current + AnswerCounts(tokens, passes)
    }

    /** Judge the adapter in use by the answers since the last "good"; called at the end of an interval. */
    fun judge(): GuardVerdict = when {
        current.size < options.least -> GuardVerdict.UNSURE
        reference.isEmpty() -> good(current)
        isWorse(reference, current, options.deviations, options.fall) -> GuardVerdict.WORSE
        ratio(current) >= ratio(reference) -> good(reference + current)
        current.size >= options.window -> good(current) // slightly lower, or chance: this is the new reference
        else -> GuardVerdict.UNSURE
    }

    /** Drop all answers, where they no longer predict those to come. */
    fun forget() {
        reference = emptyList()
        current = emptyList()
    }

    fun state(): GuardState = GuardState(reference, current)

    /** Take over a [state]. */
    fun restore(state: GuardState) {
        reference = state.reference
        current = state.current
    }

    private fun good(answers: List<AnswerCounts>): GuardVerdict {
        reference = answers.takeLast(options.window)
        current = emptyList()
        return GuardVerdict.GOOD
    }
}

/** Tokens per target pass over at least one answer. */
internal fun ratio(answers: List<AnswerCounts>): Double {
    var tokens = 0L
    var passes = 0L
    for (each in answers) {
        tokens += each.tokens
        passes += each.passes
    }
    return tokens.toDouble() / passes.toDouble()
}

/** Whether tokens per target pass decreased significantly: Welch's test, one-sided, on two windows. */
internal fun isWorse(
    before: List<AnswerCounts>, // at least two answers
    after: List<AnswerCounts>, // at least two answers
    deviations: Double = Defaults.LEARNER_GUARD_DEVIATIONS, // confidence in normal standard deviations
    fall: Double = 0.0, // the smallest decrease that counts, as a share of the value before
): Boolean {
    val lower = ratio(before) - ratio(after)
    if (lower <= fall * ratio(before)) return false
    val a = variance(before)
    val b = variance(after)
    if (a + b == 0.0) return true
    val freedom = (a + b) * (a + b) / (a * a / (before.size - 1) + b * b / (after.size - 1))
    return lower > studentT(deviations, freedom) * sqrt(a + b)
}

/** The variance of the ratio of sums by linearisation (Cochran, Sampling Techniques, chapter 6). */
private fun variance(answers: List<AnswerCounts>): Double {
    val ratio = ratio(answers)
    var squares = 0.0
    var passes = 0.0
    for (each in answers) {
        val residual = each.tokens - ratio * each.passes
        squares += residual * residual
        passes += each.passes
    }
    val n = answers.size.toDouble()
    return squares * n / (n - 1) / (passes * passes)
}
