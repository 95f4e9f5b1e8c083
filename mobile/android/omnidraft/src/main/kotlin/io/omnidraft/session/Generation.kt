package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.Piece
import io.omnidraft.StopReason
import io.omnidraft.ToolCall
import io.omnidraft.chat.ThinkTags
import io.omnidraft.chat.ThoughtStream
import io.omnidraft.chat.splitThought
import io.omnidraft.decoding.Cancelled
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.StopText
import io.omnidraft.grammar.CallForm
import io.omnidraft.grammar.CallStream
import io.omnidraft.grammar.Constraint
import io.omnidraft.session.state.Statistics
import io.omnidraft.vocab.IntList

/* One answer while it is generated: rounds in, pieces of text out, and the reason why it ended. */

/** Where an output ends besides its stop strings; a constraint knows where nothing may follow. */
internal class Limits(val eosIds: Set<Int>, val maxLength: Int, val constraint: Constraint? = null)

/** What tells the thought of an output from the answer. */
internal class Thoughts(val tags: ThinkTags? = null, val inside: Boolean = false)

/** The output of a generation that an earlier process began; empty for a new generation. */
internal class Emitted(
    val tokenIds: IntArray = IntArray(0), // target ids of the output
    val logprobs: DoubleArray = DoubleArray(0), // of tokenIds, if they were asked for
    val stopReason: StopReason? = null, // why the output ended; null where it can continue
)

/** Runs the rounds of a generation on the models of its session. */
internal interface Rounds {
    /** The next round; null where there is none. */
    fun next(generation: Generation): Round?

    /** Waits between two rounds as long as the app asks for; see [Throttle]. */
    fun pause(generation: Generation)

    /** Ends the run of a graph that is going on; from any thread. */
    fun interrupt()
}

