package io.omnidraft.conformance

import io.omnidraft.AdapterException
import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.NoticeKind
import io.omnidraft.SessionFileException
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.disk.parse
import io.omnidraft.disk.u32
import io.omnidraft.models.AdapterPlace
import io.omnidraft.models.Role
import io.omnidraft.models.encodeAdapter
import io.omnidraft.models.fit
import io.omnidraft.models.metadataOf
import io.omnidraft.models.readAdapter
import io.omnidraft.session.EarlierText
import io.omnidraft.session.Session
import io.omnidraft.session.VERSION
import io.omnidraft.session.draftContext
import io.omnidraft.session.state.SESSION_HEADER_BYTES
import io.omnidraft.session.state.asksDrafter
import io.omnidraft.session.state.decodeSession
import io.omnidraft.session.state.encodeSession
import io.omnidraft.session.state.sessionFile
import io.omnidraft.support.TableSessions
import io.omnidraft.support.adapterEntry
import io.omnidraft.support.modeOf
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import io.omnidraft.vocab.tokenizer.Tokenizer
import java.io.File
import java.nio.file.Files
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runs the folders `generate`, `logprobs`, `draft_prompt`, `adapter` and `session`. */
internal class SessionVectorsTest : VectorsRun() {
    private val baselines = listOf("match", "direct", "paper")

    @TestFactory
    fun generate(): List<DynamicTest> = folder("generate", ::runGeneration)

    @TestFactory
    fun logprobs(): List<DynamicTest> = folder("logprobs", ::runGeneration)

    @TestFactory
    fun draftPrompt(): List<DynamicTest> = folder("draft_prompt") { vector ->
        val given = vector.input
        val (target, drafter) = tokenizer(given["target"].str()) to tokenizer(given["drafter"].str())
        val before = given["before"]?.obj()?.let {
            // A mode for comparisons drafts as trie does, and only that counts here.
            val mode = if (it["mode"] in baselines) Mode.TRIE else modeOf(it["mode"])
            EarlierText(mode, it["tokens"].ints(), it["context"].ints())
        }
        val asks = GenerationConfig(mode = modeOf(given["mode"])).asksDrafter
        val context = if (asks) draftContext(target, drafter, given["prompt"].ints(), before) else IntArray(0)
        assertSame(vector, "context", vector.expected["context"], context)
    }

    @TestFactory
    fun validAdapters(): List<DynamicTest> = folder("adapter/valid") { vector ->
        val file = vector.file(vector.input["file"].str())
        val adapter = readAdapter(file)
        assertSame(vector, "metadata", vector.expected["metadata"], metadataOf(adapter))
        assertSame(vector, "shapes", vector.expected["shapes"], adapter.named.mapValues { it.value.shape })
        assertSame(vector, "tensors", vector.expected["tensors"], adapter.named.mapValues { nested(it.value) })
        assertSame(vector, "digest", vector.expected["digest"], adapter.digest)
        val isSame = encodeAdapter(adapter).contentEquals(file.readBytes())
        assertSame(vector, "canonical", vector.expected["canonical"], isSame)
    }

    @TestFactory
    fun invalidAdapters(): List<DynamicTest> = folder("adapter/invalid") { vector ->
        val file = vector.file(vector.input["file"].str())
        assertNull(unlessRefused(vector, AdapterException::class.java) { readAdapter(file) }, vector.why)
    }

    @TestFactory
    fun fittingAdapters(): List<DynamicTest> = folder("adapter/fit") { vector ->
        val given = vector.input
        val adapter = readAdapter(vector.file(given["file"].str()))
        val (drafter, target) = adapterEntry("drafter", given) to adapterEntry("target", given)
        val prints = listOf("draft_tokenizer", "target_tokenizer").map { given[it].str() }
        val place = AdapterPlace("vectors", drafter, target, prints[0], prints[1])
        val role = given["role"]?.let { asked -> Role.values().single { it.word == asked } }
        val (model, fitted) =
            unlessRefused(vector, AdapterException::class.java) { fit(adapter, place, role) } ?: return@folder
        assertSame(vector, "model", vector.expected["model"], model.word)
        assertSame(vector, "tensors", vector.expected["tensors"], fitted.tensors.mapValues { nested(it.value) })
    }

