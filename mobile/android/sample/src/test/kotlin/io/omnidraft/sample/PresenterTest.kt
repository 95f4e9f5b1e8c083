package io.omnidraft.sample

import io.omnidraft.BundleSource
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File

class PresenterTest {
    @TempDir
    lateinit var folder: File

    private val question = "How many legs do 3 cats have?"

    @Test
    fun `a bundle is unpacked, opened and answers`() = Desk(folder).watch().use { desk ->
        desk.open()
        assertEquals("", desk.screen.notice)
        assertEquals(listOf(Phase.EMPTY, Phase.OPENING, Phase.READY), desk.told.map { it.phase }.distinct())
        assertEquals(1f, desk.told.mapNotNull { it.progress }.last())
        val text = desk.answer(question)
        assertTrue(text.isNotEmpty())
        assertTrue(desk.screen.spans.drop(1).any { it.drafted > 0 })
        assertTrue(desk.screen.acceptance.all { it in 0f..1f } && desk.screen.acceptance.size > 1)
        assertTrue(desk.screen.tokensPerSecond.getValue(Speed.SPECULATIVE) > 0)
        assertEquals(desk.told.last().text, "> $question\n$text")
    }

    @Test
    fun `the text is the same without drafts, and both speeds are shown`() {
        val drafted = Desk(File(folder, "a")).open().use { it.answer(question) }
        Desk(File(folder, "b")).open().use { desk ->
            assertEquals(drafted, desk.answer(question, Speed.PLAIN))
            assertTrue(desk.screen.spans.all { it.drafted == 0f })
            desk.answer("And 4 dogs?")
            assertEquals(setOf(Speed.PLAIN, Speed.SPECULATIVE), desk.screen.tokensPerSecond.keys)
            val line = "starter - with drafts [0-9.]+ tokens/s - without [0-9.]+ tokens/s - [0-9.]+ times"
            assertTrue(Regex(line).matches(status(desk.screen)), status(desk.screen))
        }
    }

    @Test
    fun `a benchmark is one line of figures and leaves the conversation`() = Desk(folder).open().use { desk ->
        val text = desk.answer(question)
        desk.presenter.benchmark("A \"B\" C", 8)
        val line = desk.until { it.benchmark != null }.benchmark!!
        val figures = "\"(plain|drafted)_tokens_per_second\": [0-9.]+, "
        val start = Regex.escape("""{"device": "A \"B\" C", "cores": 8, "bundle": "starter", "form": "fp32", """)
        assertTrue(Regex("$start($figures){2}.*\"peak_memory\": [0-9]+, \"heat\": 0}").matches(line), line)
        assertEquals(Phase.READY, desk.screen.phase)
        assertEquals("> $question\n$text", desk.screen.text)
    }

    @Test
    fun `a rotation in the middle of an answer loses no text`() {
        val whole = Desk(File(folder, "a")).open().use { it.answer(question) }
        Desk(File(folder, "b")).open().use { desk ->
            val first = ArrayList<Screen>()
            desk.presenter.attach { first.add(it) }
            desk.presenter.send(question, Speed.SPECULATIVE)
            desk.until { it.spans.size > 2 }
            desk.presenter.detach()
            val seen = first.size
            desk.until { it.spans.size > 4 }
            assertEquals(seen, first.size)
            desk.watch()
            assertEquals(desk.screen, desk.told.single())
            desk.until { it.phase == Phase.READY }
            assertEquals("> $question\n$whole", desk.told.last().text)
        }
    }

    @Test
    fun `a cancelled answer keeps its text, and the conversation goes on`() {
        val whole = Desk(File(folder, "a"), 200).open().use { it.answer(question) }
        Desk(File(folder, "b"), 200).open().use { desk ->
            desk.presenter.send(question, Speed.SPECULATIVE)
            desk.until { it.spans.size > 2 }
            desk.presenter.cancel()
            val text = desk.until { it.phase == Phase.READY }.text.removePrefix("> $question\n")
            assertTrue(whole.startsWith(text) && text.isNotEmpty(), "$text is no beginning of $whole")
            assertTrue("cancelled" in desk.screen.notice || text == whole)
            assertTrue(desk.answer("And 4 dogs?").isNotEmpty())
            assertTrue(desk.screen.text.startsWith("> $question\n$text"))
        }
    }

    @Test
    fun `a refused bundle is one sentence, and the next one opens`() = Desk(folder).use { desk ->
        val bad = File(folder, "bad.zip").apply { writeText("no archive") }
        desk.presenter.open(Choice("bad") { BundleSource.Archive(bad) })
        assertEquals(Phase.EMPTY, desk.until { it.notice.isNotEmpty() }.phase)
        desk.presenter.open(download("http://example.org/a.zip", "12", "ab"))
        assertTrue("https" in desk.until { it.title == "a" && it.notice.isNotEmpty() }.notice)
        desk.presenter.send(question, Speed.PLAIN)
        assertEquals("", desk.settle().text)
        assertEquals(Phase.READY, desk.open().screen.phase)
    }

