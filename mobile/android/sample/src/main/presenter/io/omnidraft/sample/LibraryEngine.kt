package io.omnidraft.sample

import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationResult
import io.omnidraft.LanguageModel
import io.omnidraft.Learning
import io.omnidraft.LoadOptions
import io.omnidraft.OmniDraft
import io.omnidraft.Piece
import io.omnidraft.SessionFileException
import io.omnidraft.SessionOptions
import io.omnidraft.Stats
import io.omnidraft.TextSession
import java.io.File
import java.util.concurrent.Executor

/**
 * The library, with the places of spec/08-phones.md.
 *
 * @param private the directory `omnidraft` below the files that are in no backup.
 * @param files the app's files, for sessions.
 * @param config of each answer; the mode is that of the speed.
 */
class LibraryEngine(
    private val private: File,
    private val files: File,
    private val config: GenerationConfig = GenerationConfig(maxNewTokens = 256),
) : Engine {
    override fun open(choice: Choice, onProgress: (Long, Long) -> Unit): Talk {
        val place = File(private, "bundles/${choice.name}")
        place.parentFile?.mkdirs()
        return open(OmniDraft.unpack(choice.source(), place, overwrite = true, onProgress), choice.name)
    }

    override fun openLearner(): Talk? {
        val name = learner.name ?: return null
        return open(File(private, "bundles/$name"), name)
    }

    private val learner = LearnerFile(File(private, "learner"))

    private fun open(place: File, name: String): Talk {
        // Without a place for the state each opening would hash all files and measure again.
        val model = OmniDraft.open(place, LoadOptions(state = File(private, "state")))
        return try {
            talk(model, name)
        } catch (error: Throwable) {
            model.close()
            throw error
        }
    }

    private fun talk(model: LanguageModel, name: String): Talk {
        val cache = File(private, "caches/$name.odc")
        val traces = File(private, "traces/$name")
        val saved = File(files, "omnidraft/sessions/$name.session")
        for (file in listOf(cache, traces, saved)) file.parentFile?.mkdirs()
        val session = model.session(SessionOptions(cache = cache, traces = traces))
        // The target is the manifest's last model.
        val manifest = File(private, "bundles/$name/manifest.json").readText().substringAfterLast("\"target\"")
        val form = manifest.substringAfter("\"quantization\"").split('"')[1]
        val learns = learner.name == name
        if (learns) session.learning.on()
        return LibraryTalk(model, session, cache, saved, resumed(session, saved), config, name, form, learner, learns)
    }

    /** Continues the conversation that was saved; a sentence if there is one, or why it is refused. */
    private fun resumed(session: TextSession, saved: File): String? {
        if (!saved.exists()) return null
        return try {
            session.load(saved)
            "the conversation before goes on"
        } catch (error: SessionFileException) {
            error.toString()
        }
    }
}

/** Which bundle learns in idle time: a process that the system starts for it finds the name here. */
private class LearnerFile(private val file: File) {
    var name: String?
        get() = if (file.exists()) file.readText() else null
        set(value) {
            if (value == null) file.delete() else file.writeText(value)
        }
}

private class LibraryTalk(
    private val model: LanguageModel,
    private val session: TextSession,
    private val cache: File,
    private val saved: File,
    resumed: String?,
    private val config: GenerationConfig,
    private val name: String,
    private val form: String,
    private val learner: LearnerFile,
    override val learns: Boolean,
) : Talk {
    override val notice: String? =
        ((model.notices + session.notices).map { it.message } + listOfNotNull(resumed)).joinToString("; ").ifEmpty { null }
    override val stats: Stats get() = session.stats
    override val learning: Learning get() = session.learning

    override fun answer(message: String, mode: Speed, executor: Executor, onPiece: (Piece) -> Unit): GenerationResult {
        val proposals = if (mode == Speed.PLAIN) GenerationConfig.Mode.PLAIN else GenerationConfig.Mode.TRIE
        val result = session.chat(message, config.copy(mode = proposals), executor, onPiece = onPiece)
        session.save(saved) // after each answer: the system may end the app at any time
        session.saveCache(cache)
        return result
    }

    override fun cancel() = session.cancel()

    override fun throttle(level: Int) = session.throttle(level)

    override fun dropDrafter() = session.dropDrafter()

    override fun loadDrafter() = session.loadDrafter()

    override fun learn(on: Boolean) {
        if (on) session.learning.on() else session.learning.off()
        learner.name = if (on) name else null
    }

    override fun benchmark(): Benchmark = model.session().use { session ->
        val (plain, drafted) = listOf(GenerationConfig.Mode.PLAIN, GenerationConfig.Mode.TRIE).map { mode ->
            val fixed = config.copy(mode = mode, ignoreEos = true, temperature = 0.0)
            session.generate(BENCHMARK_PROMPT, fixed, { it.run() }) {}.stats
        }
        Benchmark(name, form, plain, drafted)
    }

    override fun close() {
        session.close()
        model.close()
    }
}

private const val BENCHMARK_PROMPT = "How many legs do 3 cats and 2 birds have? Think step by step."