    @TestFactory
    fun validSessions(): List<DynamicTest> = folder("session/valid") { vector ->
        val file = vector.file(vector.input["file"].str())
        val data = file.readBytes()
        assertSame(vector, "state", vector.expected["state"], stateIn(data))
        val (decoded, cache) = decodeSession(data)
        assertSame(vector, "bytes", data, encodeSession(decoded, cache))
        TableSessions.session(vector.input).use { session ->
            session.load(file)
            val isOther = vector.expected["state"].obj()["identity"].obj()["drafter_adapter"] != null
            val kinds = if (isOther) listOf(NoticeKind.OTHER_ADAPTER) else emptyList()
            assertSame(vector, "notices", kinds, session.notices.map { it.kind })
            val saved = savedBy(session)
            assertSame(vector, "saved", asSaved(vector.expected["state"].obj(), saved), saved)
            val due = vector.expected["due"] ?: return@folder
            val output = vector.expected["state"].obj()["answer"].obj()["output"].ints()
            assertSame(vector, "due", output + due.ints(), session.resume().finish().tokenIds)
            val context = vector.expected["context"] ?: return@folder
            assertSame(vector, "the context that is saved at the end", context, savedBy(session)["answer"].obj()["context"])
        }
    }

    @TestFactory
    fun invalidSessions(): List<DynamicTest> = folder("session/invalid") { vector ->
        TableSessions.session(vector.input).use { session ->
            val before = listOf(session.text, session.trace, session.notices, session.cache.entries())
            assertNull(unlessRefused(vector, SessionFileException::class.java) { session.load(fileOf(vector)) }, vector.why)
            val after = listOf(session.text, session.trace, session.notices, session.cache.entries())
            assertSame(vector, "the session after a refusal", true, before == after)
        }
    }

    private fun tokenizer(file: String): Tokenizer {
        val name = file.removeSuffix(".json") + ".bin"
        return CompiledTokenizer.fromFile(File(File(ROOT, "tokenize"), name))
    }

    /** The file of a vector: a given one, or one with a right header around a given state. */
    private fun fileOf(vector: Vector): File {
        val given = vector.input
        if ("file" in given) return vector.file(given["file"].str())
        val state = if ("state_bytes" in given) given["state_bytes"].hex() else given["state"].str().toByteArray()
        val cache = vector.file("cache.bin").readBytes()
        val file = Files.createTempFile("omnidraft", ".session").toFile()
        file.deleteOnExit()
        file.writeBytes(sessionFile(state, cache))
        return file
    }

    private fun savedBy(session: Session): Json {
        val copy = File(Files.createTempDirectory("omnidraft").toFile(), "copy")
        session.save(copy)
        return stateIn(copy.readBytes()).also { copy.parentFile.deleteRecursively() }
    }

    /** The state that this session saves: it has no adapter, and it has a drafter. */
    private fun asSaved(state: Json, saved: Json): Json {
        val identity = state["identity"].obj() + ("drafter_adapter" to null)
        val answer = state["answer"]?.obj()?.let {
            if (it["context"] == null) it + ("context" to saved["answer"].obj()["context"]) else it
        }
        return state + mapOf("omnidraft" to VERSION, "identity" to identity, "answer" to answer)
    }

    private fun stateIn(data: ByteArray): Json {
        val end = SESSION_HEADER_BYTES + u32(data, 16).toInt()
        return parse(data.copyOfRange(SESSION_HEADER_BYTES, end)).obj()
    }

    private fun nested(tensor: FloatTensor): List<Any> =
        if (tensor.shape.size < 2) tensor.values.asList() else tensor.values.asList().chunked(tensor.shape[1])
}
