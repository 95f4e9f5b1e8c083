package io.omnidraft

/**
 * Counts of a generation, or of all generations of a session (spec/08-phones.md, The interface).
 *
 * @property answers number of generations.
 * @property rounds target passes after the prompt.
 * @property unsound rounds in which the drafter gave NaN or infinity, so that its draft ended there.
 * @property drafted draft tokens drawn.
 * @property evaluated draft tokens verified.
 * @property acceptedDrafts draft tokens accepted.
 * @property proposed target tokens proposed.
 * @property accepted target tokens accepted into the output.
 * @property emitted target tokens of the output.
 * @property learned n-grams that are new in the cache.
 * @property seconds by part of a round: `draft`, `translate`, `target`, `verify`, `learn`.
 * @property read tokens of prompts that the target read, without those in its KV buffers.
 * @property readSeconds seconds of that.
 * @property firstTokenSeconds from the first request for a piece to the first token; of several answers, that of the
 *   last one.
 * @property peakMemory the most bytes that this process had resident; null where the system does not count them.
 */
public class Stats(
    public val answers: Int,
    public val rounds: Int,
    public val unsound: Int,
    public val drafted: Int,
    public val evaluated: Int,
    public val acceptedDrafts: Int,
    public val proposed: Int,
    public val accepted: Int,
    public val emitted: Int,
    public val learned: Int,
    public val seconds: Map<String, Double>,
    public val read: Int,
    public val readSeconds: Double,
    public val firstTokenSeconds: Double,
    public val peakMemory: Long?,
) {
    /** Output tokens for each target pass; 1 is plain decoding, 0 before the first pass. */
    public val tokensPerTargetPass: Double
        get() = if (rounds == 0) 0.0 else emitted.toDouble() / rounds

    /** Share of the verified draft tokens that were accepted; 0 where none was verified. */
    public val acceptance: Double
        get() = if (evaluated == 0) 0.0 else acceptedDrafts.toDouble() / evaluated
}
