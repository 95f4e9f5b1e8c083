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
     * @param freeMemory bytes that the app may still use; long answers are cut so that a call fits, and where none
     *   fits, the step is refused (fault `memory`). Null: not looked at.
     */
    public fun step(seconds: Double, freeMemory: Long? = null): LearnOutcome

    /** Where a store has the newest release for the models of this bundle: a relative path with `/`. */
    public val releaseName: String

    /**
     * Verifies a release with the public key of [LoadOptions], compares its adapter on the traces of this device and
     * installs it; blocks (spec/15-sync.md). Where nothing was recorded, the release is used without a comparison.
     *
     * @param release the whole file, which the app fetched with its own means.
     * @throws SyncException the release is refused; what was in use stays.
     */
    public fun pull(release: ByteArray): PullOutcome

    /** Goes back to the adapter that was used before. */
    public fun goBack()

    /**
     * What this device shares, in one file that it signs with a key of its own; the app uploads it with its own means
     * (spec/15-sync.md).
     *
     * @param parts what is shared; nothing else is in the file.
     */
    public fun push(parts: Set<PushPart>): PushFile
}

/**
 * The file of a push.
 *
 * @property name where a store has it: a relative path with `/`. Its last part is the public key of this device, by
 *   which a publisher accepts it. A push replaces the one before.
 * @property data the bytes.
 */
public class PushFile(public val name: String, public val data: ByteArray)

/** What a device shares. */
public enum class PushPart {
    /** The learned adapter: numbers that the drafter learned from what was said here. */
    ADAPTER,

    /** The n-grams: which of the target's tokens were said here, and how often; no text. */
    CACHE,

    /** The traces: every prompt and answer in them, word for word. */
    TRACES,
}

/**
 * What [Learning.step] did.
 *
 * @property steps steps of the optimiser in this call.
 * @property isFinished whether all steps of the recorded traces were taken; answers wait until there are eight new ones.
 * @property uses whether a learned adapter is in use now.
 * @property loss of the last step that changed the drafter; null without one.
 * @property wentBack whether the adapter in use was worse than the one before, which is in use again.
 */
public class LearnOutcome(
    public val steps: Int,
    public val isFinished: Boolean,
    public val uses: Boolean,
    public val loss: Double? = null,
    public val wentBack: Boolean = false,
)

/** What became of the newest release. */
public enum class PullOutcome {
    /** Its adapter is in use now. */
    SWITCHED,

    /** Its adapter was not surely better, or fewer than 8 answers were recorded: the one before stays in use. */
    KEPT,

    /** It was installed before. */
    NEWEST,

    /** Its adapter was not better when it was compared before. */
    REFUSED_BEFORE,

    /** It has no adapter. */
    NO_ADAPTER,
}
