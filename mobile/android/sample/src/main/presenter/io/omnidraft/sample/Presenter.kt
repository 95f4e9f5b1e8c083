package io.omnidraft.sample

import io.omnidraft.GenerationResult
import io.omnidraft.OmniDraftException
import io.omnidraft.Piece
import io.omnidraft.Stats
import io.omnidraft.StopReason
import java.util.concurrent.Executor

/**
 * The logic of the screen, without Android: the state of a conversation, and the calls of the library.
 *
 * All its methods are called on the main thread. Blocking calls run on [worker], one after another; what they find out
 * comes back through [main]. The presenter outlives the screens: a new one attaches and shows the same state.
 *
 * @param worker one thread.
 * @param main runs tasks on the main thread, in order.
 * @param now seconds of a clock that only goes forward.
 */
class Presenter(
    private val engine: Engine,
    private val worker: Executor,
    private val main: Executor,
    private val now: () -> Double,
) {
    /** What the screen shows now. */
    var screen: Screen = Screen()
        private set

    private var show: ((Screen) -> Unit)? = null
    private var talk: Talk? = null
    private var openings = 0
    private var isDroppedBehind = false
    private var began = 0.0
    private var tokens = 0
    private var evaluated = 0
    private var accepted = 0

    /** A screen is there: it gets the state now and each time that it changes. */
    fun attach(show: (Screen) -> Unit) {
        this.show = show
        show(screen)
        if (isDroppedBehind) loadDrafter()
        isDroppedBehind = false
    }

    /** The screen is gone; what runs goes on. */
    fun detach() {
        show = null
    }

    /** Opens a bundle in place of the one before; an answer that runs is cancelled. */
    fun open(choice: Choice) {
        val opening = ++openings
        val old = talk
        talk = null
        old?.cancel()
        update { Screen(Phase.OPENING, choice.name, heat = heat) }
        worker.execute {
            old?.close()
            attempt({ engine.open(choice) { done, all -> main.execute { progress(opening, done, all) } } }) { opened -> readyIfLast(opening, opened) }
        }
    }

    private fun readyIfLast(opening: Int, opened: Talk) {
        if (opening == openings) ready(opened) else worker.execute { opened.close() }
    }

    /** Answers a message with or without drafts. */
    fun send(message: String, speed: Speed) {
        val talk = talk ?: return
        if (screen.phase != Phase.READY || message.isBlank()) return
        began = Double.NaN
        tokens = 0
        val lead = if (screen.spans.isEmpty()) "" else "\n\n"
        update { copy(phase = Phase.ANSWERING, spans = spans + Span("$lead> $message\n", 0f), notice = "") }
        worker.execute {
            attempt({ talk.answer(message, speed, main) { if (isOf(talk)) piece(it, speed, talk.stats) } }) { result ->
                if (isOf(talk)) answered(result)
            }
        }
    }

    /** Writes a text without drafts and with them, and shows the figures as one line. */
    fun benchmark(device: String, cores: Int) {
        val talk = talk ?: return
        if (screen.phase != Phase.READY) return
        update { copy(phase = Phase.ANSWERING, notice = "") }
        worker.execute {
            attempt({ talk.benchmark() }) { done ->
                if (isOf(talk)) update { copy(phase = Phase.READY, benchmark = done.line(device, cores, heat)) }
            }
        }
    }

    /** Ends the answer; what is there stays. */
    fun cancel() {
        talk?.cancel()
    }

    /** Records answers and learns from them, or stops and keeps what was learned. */
    fun learn(on: Boolean) {
        later({ learn(on) }) { copy(isLearning = on) }
    }

    /** Learns from the recorded answers for some seconds; for idle time. */
    fun study(seconds: Double) {
        val talk = talk ?: return
        if (!screen.isLearning) return
        worker.execute {
            attempt({ talk.learning.step(seconds) }) { outcome ->
                val use = if (outcome.uses) "a learned adapter is in use" else "no learned adapter is in use"
                val few = "nothing to learn from yet: a step takes eight recorded answers"
                val done = if (outcome.steps > 0) "${outcome.steps} steps of learning; $use" else few
                if (isOf(talk)) update { copy(notice = done) }
            }
        }
    }

    /**
     * Learns in idle time, also where no screen is there: the bundle that learns is opened, where none is open.
     *
     * @param then hears on the main thread whether something is left to learn at another time; not where it is refused.
     */
    fun learnInIdleTime(seconds: Double, then: (Boolean) -> Unit) {
        if (screen.phase == Phase.EMPTY) {
            val opening = ++openings
            worker.execute {
                attempt({ engine.openLearner() }) { opened -> if (opened != null) readyIfLast(opening, opened) }
            }
        }
        worker.execute { main.execute { learnInIdleTimeIfReady(seconds, then) } } // behind the opening
    }

    private fun learnInIdleTimeIfReady(seconds: Double, then: (Boolean) -> Unit) {
        val talk = talk
        if (talk == null || !screen.isLearning) return then(false)
        talk.throttle(screen.heat)
        worker.execute {
            var isLeft = false
            attempt({ isLeft = !talk.learning.step(seconds).isFinished }) {}
            main.execute { then(isLeft) }
        }
    }

    /** The system takes the device back: learning ends within one call of the step graph. */
    fun endIdleLearning() {
        talk?.throttle(maxOf(screen.heat, NO_LEARNING))
    }

    /** Deletes all that was recorded and learned. */
    fun wipe() {
        later({ learning.wipe().also { learn(false) } }) { copy(isLearning = false, notice = "all that was recorded and learned is deleted") }
    }

    /** The thermal status of Android, 0 (none) to 6 (shutdown). */
    fun thermal(status: Int) {
        val level = LEVELS[status.coerceIn(LEVELS.indices)]
        talk?.throttle(level)
        update { copy(heat = level) }
    }

    /**
     * The system is short of memory: the target goes on alone, with the same text.
     *
     * @param isBehind whether the app is in the background: then the next screen asks for the drafter again.
     */
    fun lowMemory(isBehind: Boolean = false) {
        val talk = talk ?: return
        if (!screen.hasDrafter) return
        isDroppedBehind = isBehind
        talk.dropDrafter()
        update { copy(hasDrafter = false, notice = "the drafter was dropped, since memory is low") }
    }

    /** The user asks for the drafter again. */
    fun loadDrafter() {
        later({ loadDrafter() }) { copy(hasDrafter = true, notice = "") }
    }

    /** The app leaves the foreground: a pass that runs ends, and no text is lost. */
    fun leave() {
        cancel()
    }

    private fun isOf(talk: Talk) = this.talk === talk

    private fun later(call: Talk.() -> Unit, change: Screen.() -> Screen) {
        val talk = talk ?: return
        worker.execute { attempt({ talk.call() }) { if (isOf(talk)) update(change) } }
    }

    /** Runs a blocking call on the worker's thread, and gives what it returns to the main thread. */
    private fun <T> attempt(call: () -> T, then: (T) -> Unit) {
        val value = try {
            call()
        } catch (error: OmniDraftException) {
            main.execute { refused(error.toString()) }
            return
        } catch (error: java.io.IOException) { // a file or a server of the user's choice
            main.execute { refused(error.message ?: error.javaClass.simpleName) }
            return
        }
        main.execute { then(value) }
    }

    private fun refused(notice: String) = update {
        copy(phase = if (talk == null) Phase.EMPTY else Phase.READY, progress = null, notice = notice)
    }

    private fun progress(opening: Int, done: Long, all: Long) {
        if (opening != openings || screen.phase != Phase.OPENING) return
        update { copy(progress = if (all > 0) (done.toDouble() / all).toFloat() else null) }
    }

    private fun ready(opened: Talk) {
        talk = opened
        evaluated = opened.stats.evaluated
        accepted = opened.stats.acceptedDrafts
        opened.throttle(screen.heat)
        val notice = opened.notice.orEmpty()
        update { copy(phase = Phase.READY, progress = null, notice = notice, isLearning = opened.learns) }
    }

    private fun piece(piece: Piece, speed: Speed, stats: Stats) {
        val ids = piece.tokenIds.size
        // The clock starts with the first piece, since reading the prompt is no decoding.
        if (began.isNaN()) began = now() else tokens += ids
        val seconds = now() - began
        val share = if (ids == 0) 0f else piece.drafted.toFloat() / ids
        update {
            copy(
                spans = if (piece.text.isEmpty()) spans else spans + Span(piece.text, share),
                tokensPerSecond = if (seconds > 0) tokensPerSecond + (speed to tokens / seconds) else tokensPerSecond,
                acceptance = (acceptance + newAcceptance(stats)).takeLast(MOST_ROUNDS),
            )
        }
    }

    /** The acceptance of the drafts since the last piece; none where none was verified. */
    private fun newAcceptance(stats: Stats): List<Float> {
        val verified = stats.evaluated - evaluated
        val share = (stats.acceptedDrafts - accepted).toFloat() / maxOf(verified, 1)
        evaluated = stats.evaluated
        accepted = stats.acceptedDrafts
        return if (verified > 0) listOf(share) else emptyList()
    }

    private fun answered(result: GenerationResult) = update {
        val notice = if (result.stopReason == StopReason.CANCELLED) "the answer was cancelled; its text stays" else ""
        copy(phase = Phase.READY, notice = notice)
    }

    private fun update(change: Screen.() -> Screen) {
        screen = screen.change()
        show?.invoke(screen)
    }

    private companion object {
        const val MOST_ROUNDS = 60
        const val NO_LEARNING = 1 // the throttle level

        // The throttle level of each status: none, light, moderate, severe, critical, emergency, shutdown.
        val LEVELS = intArrayOf(0, 0, 1, 2, 3, 3, 3)
    }
}
