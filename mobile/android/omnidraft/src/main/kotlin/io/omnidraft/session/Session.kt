package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.NoticeKind
import io.omnidraft.PromptException
import io.omnidraft.SessionException
import io.omnidraft.chat.MessageList
import io.omnidraft.chat.ToolForm
import io.omnidraft.chat.checkUtf8
import io.omnidraft.chat.checkedText
import io.omnidraft.session.state.TOO_LONG
import io.omnidraft.session.state.Turn
import io.omnidraft.session.state.check
import io.omnidraft.traces.TraceStore
import java.io.File

/*
 * A session: one text or conversation on a loaded bundle, with the cache that learns from it.
 *
 * Threads: one generation at a time in a session; a second one at the same moment is refused. Different sessions may
 * run in different threads at once, also on the same LoadedBundle. Generation.cancel may be called from any thread.
 */

private const val UNDO = "shorten the message, or make room: undo() takes the last one back, reset() begins a new " +
    "conversation, and with dropsOldest the oldest ones are left out"
private const val LEAVE_OUT = "shorten the message, or leave out earlier ones"

/** What is to be answered: the turns of a conversation before [last], which has no answer, and its tools. */
private class Asked(val turns: List<Turn>, val last: Turn, val system: String?, val tools: String?) {
    val all: List<Turn> get() = turns + last
}

