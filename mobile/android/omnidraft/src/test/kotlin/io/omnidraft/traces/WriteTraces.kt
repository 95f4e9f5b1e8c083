package io.omnidraft.traces

import io.omnidraft.conformance.list
import io.omnidraft.conformance.obj
import io.omnidraft.disk.parse
import io.omnidraft.support.recordsOf
import io.omnidraft.support.vocabulariesOf
import java.io.File

/**
 * Records what the JSON file of the first argument describes (segments, as `ReadTraces` writes them) in the directory of
 * the second, round by round as a session does. The segments may be cut at other places than they were.
 */
internal object WriteTraces {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val (given, directory) = arguments.map { File(it) }
        val segments = parse(given.readBytes()).list().map { it.obj() }
        TraceStore(directory, vocabulariesOf(segments.first())).use { store ->
            for (traced in segments.flatMap { recordsOf(it) }) record(store, traced)
            check(store.problem == null) { store.problem.orEmpty() }
        }
    }

    private fun record(store: TraceStore, traced: Traced) {
        var place: SegmentPlace? = null
        var text = traced.start.context
        for (round in traced.rounds) {
            val start = traced.start
            val whole = text
            place = store.append(round, place) {
                val skipped = start.skipped + maxOf(0, whole.size - WINDOW)
                val kept = whole.copyOfRange(maxOf(0, whole.size - WINDOW), whole.size)
                Start(
                    start.drafterAdapter, start.targetAdapter, start.temperature, start.mode, start.continues, skipped, kept,
                )
            }
            checkNotNull(place) { store.problem ?: "a round was not recorded" }
            text += round.pieces
        }
    }
}
