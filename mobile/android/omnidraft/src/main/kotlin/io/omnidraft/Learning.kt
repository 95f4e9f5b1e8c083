package io.omnidraft

import java.io.File

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

    /**
     * Verifies the newest release, compares its adapter on the traces of this device and installs it; blocks
     * (spec/15-sync.md). Where nothing was recorded, the release is used without a comparison.
     *
     * @throws SyncException the release is refused or cannot be read; what was in use stays.
     */
    public fun pull(source: ReleaseSource): PullOutcome

    /** Goes back to the adapter that was used before. */
    public fun goBack()

    /**
     * Writes what this device shares into a folder, in the layout of a store; the app uploads it with its own means
     * (spec/15-sync.md, push).
     *
     * @param folder where the layout begins; made if it is absent.
     * @param device a name that the user chose, or a random one; 1 to 64 letters, digits, `.`, `-`, `_`.
     * @param parts what is shared; nothing else is written.
     * @return the files in the order in which they are to be uploaded, the record last.
     */
    public fun writePush(folder: File, device: String, parts: Set<PushPart>): List<File>
}

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

/** A place that releases are read from; an app writes one for its own transport. */
public interface ReleaseSource {
    /**
     * The bytes of a file of the store; null where there is none.
     *
     * @param path relative path, with `/` between its parts.
     * @param most bytes at most; a larger file is an error of the source.
     * @throws java.io.IOException the store cannot be reached; the pull is refused with the fault `unreachable`.
     */
    public fun read(path: String, most: Long): ByteArray?
}
