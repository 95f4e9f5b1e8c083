package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.Defaults.DRAFT_LENGTH_FIRST_SHARE as FIRST_SHARE
import io.omnidraft.Defaults.DRAFT_LENGTH_LONGEST_MATCH as LONGEST_MATCH
import io.omnidraft.Defaults.DRAFT_LENGTH_PLAIN_DECAY as PLAIN_DECAY
import io.omnidraft.Defaults.DRAFT_LENGTH_PRIOR_ACCEPTANCE as PRIOR_ACCEPTANCE
import io.omnidraft.Defaults.DRAFT_LENGTH_SHORTEST_MATCH as SHORTEST_MATCH

/*
 * What the draft length is computed from: costs, and what was learned (spec/07-draft-length.md). A session file holds
 * both.
 */

/** The least confidence of each class after the first. */
internal val CONFIDENCES: DoubleArray = Defaults.DRAFT_LENGTH_CONFIDENCES.toDoubleArray()
internal val CLASSES: Int = CONFIDENCES.size + 1

/**
 * Seconds on one device.
 *
 * @property acceptance not seconds: accepted draft tokens over evaluated ones, when the pair was exported.
 */
internal class Costs(
    val target: DoubleArray, // one target pass over n = 1, 2, ... tokens.
    val draft: Double,
    val host: Double, // the round's own work (translate, verify, learn, rewind)
    val acceptance: Double = PRIOR_ACCEPTANCE,
) {
    /**
     * Seconds of a target pass over [n] tokens; longer ones than measured continue at the mean slope.
     *
     * Passes whose times fall do not go on falling: they would take no time, or less.
     */
    fun passSeconds(n: Int): Double {
        if (n <= target.size) return target[n - 1]
        val slope = maxOf(0.0, (target.last() - target[0]) / maxOf(1, target.size - 1))
        return target.last() + slope * (n - target.size)
    }

    /** Seconds of a round with this number of draft tokens; 0 is plain decoding, without host work. */
    fun roundSeconds(numDraftTokens: Int): Double {
        val hostSeconds = if (numDraftTokens > 0) host else 0.0
        return passSeconds(numDraftTokens + 1) + numDraftTokens * draft + hostSeconds
    }

    fun copySeconds(numTokens: Int): Double = passSeconds(numTokens + 1) + host

    override fun equals(other: Any?): Boolean = other is Costs && target.contentEquals(other.target) &&
        draft == other.draft && host == other.host && acceptance == other.acceptance

    override fun hashCode(): Int = target.contentHashCode()

    override fun toString(): String = "Costs(${target.contentToString()}, $draft, $host, $acceptance)"
}

/**
 * All that a measured draft length learned, as decayed counts; a session file holds it.
 *
 * @property seen draft tokens, proposed or not worth it, by the class of their confidence; [CLASSES] numbers.
 * @property compared tokens that a copy would have proposed, by the length of the match before the token, from
 *   [SHORTEST_MATCH] on.
 */
internal class LengthState(
    val seen: DoubleArray = DoubleArray(CLASSES),
    val evaluated: DoubleArray = DoubleArray(CLASSES), // those that were verified
    val accepted: DoubleArray = DoubleArray(CLASSES), // those of them that were accepted
    var drafts: Double = 0.0, // accepted draft tokens
    var targets: Double = 0.0, // the target tokens that they gave
    val compared: DoubleArray = DoubleArray(LONGEST_MATCH - SHORTEST_MATCH + 1),
    val agreed: DoubleArray = DoubleArray(LONGEST_MATCH - SHORTEST_MATCH + 1), // those of them that were right
    var idle: Long = 0, // rounds since the last draft
    var unread: Long = 0, // tokens of the text that the drafter has not read
    var written: Long = 0, // tokens that were emitted since the text began
    var share: Double = FIRST_SHARE, // of their time, what a probe may cost
) {
    fun copy(): LengthState = LengthState(
        seen.copyOf(), evaluated.copyOf(), accepted.copyOf(), drafts, targets, compared.copyOf(), agreed.copyOf(),
        idle, unread, written, share,
    )

    /**
     * Probe again at the start of a text, and count what the drafter has not read of it.
     *
     * @param length of the drafter's context.
     * @param shared tokens that it has in common with the context of the text before, from the first one on.
     */
    fun beginText(length: Int, shared: Int) {
        unread = minOf(length.toLong(), unread + length - shared)
        written = 0
        share = minOf(2.0 * share, FIRST_SHARE)
    }

    /** Count a round without a draft: the text goes on, and says less and less of what a draft would be. */
    fun fade() {
        for (i in 0 until CLASSES) {
            seen[i] *= PLAIN_DECAY
            evaluated[i] *= PLAIN_DECAY
            accepted[i] *= PLAIN_DECAY
        }
    }
}
