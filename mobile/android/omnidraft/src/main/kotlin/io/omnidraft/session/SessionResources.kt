package io.omnidraft.session

import io.omnidraft.Notice
import io.omnidraft.NoticeKind
import io.omnidraft.Stats
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.refuseRewritten
import io.omnidraft.chat.PromptTemplate
import io.omnidraft.chat.checkedText
import io.omnidraft.decoding.LengthState
import io.omnidraft.models.Adapter
import io.omnidraft.models.Role
import io.omnidraft.models.readAdapter
import io.omnidraft.session.state.Turn
import io.omnidraft.traces.TraceStore
import io.omnidraft.traces.Tracer
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap
import io.omnidraft.vocab.openCache
import io.omnidraft.vocab.tokenizer.Tokenizer
import io.omnidraft.vocab.writeCache
import java.io.File

/* What a session works with: models, n-grams, recorder, statistics, and the state of its text. */

/** The models, n-grams and recorder of a session, and the state of its text. */
internal open class SessionResources(
    val loaded: LoadedBundle, // shared with other sessions
    cache: File? = null, // a file of learned n-grams; a file that is absent or refused gives an empty cache
    adapter: File? = null,
    @Volatile var trace: TraceStore? = null, // where generations are recorded for training; null for nowhere
) : AutoCloseable {
    val models = SessionModels(loaded)

    @Volatile var text: TextState

    /** The text around messages; the bundle's compiled template. */
    val template: PromptTemplate get() = loaded.bundle.prompt

    /** That the file of the cache was refused, or that the session loaded last was saved with another adapter. */
    @Volatile var notices: List<Notice>
        protected set

    init {
        try {
            val opened = cache?.let { openCache(it, loaded.vocabMap) }
            notices = listOfNotNull(opened?.problem?.let { Notice(NoticeKind.EMPTY_CACHE, it) })
            text = TextState(opened?.cache ?: NgramCache(loaded.vocabMap), loaded.costs)
            if (adapter != null) useAdapter(readAdapter(adapter))
        } catch (error: Throwable) {
            models.close()
            throw error
        }
    }

    /** Whether a conversation leaves out its oldest turns where the context is too small for them and an answer. */
    var dropsOldest = false

    /** Tokens that the target can read, the output included. */
    val contextSize: Int get() = bundle.target.kv.maxLength

    /** Tokens of the text so far: the prompt or conversation, and the last output. */
    val contextUsed: Int get() = if (answer == null) 0 else text.decoder.tokens.size

    val bundle: Bundle get() = loaded.bundle

    val targetTokenizer: Tokenizer get() = loaded.targetTokenizer

    /** How the drafter's tokens spell the target's. */
    val vocabMap: VocabMap get() = loaded.vocabMap

    /** N-grams learned so far. */
    var cache: NgramCache
        get() = text.cache
        set(value) {
            text.cache = value
        }

    val answer: Generation? get() = text.answer

    /** The system prompt of texts that begin in the template; null for none. It applies to the next text. */
    var system: String?
        get() = text.system
        set(value) {
            if (value != null) {
                template.parts(1, true)
                checkedText(value, "the system prompt")
            }
            turn { text.system = value }
        }

    /** What was generated since the conversation began or was loaded, and the memory of this process. */
    val stats: Stats get() = text.stats

    val adapters: Map<Role, Adapter> get() = models.adapters

    /**
     * Uses an adapter from the next round on, also of a running generation; from any thread.
     *
     * No weights are loaded again; the model reads its context again. An adapter of the drafter changes speed only; an
     * adapter of the target changes the output.
     */
    fun useAdapter(adapter: Adapter?, role: Role? = null) = models.useAdapter(adapter, role)

    /** Writes the n-grams learned so far; no crash can spoil the file. */
    fun saveCache(file: File): File? = turn { writeCache(file, cache) }

    /** Forgets all learned n-grams, and how often drafts were accepted. */
    fun resetCache() {
        text.cache = NgramCache(vocabMap)
        text.lengths = LengthState()
    }

    /** Target ids of a prompt, inside the template and behind the system prompt. */
    fun encode(prompt: String): IntArray = conversationIds(targetTokenizer, template, emptyList(), Turn(prompt), system)

    /**
     * Runs something as the one user of the models, with the adapters that were given last.
     *
     * @param generates whether a text begins or goes on; then the files must be those that were loaded.
     * @throws io.omnidraft.SessionException another thread is using this session.
     * @throws io.omnidraft.BundleException a file of the bundle was written since it was loaded.
     */
    fun <T> turn(generates: Boolean = false, work: () -> T): T {
        if (generates) refuseRewritten(bundle.places, bundle.stamps)
        return turn(models, text.decoder, work)
    }

    /** Frees the models; the session cannot be used any more. */
    override fun close() = models.close()

    protected fun recording(): Recording? {
        val store = trace ?: return null
        return Recording(store, Tracer(vocabMap, { store.isRecording }))
    }
}
