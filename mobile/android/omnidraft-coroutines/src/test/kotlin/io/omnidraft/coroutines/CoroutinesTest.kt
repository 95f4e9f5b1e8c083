package io.omnidraft.coroutines

import io.omnidraft.ArchiveException
import io.omnidraft.BundleException
import io.omnidraft.BundleSource
import io.omnidraft.ChatMessage
import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationResult
import io.omnidraft.OmniDraft
import io.omnidraft.PromptException
import io.omnidraft.SessionException
import io.omnidraft.StopReason
import io.omnidraft.TextSession
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancel
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File

private const val QUESTION = "How many legs do 3 cats have?"
private const val MANY = 400
private const val SOME = 40 // fewer pieces than a flow buffers where nothing is said

class CoroutinesTest {
    private val few = GenerationConfig(maxNewTokens = 40, numDraftTokens = 4, ignoreEos = true)
    private val many = few.copy(maxNewTokens = MANY, mode = GenerationConfig.Mode.PLAIN)

    private val bundles: File by lazy {
        val place = System.getProperty("omnidraft.bundles")
        assumeTrue(place != null, "omnidraft.bundles is not set; scripts/android/bundles.sh makes the bundles")
        File(place)
    }

    @Test
    fun aFlowHasTheTextOfTheBlockingCall() {
        val answer = blocking { it.chat(QUESTION, few, { task -> task.run() }) {} }
        val results = ArrayList<GenerationResult>()
        assertEquals(answer, suspending { it.chat(QUESTION, few, onResult = results::add).toList().joinToString("") })
        assertEquals(listOf(answer), results.map { it.text })
        assertEquals(answer, suspending { it.chat(listOf(ChatMessage("user", QUESTION)), few).toList().joinToString("") })
        val text = blocking { it.generate(QUESTION, few, { task -> task.run() }) {} }
        assertEquals(text, suspending { it.generate(QUESTION, few).toList().joinToString("") })
    }

    @Test
    fun anAnswerBeginsWhenItIsCollected() = suspending { session ->
        val flow = session.chat(QUESTION, few)
        assertEquals(0, session.stats.answers)
        repeat(2) { flow.toList() }
        assertEquals(2, session.stats.answers)
    }

    @Test
    fun aCollectorThatStopsEndsTheAnswerAndTheSessionIsFree() = suspending { session ->
        assertEquals(2, session.chat(QUESTION, many).take(2).toList().size)
        assertTrue(session.stats.emitted < MANY, "${session.stats.emitted} tokens")
        assertTrue(session.chat(QUESTION, few).toList().isNotEmpty())
    }

    @Test
    fun aSlowCollectorMakesTheAnswerWait() = suspending { session ->
        val began = System.nanoTime()
        val some = many.copy(maxNewTokens = SOME)
        assertEquals(SOME, session.chat(QUESTION, some).toList().sumOf { it.tokenIds.size })
        val millis = (System.nanoTime() - began) / 1_000_000
        var isDone = false
        val reader = slowReader(session, some) { isDone = true }
        delay(3 * millis)
        assertFalse(isDone, "all $SOME tokens came without a collector, $millis ms")
        reader.cancelAndJoin()
        assertTrue(session.chat(QUESTION, few).toList().isNotEmpty())
    }

    @Test
    fun cancelEndsTheFlowWithoutAnError() = suspending { session ->
        val results = ArrayList<GenerationResult>()
        session.chat(QUESTION, many, onResult = results::add).collect { session.cancel() }
        assertEquals(listOf(StopReason.CANCELLED), results.map { it.stopReason })
    }

    @Test
    fun refusalsAndErrorsReachTheCollector() = suspending { session ->
        refused<PromptException> { session.chat("").toList() }
        refused<ArithmeticException> { session.chat(QUESTION, few).collect { throw ArithmeticException() } }
        val reader = slowReader(session)
        refused<SessionException> { session.chat(QUESTION, few).toList() }
        reader.cancelAndJoin()
        refused<BundleException> { OmniDraft.awaitOpen(bundles.resolve("absent")) }
    }

    @Test
    fun aCancelledUnpackingLeavesNoBundle(@TempDir folder: File): Unit = runBlocking {
        val archive = BundleSource.Archive(bundles.resolve("starter-a.zip"))
        val place = folder.resolve("bundle")
        launch { OmniDraft.awaitUnpack(archive, place) { _, _ -> cancel() } }.join()
        assertFalse(place.exists())
        assertEquals(place, OmniDraft.awaitUnpack(archive, place))
        refused<ArchiveException> { OmniDraft.awaitUnpack(BundleSource.Archive(folder.resolve("absent.zip")), folder.resolve("b")) }
    }

    private fun <T> suspending(work: suspend (TextSession) -> T): T = runBlocking {
        OmniDraft.awaitOpen(bundles.resolve("a")).use { model -> model.awaitSession().use { work(it) } }
    }

    private fun blocking(write: (TextSession) -> GenerationResult): String =
        OmniDraft.open(bundles.resolve("a")).use { model -> model.session().use { write(it).text } }

    /** A reader that does not come to its second piece; this returns when it has the first. */
    private suspend fun slowReader(
        session: TextSession,
        config: GenerationConfig = many,
        onResult: (GenerationResult) -> Unit = {},
    ): Job {
        val isRunning = CompletableDeferred<Unit>()
        return CoroutineScope(Dispatchers.Default).launch {
            session.chat(QUESTION, config, onResult = onResult).collect {
                isRunning.complete(Unit)
                awaitCancellation()
            }
        }.also { isRunning.await() }
    }

    private inline fun <reified T : Throwable> refused(crossinline work: suspend () -> Unit) {
        assertThrows(T::class.java) { runBlocking { work() } }
    }
}