/** A conversation on a loaded bundle, with its KV buffers and n-gram cache; see [SessionResources]. */
internal class Session(
    loaded: LoadedBundle,
    cache: File? = null,
    adapter: File? = null,
    trace: TraceStore? = null,
) : SessionResources(loaded, cache, adapter, trace) {
    /** Forgets the conversation and its counts, not system prompt, tools and what was learned. */
    fun reset() = turn { text.forgetText() }

    /** Starts a text and forgets the last one. */
    fun generate(
        prompt: String,
        config: GenerationConfig = GenerationConfig(),
        grammar: Grammar? = null, // what the output must belong to
    ): Generation = turn(generates = true) {
        config.check()
        begin(encode(checkedText(prompt)), config, grammar)
    }

    /** The same after target ids. */
    fun generate(prompt: IntArray, config: GenerationConfig = GenerationConfig()): Generation = turn(generates = true) {
        config.check()
        begin(prompt, config)
    }

    /** Answers the next message of a conversation; the target reads only what is new in it. */
    fun chat(
        message: String,
        config: GenerationConfig = GenerationConfig(),
        grammar: Grammar? = null,
    ): Generation = turn(generates = true) {
        config.check()
        answerNext(Turn(checkedText(message)), config, grammar)
    }

    /** Answers the results of the tools that the last answer called, one for each call, in the order of the calls. */
    fun toolResults(
        results: List<String>,
        config: GenerationConfig = GenerationConfig(),
        grammar: Grammar? = null,
    ): Generation = turn(generates = true) {
        config.check()
        val calls = if (text.asked == null) 0 else answer?.calls?.size ?: 0
        if (calls == 0 || calls != results.size) {
            val message = "there are ${results.size} results of $calls calls"
            throw SessionException(message, "give one result for each call of the last answer")
        }
        results.forEach { checkUtf8(it, "the result") }
        answerNext(Turn("", results = results), config, grammar)
    }

    /**
     * The same with the whole conversation, with or without a system prompt, which takes the place of the session's
     * own. Answers that the session itself gave keep the ids that were generated.
     */
    fun chat(
        messages: MessageList,
        config: GenerationConfig = GenerationConfig(),
        grammar: Grammar? = null,
    ): Generation = turn(generates = true) {
        config.check()
        val turns = listedTurns(loaded, messages, finishedTurns())
        val asked = Asked(turns, Turn(messages.message), messages.system, toolsOf(grammar))
        answer(asked, config, LEAVE_OUT, grammar)
    }

    /** Answers the last message once more, in place of its answer, in the same grammar. */
    fun regenerate(config: GenerationConfig = GenerationConfig()): Generation = turn(generates = true) {
        config.check()
        val turns = finishedTurns()
        if (turns.isEmpty()) throw SessionException("there is no answer to generate again", "begin with a message")
        val last = Turn(turns.last().message, results = turns.last().results)
        val grammar = if (text.asked == null) null else text.wanted
        answer(Asked(turns.dropLast(1), last, system, text.tools), config, grammar = grammar)
    }

    /** Takes back the last message and all answers to it, those to results of tools too; what was learned stays. */
    fun undo(): String = turn {
        val turns = finishedTurns().dropLastWhile { it.results.isNotEmpty() }
        if (turns.isEmpty()) throw SessionException("there is no message to take back", "begin with one")
        text.turns = turns.dropLast(1)
        text.asked = null
        text.begin(null)
        turns.last().message
    }

    /**
     * Continues the generation that a session was saved in.
     *
     * Its text and ids begin with the earlier output; the statistics count from here.
     */
    fun resume(): Generation = turn(generates = true) {
        val before = answer
        if (before == null || before.stopReason != null) {
            throw SessionException("there is no unfinished generation to resume", "start one")
        }
        if (before.hasGrammar) {
            throw SessionException("an output in a grammar is resumed by its own iterator", "iterate over it")
        }
        val emitted = Emitted(before.tokenIds, before.logprobs)
        val context = text.decoder.context.toArray()
        val generation =
            generateFromState(models, text, before.config, before.prompt, context, emitted, recording())
        text.begin(generation)
        generation
    }

    /**
     * Writes this session to a file, also between the pieces of a generation (spec/09-session.md).
     *
     * A kill at any moment leaves a whole file, the old or the new one.
     */
    fun save(file: File) = turn {
        val (saved, cache) = capture(models, text)
        writeSession(file, saved, cache)
    }

    /**
     * Takes over a saved session of the same bundle. The models read its text again.
     *
     * What follows has the distribution that it would have had; at temperature 0 in float32 it is the same text.
     */
    fun load(file: File) = turn {
        val (saved, cache) = readSession(file)
        val (restored, notice) = restore(models, text, file, saved, cache)
        text = restored
        notices = notices.filter { it.kind != NoticeKind.OTHER_ADAPTER } + listOfNotNull(notice)
    }

    /**
     * Another session that goes on from here, also between the pieces of a generation. It has the text, n-grams,
     * adapters and settings of this one, and contexts of its own, so its models read the text again. It records nothing.
     */
    fun copy(): Session {
        val (captured, wanted) = turn { capture(models, text) to text.wanted }
        val (saved, cache) = captured
        val other = Session(loaded)
        try {
            other.dropsOldest = dropsOldest
            adapters.forEach { (role, adapter) -> other.useAdapter(adapter, role) }
            other.text = restore(other.models, other.text, File("the session"), saved, cache).first
            other.text.wanted = wanted
            return other
        } catch (error: Throwable) {
            other.close()
            throw error
        }
    }

    private fun begin(ids: IntArray, config: GenerationConfig, grammar: Grammar? = null): Generation {
        val generation = generateFromPrompt(models, text, ids, config, recording(), grammar = grammar)
        text.turns = emptyList()
        text.asked = null
        return generation
    }

    private fun answerNext(next: Turn, config: GenerationConfig, grammar: Grammar?): Generation =
        answer(Asked(finishedTurns(), next, system, toolsOf(grammar) ?: text.tools), config, grammar = grammar)

    /** Begins the answer to a message; nothing changes where it is refused. */
    private fun answer(
        asked: Asked,
        config: GenerationConfig,
        tooLong: String = UNDO, // the remedy where there are earlier turns and the context cannot hold them all
        grammar: Grammar? = null,
    ): Generation {
        val tools = if (asked.tools == null && asked.all.all { it.results.isEmpty() }) null
        else ToolText(toolForm(), asked.tools.orEmpty(), bundle.prompt.begin, loaded.outputText::text)
        fun idsOf(kept: List<Turn>) = conversationIds(targetTokenizer, template, kept, asked.last, asked.system, tools)
        val dropped = if (dropsOldest) turnsToDrop(asked, config) { idsOf(it).size } else 0
        val kept = asked.turns.drop(dropped)
        val remedy = if (kept.isEmpty()) TOO_LONG else tooLong
        val generation = generateFromPrompt(models, text, idsOf(kept), config, recording(), remedy, grammar)
        generation.droppedTurns = dropped
        text.turns = kept
        text.asked = asked.last
        text.system = asked.system
        text.tools = asked.tools
        text.wanted = grammar
        return generation
    }

    private fun turnsToDrop(asked: Asked, config: GenerationConfig, size: (List<Turn>) -> Int): Int {
        if (size(asked.turns) + config.maxNewTokens.toLong() <= contextSize) return 0
        // Results stay with the calls that they belong to.
        val starts = asked.all.indices.filter { asked.all[it].results.isEmpty() }
        val sizes = starts.map { size(asked.turns.drop(it)) }
        return starts[firstKept(sizes, contextSize, config.maxNewTokens)]
    }

    private fun toolForm(): ToolForm = bundle.prompt.toolForm ?: throw PromptException(
        "this model has no chat template that tools could be listed in",
        "use another model, or describe the call in the message and give a grammar",
    )

    /** The tools that a grammar lists; null for another one. */
    private fun toolsOf(grammar: Grammar?): String? {
        if (grammar == null || grammar.tools.isEmpty()) return null
        if (toolForm().calls.fits(grammar)) return grammar.tools
        val message = "the grammar calls tools in another form than this bundle"
        throw GrammarException("calls", message, "compile it for this bundle")
    }

    /** All turns so far, with the last answer as far as it went. */
    private fun finishedTurns(): List<Turn> {
        val asked = text.asked ?: return text.turns
        val answer = answer ?: return text.turns
        return text.turns + Turn(asked.message, answerIds(loaded, answer), asked.results)
    }
}
