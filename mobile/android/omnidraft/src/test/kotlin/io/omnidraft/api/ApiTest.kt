package io.omnidraft.api

import io.omnidraft.BundleException
import io.omnidraft.BundleSource
import io.omnidraft.ChatMessage
import io.omnidraft.ExecutionProvider
import io.omnidraft.GenerationConfig
import io.omnidraft.GrammarException
import io.omnidraft.LanguageModel
import io.omnidraft.LoadOptions
import io.omnidraft.NoticeKind
import io.omnidraft.OmniDraft
import io.omnidraft.Piece
import io.omnidraft.PromptException
import io.omnidraft.START
import io.omnidraft.SessionException
import io.omnidraft.SessionOptions
import io.omnidraft.SettingException
import io.omnidraft.StopReason
import io.omnidraft.session.openLoaded
import io.omnidraft.support.StarterBundles
import io.omnidraft.support.vectorGrammar
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import java.io.File
import java.nio.file.Files
import java.util.Collections
import java.util.concurrent.Executor
import java.util.concurrent.Executors
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.atomic.AtomicInteger

/** The interface of spec/08-phones.md, on a starter bundle. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
internal class ApiTest {
    private val work: File = Files.createTempDirectory("omnidraft").toFile()
    private val options = LoadOptions(state = File(work, "state"))
    private val bundle: LanguageModel by lazy { OmniDraft.open(StarterBundles.directory("a"), options) }
    private val here = Executor { it.run() }
    private val question = "How many legs do 3 cats have?"
    private val config = GenerationConfig(maxNewTokens = 40, numDraftTokens = 4)

    @AfterAll
    fun close() {
        bundle.close()
        work.deleteRecursively()
    }

    @Test
    fun piecesMakeTheResult() {
        bundle.session().use { session ->
            val pieces = ArrayList<Piece>()
            val result = session.generate(question, config, here) { pieces.add(it) }
            assertEquals(result.text, pieces.joinToString("") { it.text })
            assertEquals(result.tokenIds.asList(), pieces.flatMap { it.tokenIds.asList() })
            assertEquals(result.stats.accepted, pieces.sumOf { it.drafted })
            assertEquals(result.text, result.answer)
            assertEquals("", result.thought)
            assertEquals(result.tokenIds.size, result.stats.emitted)
            assertEquals(result.stats.rounds, session.stats.rounds)
            assertTrue(result.stats.tokensPerTargetPass > 1.0)
            assertTrue(checkNotNull(session.stats.peakMemory) > 0)
            assertEquals(0, result.logprobs.size)
        }
    }

    @Test
    fun callbacksComeOneAfterAnotherAlsoOnSeveralThreads() {
        val pool = Executors.newFixedThreadPool(4)
        bundle.session().use { session ->
            val pieces = Collections.synchronizedList(ArrayList<Piece>())
            val running = AtomicInteger()
            val result = session.generate(question, config, pool) {
                assertEquals(1, running.incrementAndGet())
                Thread.sleep(2)
                pieces.add(it)
                running.decrementAndGet()
            }
            assertEquals(result.text, pieces.joinToString("") { it.text }, "the last callback is done")
        }
        pool.shutdown()
    }

    @Test
    fun aCallbackThatThrowsCancels() {
        bundle.session().use { session ->
            val error = IllegalStateException("the screen is gone")
            val long = config.copy(maxNewTokens = 400, ignoreEos = true)
            val thrown = assertThrows(IllegalStateException::class.java) {
                session.generate(question, long, here) { throw error }
            }
            assertSame(error, thrown)
            assertTrue(session.stats.emitted < 200)
            val whole = session.generate(question, config, here) {}.tokenIds
            assertArrayEquals(whole, session.generate(question, config, here) {}.tokenIds)
        }
    }

    @Test
    fun anExecutorThatRefusesCancels() {
        val pool = Executors.newSingleThreadExecutor()
        pool.shutdown()
        bundle.session().use { session ->
            assertThrows(RejectedExecutionException::class.java) { session.generate(question, config, pool) {} }
            assertNotNull(session.generate(question, config, here) {}.stopReason)
        }
    }

    @Test
    fun aCallbackMayCancelAndClose() {
        val session = bundle.session()
        val long = config.copy(maxNewTokens = 400, ignoreEos = true)
        val cancelled = session.generate(question, long, here) { session.cancel() }
        assertEquals(StopReason.CANCELLED, cancelled.stopReason)
        session.cancel()
        val closed = session.generate(question, long, here) { session.close() }
        assertEquals(StopReason.CANCELLED, closed.stopReason)
        assertThrows(SessionException::class.java) { session.generate(question, config, here) {} }
        session.close()
    }

    @Test
    fun cancelAndCloseWhileAnAnswerBeginsEndIt() {
        val session = bundle.session()
        for (call in listOf(session::cancel, session::close)) {
            session.cancel() // of nothing
            assertTrue(session.generate(question, config, here) {}.stopReason != StopReason.CANCELLED)
            val messages = object : AbstractList<ChatMessage>() {
                override val size = 1
                override fun get(index: Int) = ChatMessage("user", question).also { call() } // while the prompt is made
            }
            assertEquals(StopReason.CANCELLED, session.chat(messages, config, here) {}.stopReason)
        }
        assertThrows(SessionException::class.java) { session.generate(question, config, here) {} }
    }

    @Test
    fun aClosedSessionDoesNotClaimItsTraces() {
        val options = SessionOptions(traces = File(work, "traces"))
        val before = bundle.session(options).use { it.learning }
        val never = bundle.session(options).also { it.close() }
        for (learning in listOf(before, never.learning)) {
            assertThrows(SessionException::class.java) { learning.on() }
            bundle.session(options).use { it.learning.on() }
        }
    }

    @Test
    fun aSecondUserIsRefusedAtOnce() {
        bundle.session().use { session ->
            val refusals = ArrayList<SessionException>()
            session.generate(question, config, here) {
                if (refusals.isEmpty()) {
                    refusals.add(assertThrows(SessionException::class.java) { session.chat(question, config, here) {} })
                }
            }
            assertEquals(1, refusals.size)
        }
    }

    @Test
    fun refusalsComeBeforeTheFirstPiece() {
        bundle.session().use { session ->
            val before = session.generate(question, config, here) {}.stats
            val never: (Piece) -> Unit = { throw AssertionError("a piece of a refused text") }
            assertThrows(PromptException::class.java) { session.generate("  ", config, here, onPiece = never) }
            assertThrows(PromptException::class.java) { session.generate("\ud800", config, here, onPiece = never) }
            assertThrows(PromptException::class.java) { session.generate("a b ".repeat(2000), config, here, onPiece = never) }
            val wrong = listOf(
                config.copy(topP = 1.5), config.copy(maxNewTokens = 0), config.copy(temperature = Double.NaN),
                config.copy(numDraftTokens = 49), config.copy(stop = listOf("")),
                config.copy(topK = -1), config.copy(minP = -0.1), config.copy(repetitionPenalty = 0.0),
                config.copy(stop = List(65) { "x" }),
            )
            for (each in wrong) {
                assertThrows(SettingException::class.java) { session.chat(question, each, here, onPiece = never) }
            }
            assertEquals(before.rounds, session.stats.rounds)
            assertThrows(SessionException::class.java) { session.undo() }
            assertThrows(SessionException::class.java) { session.regenerate(config, here, never) }
            assertThrows(SessionException::class.java) { session.resume(here, never) }
        }
    }

    @Test
    fun aConversation() {
        bundle.session().use { session ->
            session.system = "You count legs."
            val first = session.chat(question, config, here) {}
            val second = session.chat("And 4 dogs?", config, here) {}
            assertTrue(second.stats.read < first.stats.read + second.stats.emitted)
            assertArrayEquals(second.tokenIds, session.regenerate(config, here) {}.tokenIds)
            assertEquals("And 4 dogs?", session.undo())
            val listed = listOf(
                ChatMessage("system", "You count legs."), ChatMessage("user", question),
                ChatMessage("assistant", first.answer), ChatMessage("user", "And 4 dogs?"),
            )
            assertArrayEquals(second.tokenIds, session.chat(listed, config, here) {}.tokenIds)
            assertEquals("You count legs.", session.system)
            val wrong = listOf(ChatMessage("user", "a"), ChatMessage("user", "b"))
            assertThrows(PromptException::class.java) { session.chat(wrong, config, here) {} }
            session.reset()
            assertEquals(0, session.stats.answers)
        }
    }

    @Test
    fun aSavedAnswerGoesOn() {
        val (saved, cache) = File(work, "talk.session") to File(work, "learned.odc")
        val sampled = config.copy(temperature = 1.0, seed = -7)
        val whole = bundle.session().use { session ->
            var pieces = 0
            val result = session.chat(question, sampled, here) { if (++pieces == 3) session.save(saved) }
            session.saveCache(cache)
            result
        }
        bundle.session(SessionOptions(cache = cache)).use { session ->
            assertTrue(session.notices.isEmpty())
            session.load(saved)
            val resumed = session.resume(here) {}
            assertArrayEquals(whole.tokenIds, resumed.tokenIds)
            assertEquals(whole.text, resumed.text)
        }
    }

    @Test
    fun aRefusedCacheIsANoticeAndStays() {
        val (file, saved) = File(work, "letter.odc").apply { writeText("not a cache") } to File(work, "other.session")
        bundle.session(SessionOptions(cache = file)).use { session ->
            val notice = session.notices.single()
            assertEquals(NoticeKind.EMPTY_CACHE, notice.kind)
            assertTrue("$file" in notice.message) { notice.message }
            session.save(saved)
            session.load(saved)
            assertEquals(listOf(notice), session.notices)
        }
    }

    @Test
    fun aCopyGoesOnAlikeAndTheOriginalIsUntouched() {
        val sampled = config.copy(temperature = 1.0, seed = 7)
        val expected = bundle.session().use { unbroken ->
            unbroken.chat(question, config, here) {}
            listOf("And 4 dogs?", "And in all?").map { unbroken.chat(it, sampled, here) {}.tokenIds.asList() }
        }
        bundle.session().use { session ->
            session.chat(question, config, here) {}
            var copied = emptyList<List<Int>>()
            var pieces = 0
            val result = session.chat("And 4 dogs?", sampled, here) {
                if (++pieces == 3) {
                    session.copy().use { copy ->
                        assertEquals(0, copy.stats.answers)
                        assertEquals(session.contextUsed, copy.contextUsed)
                        copied = listOf(copy.resume(here) {}, copy.chat("And in all?", sampled, here) {})
                            .map { it.tokenIds.asList() }
                        assertThrows(SettingException::class.java) { copy.learning.on() }
                    }
                }
            }
            assertEquals(expected, copied)
            assertEquals(expected[0], result.tokenIds.asList())
            assertEquals(expected[1], session.chat("And in all?", sampled, here) {}.tokenIds.asList())
        }
    }

    @Test
    fun keptCostsOfAnotherSpeedAreMeasuredAgain() {
        val state = File(work, "speeds")
        val options = LoadOptions(state = state, threads = 2)
        fun opened() =
            LanguageModel(openLoaded(StarterBundles.directory("a"), options, measureSeconds = 60.0), options.publicKey)
        val plain = config.copy(mode = GenerationConfig.Mode.PLAIN, ignoreEos = true)
        for ((seconds, isKept) in listOf("3e112e0be826d695" to false, "408f400000000000" to true)) { // 1e-9 and 1000 s
            opened().close()
            val record = checkNotNull(File(state, "costs").listFiles()).single()
            record.writeText(record.readText().replace(Regex("\"target\":\\[[^]]*]"), "\"target\":[\"$seconds\"]"))
            opened().use { model -> model.session().use { it.generate(question, plain, here) {} } }
            assertEquals(isKept, record.exists())
        }
    }

    @Test
    fun anAnswerInAGrammarIsWhole() {
        val lists = vectorGrammar("lists.grammar")
        bundle.session().use { session ->
            for (temperature in listOf(0.0, 0.9, 1.5)) {
                val settings = GenerationConfig(maxNewTokens = 20, temperature = temperature, seed = 7)
                val result = session.chat(question, settings, here, lists) {}
                for (text in listOf(result.text, session.regenerate(settings, here) {}.text)) {
                    val end = checkNotNull(lists.read(START, text.toByteArray()), { text })
                    assertTrue(lists.isComplete(end), text)
                }
            }
            val file = File(work, "grammar.session")
            session.save(file)
            session.load(file)
            val refused = assertThrows(SessionException::class.java) { session.resume(here) {} }
            assertEquals("there is no unfinished generation to resume", refused.message)
            assertTrue(session.chat(question, config, here) {}.text.isNotEmpty())
        }
    }

    @Test
    fun toolsAreCalledAndTheirResultsAnswered() {
        val clock = vectorGrammar("clock.grammar")
        val file = File(work, "tools.session")
        val pieces = ArrayList<Piece>()
        val settings = GenerationConfig(maxNewTokens = 80, temperature = 1.0, seed = 7)
        val greedy = config.copy(mode = GenerationConfig.Mode.PLAIN)
        bundle.session().use { session ->
            val result = session.chat(question, settings, here, clock) { pieces.add(it) }
            val call = result.calls.single()
            assertEquals("clock", call.name)
            assertTrue(call.arguments.getValue("utc") is Boolean && call.arguments.size == 1 && call.id.isEmpty())
            assertTrue(result.answer.isEmpty() && pieces.all { it.kind == Piece.Kind.CALL || it.text.isEmpty() })
            session.save(file)
            assertThrows(SessionException::class.java) { session.toolResults(listOf("1", "2"), greedy, here) {} }
            val answer = session.toolResults(listOf("12"), greedy, here) {}
            assertTrue(answer.calls.isEmpty() && answer.text.isNotEmpty())
            val again = session.chat(question, greedy, here) {}
            bundle.session().use { other ->
                other.load(file)
                assertEquals(answer.text, other.toolResults(listOf("12"), greedy, here) {}.text)
                assertEquals(again.text, other.chat(question, greedy, here) {}.text)
            }
            session.undo()
            assertEquals(question, session.undo())
            assertThrows(SessionException::class.java) { session.toolResults(listOf("12"), greedy, here) {} }
            val refused = assertThrows(GrammarException::class.java) {
                session.chat(question, greedy, here, vectorGrammar("tools.grammar")) {}
            }
            assertEquals("calls", refused.fault)
        }
    }

    @Test
    fun aTextThatNothingMayFollowEndsAsComplete() {
        bundle.session().use { session ->
            val result = session.generate(question, config, here, vectorGrammar("way.grammar")) {}
            assertEquals("abcd", result.text)
            assertEquals(StopReason.COMPLETE, result.stopReason)
            val file = File(work, "complete.session")
            session.save(file)
            session.load(file)
        }
    }

    @Test
    fun aGrammarWithoutRoomChangesNothing() {
        bundle.session().use { session ->
            val before = session.chat(question, config, here) {}
            val refused = assertThrows(GrammarException::class.java) {
                session.chat("And 4?", config, here, vectorGrammar("doubled.grammar")) {}
            }
            assertEquals("room", refused.fault)
            assertEquals(question, session.undo())
            assertEquals(before.text, session.chat(question, config, here) {}.text)
        }
    }

    @Test
    fun tooLittleMemoryForTheDrafterOpensWithoutIt() {
        val refused = assertThrows(BundleException::class.java) { open(LoadOptions(freeMemory = 1000)) }
        assertEquals("memory", refused.fault)
        assertTrue(bundle.notices.isEmpty())
        var free = 1L shl 24
        var plain: LanguageModel? = null
        while (plain == null) { // the need without the drafter is the file's own; the step is small beside the drafter
            free += 1L shl 20
            plain = try {
                open(LoadOptions(freeMemory = free, state = options.state))
            } catch (error: BundleException) {
                assertEquals("memory", error.fault)
                null
            }
        }
        plain.use {
            val notice = it.notices.single()
            assertEquals(NoticeKind.NO_DRAFTER, notice.kind)
            assertTrue("${free / 1_000_000} MB are free" in notice.message) { notice.message }
            it.session().use { session ->
                val result = session.generate(question, config, here) {}
                assertEquals(0, result.stats.drafted)
                assertThrows(SessionException::class.java) { session.loadDrafter() }
                session.dropDrafter()
            }
        }
    }

    @Test
    fun aProviderThatIsNotThereFallsBackToTheCpu() {
        for (provider in listOf(ExecutionProvider.QNN, ExecutionProvider.NNAPI, ExecutionProvider.XNNPACK)) {
            open(LoadOptions(provider = provider, state = options.state)).use { other ->
                val notice = other.notices.single()
                assertEquals(NoticeKind.ON_CPU, notice.kind)
                assertTrue("$provider" in notice.message) { notice.message }
                other.session().use { assertNotNull(it.generate(question, config, here) {}.stopReason) }
            }
        }
    }

    @Test
    fun settingsOfOpeningAreChecked() {
        assertThrows(SettingException::class.java) { open(LoadOptions(threads = 4096)) }
        assertThrows(BundleException::class.java) { OmniDraft.open(File(work, "nothing")) }
        val archive = BundleSource.Archive(StarterBundles.directory("starter-a.zip"))
        val unpacked = OmniDraft.unpack(archive, File(work, "unpacked"))
        open(LoadOptions(state = options.state), unpacked).use { own ->
            own.session().use { assertFalse(it.generate(question, config, here) {}.text.isEmpty()) }
        }
    }

    private fun open(options: LoadOptions, directory: File = StarterBundles.directory("a")): LanguageModel =
        OmniDraft.open(directory, options)
}
