package io.omnidraft

import io.omnidraft.chat.readMessages
import io.omnidraft.learning.online.LearningController
import io.omnidraft.session.Deliveries
import io.omnidraft.session.Generation
import io.omnidraft.session.Session
import io.omnidraft.session.sessionInUse
import java.io.File
import java.util.concurrent.Executor

/**
 * A text or a conversation on a bundle.
 *
 * One user at a time; a second user is refused at once. [cancel], [throttle], [dropDrafter], [loadDrafter], [stats] and
 * [notices] may be called from any thread at any time. Calls that write text block: none of them belongs on the main
 * thread.
 *
 * The functions with a callback return when the last callback is done. Callbacks run on the given executor, one after
 * another; the executor must not be the calling thread's own queue. A callback that throws cancels the generation, and
 * its error is thrown here.
 */
public class TextSession internal constructor(
    private val inner: Session,
    options: SessionOptions,
    private val publicKey: ByteArray?,
) : AutoCloseable {
    private val lock = Any() // of the next two, never held while something runs
    private var isBusy = false
    private var isClosed = false
    @Volatile private var isCancelled = false // also where the answer has not begun
    private val controller by lazy {
        LearningController(inner, options, publicKey, throttle = { inner.models.throttle.level })
    }

    /** Learning from the answers of this session; off until it is switched on. */
    public val learning: Learning get() = controller

    /** That the file of its cache was refused, or that the session loaded last was saved with another adapter. */
    public val notices: List<Notice> get() = inner.notices

    /**
     * The system prompt; applies to the next text. Null for none.
     *
     * @throws PromptException where it is set: the template has no place for one, or it is not a text.
     * @throws SessionException where it is set: another thread is using this session.
     */
    public var system: String?
        get() = inner.system
        set(value) {
            inner.system = value
        }

    /** Tokens that the target can read, the output included. */
    public val contextSize: Int get() = inner.contextSize

    /**
     * Tokens of the conversation or text so far; 0 after [undo] or [load], until the next answer. What is left of
     * [contextSize] is the room of the next message and answer.
     */
    public val contextUsed: Int get() = inner.contextUsed

    /** Counts since the conversation began or was loaded. */
    public val stats: Stats get() = inner.stats

    /**
     * Writes a text after a prompt, and forgets the text before.
     *
     * @throws PromptException the prompt is empty or too long; nothing changes.
     * @throws SettingException a setting outside its range; nothing changes.
     * @throws SessionException another thread is using this session.
     */
    public fun generate(
        prompt: String,
        config: GenerationConfig = GenerationConfig(),
        executor: Executor,
        grammar: Grammar? = null,
        onPiece: (Piece) -> Unit,
    ): GenerationResult = write(executor, onPiece) { inner.generate(prompt, config, grammar) }

    /**
     * Answers the next message of a conversation; see [generate] for the errors. A [grammar] of tools lists them in the
     * prompt, also for later messages; the result has the calls.
     */
    public fun chat(
        message: String,
        config: GenerationConfig = GenerationConfig(),
        executor: Executor,
        grammar: Grammar? = null,
        onPiece: (Piece) -> Unit,
    ): GenerationResult = write(executor, onPiece) { inner.chat(message, config, grammar) }

    /**
     * Answers the results of the tools that the last answer called.
     *
     * @param results one for each call, in the order of the calls.
     * @param grammar as for [chat]; null for an answer that is text.
     * @throws SessionException there are not as many results as calls.
     */
    public fun toolResults(
        results: List<String>,
        config: GenerationConfig = GenerationConfig(),
        executor: Executor,
        grammar: Grammar? = null,
        onPiece: (Piece) -> Unit,
    ): GenerationResult = write(executor, onPiece) { inner.toolResults(results, config, grammar) }

    /**
     * Answers the last message of a whole conversation, with or without a system prompt, which takes the place of the
     * session's own. Answers that this session gave keep the ids that were generated.
     */
    public fun chat(
        messages: List<ChatMessage>,
        config: GenerationConfig = GenerationConfig(),
        executor: Executor,
        grammar: Grammar? = null,
        onPiece: (Piece) -> Unit,
    ): GenerationResult = write(executor, onPiece) {
        inner.chat(readMessages(messages.map { it.role to it.content }), config, grammar)
    }

    /**
     * Answers the last message once more, in place of its answer. The random numbers are those of the config's seed, or
     * of a new one.
     *
     * @throws SessionException there is no message that was answered.
     */
    public fun regenerate(
        config: GenerationConfig = GenerationConfig(),
        executor: Executor,
        onPiece: (Piece) -> Unit,
    ): GenerationResult = write(executor, onPiece) { inner.regenerate(config) }

    /**
     * Continues an answer that a file holds unfinished. The result begins with the earlier output, the pieces do not.
     *
     * @throws SessionException there is none, or it had ended.
     */
    public fun resume(executor: Executor, onPiece: (Piece) -> Unit): GenerationResult =
        write(executor, onPiece) { inner.resume() }

    /**
     * Takes back the last message and all answers to it, also those to results, and returns the message.
     *
     * @throws SessionException there is no message.
     */
    public fun undo(): String = alone { inner.undo() }

    /** Ends the answer that is being written, within one run of a graph. The output so far stays. */
    public fun cancel() {
        isCancelled = true
        inner.answer?.let { if (it.stopReason == null) it.cancel() }
    }

    /**
     * Writes this session to a file, also between two pieces.
     *
     * @throws SessionFileException the place cannot be written, or holds a file that is not a session.
     */
    public fun save(file: File): Unit = inHeap { inner.save(file) }

    /**
     * Takes over a saved session of the same bundle.
     *
     * @throws SessionFileException the file is refused; this session stays as it was.
     */
    public fun load(file: File): Unit = alone { inner.load(file) }

    /**
     * Another session that goes on from here, also between two pieces: with the text, n-grams, adapters and settings of
     * this one, and with buffers of its own. It records nothing and learns nothing, and the models read its text again.
     * Its random numbers are the same, so both go on alike where the number of draft tokens is fixed.
     *
     * @throws BundleException `memory`; the device does not give the memory of its KV buffers.
     * @throws SessionException another thread is using this session.
     */
    public fun copy(): TextSession = inHeap { TextSession(inner.copy(), SessionOptions(), publicKey) }

    /** Forgets the conversation and its counts, not system prompt, tools and what was learned. */
    public fun reset(): Unit = alone { inner.reset() }

    /**
     * Writes the n-grams learned so far; a later session may begin with them.
     *
     * @throws CacheFileException the file cannot be written, or another file than a cache of this pair is there.
     */
    public fun saveCache(file: File) {
        inHeap { inner.saveCache(file) }
    }

    /**
     * Passes the thermal state on. 0: nothing changes; 1: no learning; 2: also a pause of one pass's length between
     * rounds; 3: paused until the level falls. Another number counts as the nearest of these.
     */
    public fun throttle(level: Int) {
        inner.models.throttle.level = level
    }

    /** Frees the drafter, between two rounds also of a running answer, which goes on without drafts. */
    public fun dropDrafter(): Unit = inner.models.dropDrafter()

    /**
     * Loads the drafter again, for the next generation.
     *
     * @throws SessionException the bundle was opened without the drafter.
     */
    public fun loadDrafter(): Unit = inHeap { inner.models.loadDrafter() }

    /** Frees the buffers; at the end of the call that is running, whose answer is cancelled. */
    override fun close() {
        val isFree = synchronized(lock) {
            isClosed = true
            !isBusy
        }
        if (isFree) free() else cancel()
    }

    private fun write(executor: Executor, onPiece: (Piece) -> Unit, begin: () -> Generation): GenerationResult = alone {
        val generation = begin()
        if (isCancelled) generation.cancel()
        Deliveries(executor, onPiece).deliver(generation)
    }

    private fun <T> alone(work: () -> T): T {
        synchronized(lock) {
            if (isClosed) throw SessionException("this session was closed", "open another one")
            if (isBusy) throw sessionInUse()
            isBusy = true
            isCancelled = false
        }
        try {
            return inHeap(work)
        } finally {
            val wasClosed = synchronized(lock) {
                isBusy = false
                isClosed
            }
            if (wasClosed) free()
        }
    }

    private fun free() {
        controller.close()
        inner.close()
    }
}
