package io.omnidraft.session

import io.omnidraft.GenerationResult
import io.omnidraft.Piece
import java.util.concurrent.Executor

/* How the pieces of a generation reach an app: on its executor, one after another. */

/**
 * Gives pieces to a callback on an executor. The executor may have several threads: the next piece is handed over when
 * the callback before it has ended.
 */
internal class Deliveries(private val executor: Executor, private val onPiece: (Piece) -> Unit) {
    private val lock = Object()
    private val waiting = ArrayDeque<Piece>()
    private var isRunning = false
    private var error: Throwable? = null
    private var generation: Generation? = null

    /** Runs a generation to its end; its result when the last callback is done. */
    fun deliver(generation: Generation): GenerationResult {
        this.generation = generation
        var failed: Throwable? = null
        try {
            while (generation.hasNext()) give(generation.next())
        } catch (thrown: Throwable) {
            failed = thrown
        }
        finish()
        (synchronized(lock) { error } ?: failed)?.let { throw it }
        return resultOf(generation)
    }

    private fun give(piece: Piece) {
        synchronized(lock) {
            if (error != null) return
            waiting.add(piece)
            if (isRunning) return
            isRunning = true
        }
        submit()
    }

    private fun submit() {
        try {
            executor.execute(::run)
        } catch (refused: Throwable) {
            fail(refused)
        }
    }

    private fun run() {
        val piece = synchronized(lock) { waiting.removeFirst() }
        try {
            onPiece(piece)
        } catch (thrown: Throwable) {
            return fail(thrown)
        }
        val isMore = synchronized(lock) {
            isRunning = waiting.isNotEmpty()
            lock.notifyAll()
            isRunning
        }
        if (isMore) submit()
    }

    /** The first error ends the deliveries, and cancels the generation. */
    private fun fail(thrown: Throwable) {
        synchronized(lock) {
            if (error == null) error = thrown
            waiting.clear()
            isRunning = false
            lock.notifyAll()
        }
        generation?.cancel()
    }

    /** Waits for the last callback. A thread that is interrupted meanwhile cancels nothing that is done already. */
    private fun finish() {
        var wasInterrupted = false
        synchronized(lock) {
            while (isRunning) {
                try {
                    lock.wait()
                } catch (_: InterruptedException) {
                    wasInterrupted = true
                }
            }
        }
        if (wasInterrupted) Thread.currentThread().interrupt()
    }
}

private fun resultOf(generation: Generation) = GenerationResult(
    text = generation.text,
    thought = generation.thought,
    answer = generation.answer,
    tokenIds = generation.tokenIds,
    stopReason = checkNotNull(generation.stopReason) { "the generation ended" },
    stats = generation.statistics.stats(answers = 1),
    logprobs = generation.logprobs,
    droppedTurns = generation.droppedTurns,
    calls = generation.calls,
)
