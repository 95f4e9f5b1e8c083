package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.PromptException
import io.omnidraft.SessionException
import io.omnidraft.SessionOptions
import io.omnidraft.StopReason
import io.omnidraft.TextSession
import io.omnidraft.bundle.KvType
import io.omnidraft.bundle.NPU
import io.omnidraft.bundle.memoryNeed
import io.omnidraft.chat.readMessages
import io.omnidraft.conformance.Json
import io.omnidraft.conformance.bits
import io.omnidraft.conformance.bool
import io.omnidraft.conformance.int
import io.omnidraft.conformance.ints
import io.omnidraft.conformance.list
import io.omnidraft.conformance.noteRun
import io.omnidraft.conformance.nums
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.models.Weights
import io.omnidraft.session.state.TOO_LONG
import io.omnidraft.support.StarterBundles
import java.io.File
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicReference
import kotlin.concurrent.thread
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.TestInstance

/** Sessions on the starter bundles say what Python says, and keep the rules of spec/08-phones.md. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
internal class RealBundleTest {
    private val loaded = HashMap<String, LoadedBundle>()
    private val greedy = GenerationConfig(maxNewTokens = 48, numDraftTokens = 4)
    private val question = "How many legs do 3 cats have?"

    private fun bundle(name: String): LoadedBundle = loaded.getOrPut(name) { StarterBundles.load(name) }

    @AfterAll
    fun close() = loaded.values.forEach { it.close() }

    @TestFactory
    fun idsEqualThoseOfPython(): List<DynamicTest> = listOf("a", "b", "half").flatMap { name ->
        val content = StarterBundles.ids(name)
        content["runs"].list().map { it.obj() }.map { run ->
            DynamicTest.dynamicTest("$name: ${run["name"]}") { checkRun(bundle(name), name, run) }
        }
    }

    /** Static graphs, as accelerators take them, on the CPU. */
    @TestFactory
    fun idsOfStaticGraphsEqualThoseOfPython(): List<DynamicTest> =
        StarterBundles.ids("b")["static"].list().map { it.obj() }.map { run ->
            DynamicTest.dynamicTest("b: ${run["name"]}") { checkRun(statics, "b", run) }
        }

    private val statics: LoadedBundle by lazy { StarterBundles.load("b", NPU).also { loaded["static"] = it } }

    private fun checkRun(bundle: LoadedBundle, name: String, run: Json) {
        val place = StarterBundles.expected(name)
        val seeds = run["seeds"].list()
        val prompts = StarterBundles.ids(name)["prompts"].list().map { it.str() }.take(seeds.size)
        val cache = if (run["cache"].bool()) File(place, "cache.odc") else null
        val adapter = if (run["adapter"].bool()) File(place, "adapter.safetensors") else null
        Session(bundle, cache, adapter).use { session ->
            assertTrue(session.notices.isEmpty())
            for ((number, prompt) in prompts.withIndex()) {
                val config = StarterBundles.config(run["settings"].obj(), seeds[number].bits())
                val answer = session.generate(prompt, config).finish()
                assertArrayEquals(run["ids"].list()[number].ints(), answer.tokenIds) { "prompt $number" }
                assertEquals(run["texts"].list()[number].str(), answer.text)
                assertArrayEquals(run["logprobs"].list()[number].nums(), answer.logprobs, 1e-4)
            }
            if (bundle.bundle.target.place == null) noteRun("ids $name ${prompts.size}/${prompts.size}")
            val counts = with(session.stats) { listOf(rounds, drafted, evaluated, acceptedDrafts, learned) }
            assertEquals(run["counts"].list().map { it.int() }, counts)
        }
    }

    @TestFactory
    fun aSessionOfPythonGoesOn(): List<DynamicTest> = listOf("a", "b", "half").map { name ->
        DynamicTest.dynamicTest(name) {
            val due = StarterBundles.ids(name)["session"].obj()
            Session(bundle(name)).use { session ->
                session.load(File(StarterBundles.expected(name), "talk.session"))
                assertEquals(due["before"].int(), session.answer?.tokenIds?.size)
                assertArrayEquals(due["resumed"].ints(), session.resume().finish().tokenIds)
                val tokens = StarterBundles.ids(name)["tokens"].int()
                val config = GenerationConfig(maxNewTokens = tokens, numDraftTokens = 4)
                val after = session.chat(due["questions"].list()[2].str(), config).finish()
                assertArrayEquals(due["after"].ints(), after.tokenIds)
            }
        }
    }

    /** Static graphs keep float32. */
    @Test
    fun float16KeysAndValuesTakeHalfTheMemory() {
        val (half, full) = bundle("half").bundle to bundle("a").bundle
        assertEquals(full.target.kv.copy(type = KvType.FLOAT16), half.target.kv)
        assertEquals(full.target.kvBytes, 2 * half.target.kvBytes)
        assertEquals(full.target.kvBytes / 2, memoryNeed(full).kv - memoryNeed(half).kv)
        val place = bundle("b").bundle.target.places.getValue(NPU)
        assertEquals(full.target.kv.copy(maxLength = place.kvLength), half.target.kv.of(place))
    }

    @Test
    fun cancelFromAnotherThreadKeepsTheOutputSoFar() {
        Session(bundle("a")).use { session ->
            val whole = session.generate(question, greedy).finish().tokenIds
            val answer = session.generate(question, greedy.copy(maxNewTokens = 400, ignoreEos = true))
            val begun = CountDownLatch(1)
            val other = thread {
                begun.await()
                answer.cancel()
                answer.cancel()
            }
            while (answer.hasNext()) {
                answer.next()
                begun.countDown()
                if (answer.tokenIds.size > 8) other.join() // else a fast machine ends the answer first
            }
            assertEquals(StopReason.CANCELLED, answer.stopReason)
            val common = minOf(whole.size - 1, answer.tokenIds.size) // an end token ends the first answer
            assertArrayEquals(whole.copyOf(common), answer.tokenIds.copyOf(common))
            assertArrayEquals(whole, session.generate(question, greedy).finish().tokenIds)
        }
    }

    @Test
    fun cancelBeforeTheFirstRoundAndDuringThePromptEndsTheAnswer() {
        Session(bundle("a")).use { session ->
            val whole = session.generate(question, greedy).finish().tokenIds
            val before = session.generate(question, greedy)
            before.cancel()
            assertEquals(0, before.finish().tokenIds.size)
            val long = session.generate("A cat has four legs. ".repeat(90), greedy)
            val canceller = thread {
                Thread.sleep(3) // in the middle of some passes, or before them
                long.cancel()
            }
            long.finish()
            canceller.join()
            assertNotNull(long.stopReason)
            assertArrayEquals(whole, session.generate(question, greedy).finish().tokenIds)
        }
    }

    @Test
    fun twoSessionsInTwoThreadsSayWhatEachSaysAlone() {
        val configs = listOf(1L, 2L).map { GenerationConfig(48, 1.0, seed = it, numDraftTokens = 4) }
        val alone = configs.map { config -> answers(config) }
        val together = configs.map { AtomicReference<List<List<Int>>>() }
        val threads = configs.mapIndexed { number, config -> thread { together[number].set(answers(config)) } }
        threads.forEach { it.join() }
        assertEquals(alone, together.map { it.get() })
    }

    private fun answers(config: GenerationConfig): List<List<Int>> = Session(bundle("a")).use { session ->
        (1..6).map { session.generate("$question And $it dogs?", config).finish().tokenIds.asList() }
    }

    @Test
    fun aSecondUserIsRefusedAtOnce() {
        Session(bundle("a")).use { session ->
            val refused = AtomicReference<Throwable>()
            session.turn {
                thread {
                    try {
                        session.generate(question, greedy)
                    } catch (error: SessionException) {
                        refused.set(error)
                    }
                }.join()
            }
            assertNotNull(refused.get())
            val old = session.generate(question, greedy)
            session.generate(question, greedy)
            assertThrows(SessionException::class.java) { old.next() }
        }
    }

    @Test
    fun aBundleWithoutADrafterCopies() {
        val alone = bundle("alone")
        assertNull(alone.drafter)
        assertEquals(memoryNeed(alone.bundle, drafter = false).total, memoryNeed(alone.bundle).total)
        val long = GenerationConfig(maxNewTokens = 96)
        val whole = Session(bundle("a")).use { it.generate(question, long).finish().tokenIds }
        Session(alone).use { session ->
            val answer = session.generate(question, long).finish()
            assertArrayEquals(whole, answer.tokenIds)
            assertTrue(answer.statistics.accepted > 0 && answer.statistics.drafted == 0)
            assertThrows(SessionException::class.java) { session.models.loadDrafter() }
        }
    }

    @Test
    fun droppingTheDrafterChangesNoGreedyText() {
        StarterBundles.load("a").use { own ->
            Session(own).use { session ->
                val long = greedy.copy(maxNewTokens = 64, ignoreEos = true)
                val whole = session.generate(question, long).finish().tokenIds
                session.resetCache()
                val answer = session.generate(question, long)
                repeat(2) { answer.next() }
                val drafted = answer.statistics.drafted
                assertTrue(drafted > 0)
                session.models.dropDrafter()
                session.models.dropDrafter()
                assertFalse(session.models.hasDrafter)
                assertArrayEquals(whole, answer.finish().tokenIds)
                assertEquals(drafted, answer.statistics.drafted)
                assertArrayEquals(whole, session.generate(question, long).finish().tokenIds)
                session.models.loadDrafter()
                val again = session.generate(question, long).finish()
                assertArrayEquals(whole, again.tokenIds)
                assertTrue(again.statistics.drafted > 0)
            }
        }
    }

    @Test
    fun theDrafterIsDroppedWhileItIsLoaded() {
        val (begun, goesOn) = CountDownLatch(1) to CountDownLatch(1)
        var loads = 0
        withDrafter({ if (++loads == 2) begun.countDown().also { goesOn.await() } }) { session ->
            session.models.dropDrafter()
            val loading = thread { session.models.loadDrafter() }
            begun.await()
            val dropping = thread { session.models.dropDrafter() }
            dropping.join(60_000)
            val waits = dropping.isAlive
            goesOn.countDown()
            loading.join()
            assertFalse(waits || session.models.hasDrafter)
            session.models.loadDrafter()
            assertTrue(session.models.hasDrafter)
        }
    }

    /** A session on starter a, whose drafter's graph is loaded behind [before]. */
    private fun withDrafter(before: () -> Unit, run: (Session) -> Unit) {
        val a = bundle("a")
        val drafter = SharedGraph {
            before()
            openWeights(a.bundle, a.bundle.drafter, 1, Loading())
        }
        val own = LoadedBundle(a.bundle, a.target, a.targetTokenizer, a.vocabMap, drafter, a.drafterTokenizer)
        drafter.use { Session(own).use(run) }
    }

    @Test
    fun aSessionThatIsClosedWhileItIsSavedIsFreedBehindIt() {
        var freed = 0
        val own = targetAlone { freed++ }
        val inner = Session(own)
        val session = TextSession(inner, SessionOptions(), null)
        inner.turn { // as that of `save`, which another thread runs
            session.close()
            own.close()
            assertEquals(0, freed)
        }
        assertEquals(1, freed)
        assertThrows(SessionException::class.java) { inner.turn {} }
    }

    @Test
    fun aSessionThatCannotBeginIsFreed() {
        var freed = 0
        val own = targetAlone { freed++ }
        val cache = object : File("cache.odc") {
            override fun getPath(): String = throw OutOfMemoryError() // as a large cache may
        }
        assertThrows(OutOfMemoryError::class.java) { Session(own, cache) }
        own.close()
        assertEquals(1, freed)
    }

    /** The target of starter a with weights of its own, which tell when they are freed. */
    private fun targetAlone(onFree: () -> Unit): LoadedBundle {
        val a = bundle("a")
        val weights = openWeights(a.bundle, a.bundle.target, 1, Loading())
        val watched = object : Weights by weights {
            override fun close() {
                onFree()
                weights.close()
            }
        }
        return LoadedBundle(a.bundle, SharedGraph { watched }, a.targetTokenizer, a.vocabMap, null, null)
    }

    @Test
    fun anAdapterTakenInTheMiddleOfAnAnswerChangesNoGreedyText() {
        val adapter = io.omnidraft.models.readAdapter(File(StarterBundles.expected("a"), "adapter.safetensors"))
        Session(bundle("a")).use { session ->
            val whole = session.generate(question, greedy).finish().tokenIds
            val answer = session.generate(question, greedy)
            answer.next()
            session.useAdapter(adapter)
            assertArrayEquals(whole, answer.finish().tokenIds)
            assertEquals(adapter.digest, session.models.digest(io.omnidraft.models.Role.DRAFTER))
            session.useAdapter(null)
            assertArrayEquals(whole, session.generate(question, greedy).finish().tokenIds)
            assertNull(session.models.digest(io.omnidraft.models.Role.DRAFTER))
        }
    }

    @Test
    fun aConversationThatIsTooLongNamesWhatHelps() {
        Session(bundle("a")).use { session ->
            val long = "word ".repeat(1500)
            fun remedy(chat: () -> Unit): String = assertThrows(PromptException::class.java) { chat() }.remedy
            assertEquals(TOO_LONG, remedy { session.chat(long, greedy) })
            val whole = session.chat(question, greedy).finish().tokenIds
            assertTrue("undo() takes the last one back, reset() begins" in remedy { session.chat(long, greedy) })
            val listed = readMessages(listOf("user" to long, "assistant" to "a", "user" to question))
            assertTrue("leave out earlier ones" in remedy { session.chat(listed, greedy) })
            assertArrayEquals(whole, session.answer?.tokenIds)
        }
    }

    @Test
    fun aConversationHasNoEndWhereTheOldestTurnsAreLeftOut() {
        assertEquals(listOf(0, 3, 3, 2, 1), listOf(
            firstKept(listOf(75, 60, 40, 20), 100, 25), firstKept(listOf(76, 60, 40, 20), 100, 999),
            firstKept(listOf(91, 80, 41, 20), 100, 10), firstKept(listOf(91, 80, 40, 20), 100, 10),
            firstKept(listOf(120, 110), 100, 10),
        ))
        Session(bundle("a")).use { session ->
            session.dropsOldest = true
            session.system = "Count."
            var dropped = 0
            val message = "word ".repeat(session.contextSize / 8)
            repeat(12) { number ->
                val answer = session.chat("$number $message", greedy).finish()
                dropped += answer.droppedTurns
                assertEquals(answer.prompt.size + answer.tokenIds.size, session.contextUsed)
                assertTrue(answer.prompt.size + greedy.maxNewTokens <= session.contextSize)
                assertEquals(number - dropped, session.text.turns.size)
            }
            assertTrue(dropped > 1)
        }
    }

    @Test
    fun throttlingChangesNoText() {
        Session(bundle("a")).use { session ->
            val whole = session.generate(question, greedy).finish().tokenIds
            session.models.throttle.level = 2
            assertArrayEquals(whole, session.generate(question, greedy).finish().tokenIds)
            val answer = session.generate(question, greedy)
            answer.next()
            session.models.throttle.level = 3
            val waiting = thread { answer.finish() }
            session.models.throttle.level = 0
            waiting.join()
            assertArrayEquals(whole, answer.tokenIds)
            val paused = session.generate(question, greedy)
            paused.next()
            session.models.throttle.level = 3
            val stopped = thread { paused.finish() }
            paused.cancel()
            stopped.join()
            assertEquals(StopReason.CANCELLED, paused.stopReason)
        }
    }
}
