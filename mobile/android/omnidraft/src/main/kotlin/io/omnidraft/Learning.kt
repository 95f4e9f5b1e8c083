package io.omnidraft

/**
 * Learning on this device, and releases that were learned elsewhere (spec/08-phones.md, The interface).
 *
 * Learning is off until [on] is called. None of these calls sends anything.
 */
public interface Learning {
    /** Records traces of the answers from now on, and allows steps. */
    public fun on()

    /** Stops recording for the answers until [on]. */
    public fun pause()

    /** Stops recording and steps, and keeps what was learned. */
    public fun off()

    /** Deletes traces, learned adapter, state and cache. */
    public fun wipe()

    /**
     * Runs the step graph on the traces; blocks, and belongs into idle time.
     *
     * @param seconds the budget, which is asked between calls of the step graph.
     */
    public fun step(seconds: Double): LearnOutcome

    /** Verifies the newest release, compares its adapter and installs it; blocks (spec/15-sync.md). */
    public fun pull(source: ReleaseSource): PullOutcome

    /** Goes back to the adapter that was used before. */
    public fun goBack()
}

/**
 * What [Learning.step] did.
 *
 * @property steps steps of the optimiser in this call.
 * @property isFinished whether all steps of the recorded traces were taken.
 * @property uses whether a learned adapter is in use now.
 */
public class LearnOutcome(public val steps: Int, public val isFinished: Boolean, public val uses: Boolean)

/** What became of the newest release. */
public enum class PullOutcome {
    /** Its adapter is in use now. */
    SWITCHED,

    /** Its adapter was not better, so the one before stays in use. */
    KEPT,

    /** It was installed before. */
    NEWEST,

    /** Its adapter was not better when it was compared before. */
    REFUSED_BEFORE,

    /** It has no adapter. */
    NO_ADAPTER,
}

/** A place that releases are read from; an app writes one for its own transport. */
public interface ReleaseSource {
    /**
     * The bytes of a file of the store; null where there is none.
     *
     * @param path relative path, with `/` between its parts.
     * @param most bytes at most; a larger file is an error of the source.
     */
    public fun read(path: String, most: Long): ByteArray?
}
