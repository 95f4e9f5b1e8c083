package io.omnidraft.sample

import io.omnidraft.GenerationResult
import io.omnidraft.Learning
import io.omnidraft.Piece
import io.omnidraft.Stats
import java.util.concurrent.Executor

/** What the screen needs of the library; [LibraryEngine] is the library. */
interface Engine {
    /**
     * Unpacks a bundle, where it is not unpacked yet, and opens it; blocks. A name is of one bundle: another bundle
     * takes another name.
     *
     * @param onProgress bytes so far, and bytes in all.
     */
    fun open(choice: Choice, onProgress: (Long, Long) -> Unit): Talk

    /** Opens the bundle for which learning was switched on, as it was unpacked before; null where there is none. */
    fun openLearner(): Talk?
}

/** An open bundle with one session. */
interface Talk : AutoCloseable {
    /** Why the bundle runs without its drafter or on another provider; null if all is as asked for. */
    val notice: String?

    /** Counts of the conversation, also of the answer that runs; from any thread. */
    val stats: Stats

    /** Recording and learning; on where they were on when the bundle was used before. */
    val learning: Learning

    /** Whether learning is on, since it was on when the bundle was used before. */
    val learns: Boolean

    /** Records answers and learns from them, or stops and keeps what was learned. */
    fun learn(on: Boolean)

    /** Answers a message; blocks. Pieces come on [executor], all of them before this returns. */
    fun answer(message: String, mode: Speed, executor: Executor, onPiece: (Piece) -> Unit): GenerationResult

    /** Ends the answer after the pass that runs; from any thread. */
    fun cancel()

    /** Passes the thermal state on: 0 nothing, 1 no learning, 2 pauses, 3 waits; from any thread. */
    fun throttle(level: Int)

    /** Frees the drafter's memory; from any thread. */
    fun dropDrafter()

    /** Loads the drafter again, for the next answer. */
    fun loadDrafter()

    /** Writes one text of its own without drafts and with them; blocks. The conversation stays as it is. */
    fun benchmark(): Benchmark
}

/** With drafts or without; the text is the same at temperature 0. */
enum class Speed { SPECULATIVE, PLAIN }
