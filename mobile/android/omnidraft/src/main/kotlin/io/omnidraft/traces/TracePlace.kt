package io.omnidraft.traces

/** Where rounds are recorded: a directory ([TraceStore]), or memory ([TraceMemory]). */
internal interface TracePlace {
    /** The name of this place in messages. */
    val name: String

    /** Of the ids. */
    val vocabularies: Vocabularies

    /** Why recording stopped, in one sentence; null while it works. */
    val problem: String?

    /** Whether rounds are recorded now. */
    val isRecording: Boolean

    /** Record nothing more until [resume]; from any thread. */
    fun pause()

    /** Record again. */
    fun resume()

    /**
     * Record a round.
     *
     * @param traced the round.
     * @param at the value returned for the round before; null begins a record.
     * @param start makes the beginning of a record; called only if the round begins one.
     * @return where the record continues; null where nothing was recorded.
     */
    fun append(traced: TracedRound, at: SegmentPlace?, start: () -> Start): SegmentPlace?

    /** Make what was recorded reach the disk; called at the end of a generation. */
    fun sync()
}
