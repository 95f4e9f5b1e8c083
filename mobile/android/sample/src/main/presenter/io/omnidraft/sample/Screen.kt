package io.omnidraft.sample

/** What the presenter is doing. */
enum class Phase { EMPTY, OPENING, READY, ANSWERING }

/**
 * Text of one round.
 *
 * @property drafted share of its tokens that the drafter proposed and the target accepted, 0 to 1: the tint.
 */
data class Span(val text: String, val drafted: Float)

/**
 * All that the screen shows. It is immutable, and the presenter keeps the last one, so a screen that is made again after
 * a rotation shows the same.
 *
 * @property progress of the unpacking, 0 to 1; null if unknown.
 * @property spans the conversation, in order.
 * @property tokensPerSecond of the last answer, or of the one that runs, with and without drafts; null before one.
 * @property acceptance share of the accepted draft tokens of each of the last rounds, 0 to 1.
 * @property heat the throttle level, 0 to 3.
 * @property benchmark the line of the last benchmark; null before one.
 * @property notice one sentence for the user: an error or what the library says; empty if there is none.
 */
data class Screen(
    val phase: Phase = Phase.EMPTY,
    val title: String = "",
    val progress: Float? = null,
    val spans: List<Span> = emptyList(),
    val tokensPerSecond: Map<Speed, Double> = emptyMap(),
    val acceptance: List<Float> = emptyList(),
    val isLearning: Boolean = false,
    val hasDrafter: Boolean = true,
    val heat: Int = 0,
    val benchmark: String? = null,
    val notice: String = "",
) {
    /** The text of the conversation. */
    val text: String get() = spans.joinToString("") { it.text }
}