    @Test
    fun `without the drafter the text is the same, and it can be loaded again`() {
        val whole = Desk(File(folder, "a")).open().use { it.answer(question) }
        Desk(File(folder, "b")).open().use { desk ->
            desk.presenter.send(question, Speed.SPECULATIVE)
            desk.until { it.spans.size > 2 }
            desk.presenter.lowMemory()
            assertFalse(desk.screen.hasDrafter)
            assertEquals("> $question\n$whole", desk.until { it.phase == Phase.READY }.text)
            desk.presenter.loadDrafter()
            assertTrue(desk.settle().hasDrafter)
            assertTrue(desk.answer("And 4 dogs?").isNotEmpty())
            desk.presenter.detach()
            desk.presenter.lowMemory(isBehind = true)
            assertFalse(desk.settle().hasDrafter)
            desk.watch()
            assertTrue(desk.settle().hasDrafter)
        }
    }

    @Test
    fun `heat pauses an answer until it falls`() = Desk(folder).open().use { desk ->
        desk.presenter.thermal(4)
        assertEquals(3, desk.screen.heat)
        assertTrue(status(desk.screen).endsWith("too hot: waiting"))
        desk.presenter.send(question, Speed.SPECULATIVE)
        desk.presenter.thermal(0)
        assertTrue(desk.until { it.phase == Phase.READY }.text.length > question.length + 3)
        assertEquals(listOf(0, 0, 1, 2, 3, 3, 3, 3), (0..7).map { desk.presenter.thermal(it).let { desk.screen.heat } })
    }

    @Test
    fun `another bundle takes the place of one that answers`() = Desk(folder).open().use { desk ->
        desk.presenter.send(question, Speed.SPECULATIVE)
        desk.until { it.spans.size > 2 }
        desk.presenter.open(Choice("second") { BundleSource.Archive(Desk.ARCHIVE) })
        desk.until { it.phase == Phase.READY && it.title == "second" }
        assertEquals("", desk.settle().text)
        assertTrue(desk.answer(question).isNotEmpty())
    }

    @Test
    fun `learning is a switch, and wiping deletes what was recorded`() = Desk(folder).open().use { desk ->
        val traces = File(folder, "private/traces/starter")
        assertFalse(desk.screen.isLearning)
        desk.answer(question)
        assertEquals(0, traces.list().orEmpty().size)
        desk.presenter.learn(true)
        assertTrue(desk.settle().isLearning)
        desk.answer("And 4 dogs?")
        assertTrue(traces.list()!!.isNotEmpty())
        desk.presenter.wipe()
        assertFalse(desk.settle().isLearning)
        assertEquals(0, traces.list().orEmpty().size)
    }

    @Test
    fun `a job learns in a process that opened no bundle, where learning was switched on`() {
        Desk(folder).open().use { desk ->
            desk.presenter.learn(true)
            desk.answer(question)
        }
        Desk(folder).use { desk ->
            val ends = ArrayList<Boolean>()
            desk.presenter.learnInIdleTime(60.0) { ends.add(it) }
            desk.until { ends.isNotEmpty() }
            assertEquals(Phase.READY, desk.screen.phase)
            assertEquals(listOf(false), ends, "one answer is no batch: nothing is left to learn from")
            desk.presenter.endIdleLearning()
            desk.presenter.learnInIdleTime(60.0) { ends.add(it) }
            desk.until { ends.size == 2 }
            assertFalse(ends[1], "a job begins after another one was ended")
            val learned = File(folder, "private/traces/starter.learned").also { it.deleteRecursively() }
            learned.writeText("no directory")
            desk.presenter.learnInIdleTime(60.0) { ends.add(it) }
            desk.until { ends.size == 3 }
            assertFalse(ends[2], "a job that is refused is not asked for again and again")
            assertTrue("nothing can be learned" in desk.screen.notice, desk.screen.notice)
            learned.delete()
            desk.presenter.learn(false)
        }
        Desk(folder).use { desk ->
            val ends = ArrayList<Boolean>()
            desk.presenter.learnInIdleTime(60.0) { ends.add(it) }
            desk.until { ends.isNotEmpty() }
            assertEquals(listOf(false), ends)
            assertEquals(Phase.EMPTY, desk.screen.phase)
        }
    }

    @Test
    fun `a conversation goes on after the app was ended`() {
        Desk(folder).open().use { it.answer(question) }
        Desk(folder).open().use { desk ->
            assertTrue("goes on" in desk.screen.notice)
            assertTrue(desk.answer("And 4 dogs?").isNotEmpty())
        }
    }

    @Test
    fun `names of directories are safe`() {
        assertEquals("starter-a", nameOf("primary:Download/starter-a.zip"))
        assertEquals("bundle", nameOf("../.."))
        assertEquals("x".repeat(40), nameOf("x".repeat(99)))
    }
}
