package io.omnidraft.traces

/*
 * A trace in memory: recorded generations for a learner in the same process.
 */

/** Records generations as a [TraceStore] does, and keeps them until they are taken. */
internal class TraceMemory(override val vocabularies: Vocabularies) : TracePlace {
    override val name: String get() = "this process's memory"
    override val problem: String? get() = null

    @Volatile
    private var paused = false
    private var starts = ArrayList<Start>()
    private var rounds = ArrayList<MutableList<TracedRound>>()
    private var taken = 0L // number of the first record that was not taken

    override val isRecording: Boolean get() = !paused

    override fun pause() {
        paused = true
    }

    override fun resume() {
        paused = false
    }

    @Synchronized
    override fun append(traced: TracedRound, at: SegmentPlace?, start: () -> Start): SegmentPlace? {
        if (!isRecording) return null
        var place = at
        if (place == null || place.record < taken) {
            starts.add(if (at == null) start() else start().continuing())
            rounds.add(ArrayList())
            place = SegmentPlace(0, taken + starts.size - 1)
        }
        rounds[(place.record - taken).toInt()].add(traced)
        return place
    }

    /** The generations recorded since the last call, in the order in which they began. */
    @Synchronized
    fun take(): List<Traced> {
        val generations = starts.indices.map { Traced(starts[it], rounds[it]) }
        taken += generations.size
        starts = ArrayList()
        rounds = ArrayList()
        return generations
    }

    /** Does nothing: there is no disk. */
    override fun sync() = Unit
}

/** Some generations as the bytes of one segment of a trace (spec/12-trace.md). */
internal fun segmentOf(traces: List<Traced>, vocabularies: Vocabularies, number: Long): ByteArray {
    val frames = ArrayList<Frame>()
    traces.forEachIndexed { record, traced ->
        frames.add(Frame(record.toLong(), traced.start))
        traced.rounds.mapTo(frames) { Frame(record.toLong(), it) }
    }
    return encode(Segment(TraceHeader(vocabularies, number), frames))
}