/** One answer: iterate over it for pieces of text, read its fields during and after. */
internal class Generation(
    private val rounds: Rounds,
    val config: GenerationConfig,
    val prompt: IntArray, // target ids of the prompt
    private val stopText: StopText,
    private val limits: Limits,
    private val thoughts: Thoughts = Thoughts(),
) : Iterator<Piece> {
    private val written = StringBuilder()
    private val ids = IntList()
    private var probabilities = DoubleArray(0)
    private val stream = thoughts.tags?.let { ThoughtStream(it, thoughts.inside) }
    private val pieces = ArrayDeque<Piece>() // of the last round, that were not given yet
    private var callForm: CallForm? = null // how calls of tools are written; null where the output has none
    private var callStream: CallStream? = null

    /** Oldest turns of the conversation that were left out for this answer. */
    var droppedTurns = 0

    /** Counts so far; replaced as a whole, so any thread may read them. */
    @Volatile var statistics: Statistics = Statistics()
        private set

    /** Why it ended; null before. */
    @Volatile var stopReason: StopReason? = null
        private set

    @Volatile var isCancelled: Boolean = false
        private set

    /**
     * The output so far, without stop string and end token. A tag of thoughts or calls that is a control token of the
     * target is written, too.
     */
    val text: String get() = written.toString()

    /**
     * Target ids of the output so far. An end token, or the token that completed the stop string, is the last of them
     * and counts.
     */
    val tokenIds: IntArray get() = ids.toArray()

    /** Natural log-probabilities of [tokenIds], if they were asked for. */
    val logprobs: DoubleArray get() = probabilities.copyOf()

    /** Whether the output begins inside a thought, because the prompt ends with the open tag. */
    val beginsInside: Boolean get() = thoughts.inside

    /** What the model thought before its answer, without the tags; empty for most models. */
    val thought: String get() = splitThought(uncalled, thoughts.tags, thoughts.inside).thought

    /** The text behind the thought and before calls of tools; empty while the model is thinking. */
    val answer: String get() = splitThought(uncalled, thoughts.tags, thoughts.inside).answer

    val calls: List<ToolCall> get() = callForm?.read(text).orEmpty()

    private val uncalled: String get() = callForm?.let { text.substring(0, it.start(text)) } ?: text

    /** Whether the output belongs to a grammar. */
    val hasGrammar: Boolean get() = limits.constraint != null

    val stopString: String? get() = stopText.matched

    /** The byte of the output at which the stop string began; null where no stop string ended it. */
    val stopStart: Int? get() = stopText.start

    /**
     * Ends this generation within one operator of a graph; from any thread.
     *
     * The output so far stays, and the session continues from there.
     */
    fun cancel() {
        isCancelled = true
        rounds.interrupt()
    }

    /** Reads the output as a text that may call tools; before the first round. */
    fun readCalls(form: CallForm) {
        callForm = form
        callStream = CallStream(form)
    }

    override fun hasNext(): Boolean = pieces.isNotEmpty() || stopReason == null

    override fun next(): Piece {
        if (pieces.isEmpty()) pieces.addAll(roundPieces())
        // A cancelled generation that held nothing back ends with a piece without text.
        return pieces.removeFirstOrNull() ?: Piece("", IntArray(0), 0)
    }

    /** Runs a round; its text as pieces. The first piece has the ids. */
    private fun roundPieces(): List<Piece> {
        val started = seconds()
        if (statistics.rounds > 0) rounds.pause(this)
        val round = nextRound()
        if (round == null) {
            stopReason = StopReason.CANCELLED
            val rest = stopText.end()
            written.append(rest)
            return parts(rest).map { (text, kind) -> Piece(text, IntArray(0), 0, kind) }
        }
        ids.addAll(round.emitted)
        probabilities += round.logprobs
        val first = if (statistics.rounds == 0) seconds() - started else statistics.firstTokenSeconds
        statistics = statistics.with(round).copy(firstTokenSeconds = first)
        val ended = end()
        stopReason = ended
        val text = stopText.take() + if (ended == null) "" else stopText.end()
        written.append(text)
        val silent = if (stream?.isThinking == true) Piece.Kind.THOUGHT else Piece.Kind.TEXT
        return parts(text).ifEmpty { listOf("" to silent) }.mapIndexed { number, (part, kind) ->
            val isFirst = number == 0
            Piece(part, if (isFirst) round.emitted else IntArray(0), if (isFirst) round.accepted else 0, kind)
        }
    }

    /** Text that became certain, in parts of one kind; at the end all that was held back. */
    private fun parts(text: String): List<Pair<String, Piece.Kind>> {
        val (before, called) = callStream?.push(text) ?: (text to "")
        val said = before + if (stopReason == null) "" else callStream?.end().orEmpty()
        val parts = ArrayList<Pair<String, Piece.Kind>>()
        if (stream == null) {
            if (said.isNotEmpty()) parts.add(said to Piece.Kind.TEXT)
        } else {
            val ends = stopReason != null || called.isNotEmpty()
            val spoken = stream.push(said) + if (ends) stream.end() else emptyList()
            spoken.mapTo(parts) { it.text to if (it.isThought) Piece.Kind.THOUGHT else Piece.Kind.TEXT }
        }
        if (called.isNotEmpty()) parts.add(called to Piece.Kind.CALL)
        return parts
    }

    fun finish(): Generation {
        while (hasNext()) next()
        return this
    }

    /** Takes over earlier output of this generation; its text is not given again. */
    fun replay(emitted: Emitted) {
        ids.addAll(emitted.tokenIds)
        probabilities += emitted.logprobs
        stopReason = emitted.stopReason
        val text = stopText.take() + if (emitted.stopReason == null) "" else stopText.end()
        written.append(text)
        parts(text)
    }

    /** The next round; null where the generation was cancelled or an exception ended its rounds before. */
    private fun nextRound(): Round? = try {
        rounds.next(this)
    } catch (_: Cancelled) {
        null
    }

    /** Why the output ends with the last token so far; null where it may continue. */
    fun end(): StopReason? = when {
        stopString != null -> StopReason.STOP
        ids.size > 0 && ids[ids.size - 1] in limits.eosIds -> StopReason.EOS
        limits.constraint?.isComplete == true -> StopReason.COMPLETE
        else -> limit()
    }

    /** Which limit ends the output; null where none does. */
    fun limit(): StopReason? = when {
        ids.size >= config.maxNewTokens -> StopReason.LENGTH
        // The last token is never scored, so it needs no position.
        prompt.size + ids.size > limits.maxLength -> StopReason.CONTEXT
        else -> null
    }
}

private const val NANOSECONDS = 1e-9

/** Seconds of a clock that only goes forward, and stands still while the device sleeps where the system has such. */
internal fun seconds(): Double = System.nanoTime() * NANOSECONDS
