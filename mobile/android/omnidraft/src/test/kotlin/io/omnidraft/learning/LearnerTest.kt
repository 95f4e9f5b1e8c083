package io.omnidraft.learning

import io.omnidraft.BundleException
import io.omnidraft.SessionException
import io.omnidraft.SettingException
import io.omnidraft.bundle.inDirectory
import io.omnidraft.conformance.list
import io.omnidraft.conformance.num
import io.omnidraft.conformance.obj
import io.omnidraft.disk.parse
import io.omnidraft.learning.online.AdaptOptions
import io.omnidraft.learning.online.Adaptation
import io.omnidraft.learning.online.Adapted
import io.omnidraft.learning.online.IntervalEvent
import io.omnidraft.learning.online.LearnedDirectory
import io.omnidraft.learning.online.SessionUser
import io.omnidraft.learning.online.onlineOptions
import io.omnidraft.learning.step.FloatValues
import io.omnidraft.learning.step.OrtLearner
import io.omnidraft.learning.step.StateFormat
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.learning.step.StepOptions
import io.omnidraft.learning.step.lengthWithin
import io.omnidraft.learning.step.stepBytes
import io.omnidraft.models.Role
import io.omnidraft.models.readAdapter
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Session
import io.omnidraft.support.StarterBundles
import io.omnidraft.traces.TraceStore
import io.omnidraft.traces.Vocabularies
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.TestInstance
import java.io.File
import kotlin.math.abs

private const val CREATED = "2026-01-02T03:04:05Z"
private val LEARNER_STATE = StateFormat("omnidraft.learner_state", "1")

/** The training step of a real bundle: it learns what Python learns, in idle time, and a bad adapter is taken back. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
internal class LearnerTest {
    private val lazyLoaded = lazy { StarterBundles.load("learning") }
    private val loaded: LoadedBundle by lazyLoaded

    @AfterAll
    fun close() {
        if (lazyLoaded.isInitialized()) loaded.close()
    }

    @TestFactory
    fun stepsAreThoseOfPython(): List<DynamicTest> = mapOf(
        "at_once" to StepOptions(learningRate = 4e-3),
        "in_parts" to StepOptions(learningRate = 1e-3, atOnce = 3),
    ).map { (name, options) ->
        DynamicTest.dynamicTest(name) {
            val place = File(LEARNED, name)
            val responses = responsesIn(File(LEARNED, "traces"), loaded)
            learner(options).use { learner ->
                learner.restore(LEARNER_STATE.read(File(place, "begin.safetensors")).arrays)
                for (step in parse(File(place, "losses.json").readBytes()).list().map { it.obj() }) {
                    val learned = checkNotNull(learner.learn(responses, StepBudget.UNBOUNDED))
                    assertFalse(learned.skipped)
                    assertNear(step["loss"].num(), learned.loss, "loss")
                    assertNear(step["norm"].num(), learned.norm, "norm")
                }
                checkEnd(learner, place)
            }
        }
    }

    @Test
    fun aStateThatWasWrittenGoesOnToTheLastBit() = inDirectory { place ->
        val responses = responsesIn(File(LEARNED, "traces"), loaded).take(4)
        val options = StepOptions(learningRate = 4e-3)
        val file = File(place, "state.safetensors")
        val straight = learner(options).use { learner ->
            learner.learn(responses)
            LEARNER_STATE.write(file, learner.state(), mapOf("rate" to 4e-3))
            learner.learn(responses)
            learner.adapter().digest
        }
        val again = learner(options).use { learner ->
            learner.restore(LEARNER_STATE.read(file).arrays)
            learner.learn(responses)
            learner.adapter().digest
        }
        assertEquals(straight, again)
    }

    @Test
    fun aStepThatTheBudgetEndsChangesNothing() {
        val responses = responsesIn(File(LEARNED, "traces"), loaded).take(4)
        learner(StepOptions()).use { learner ->
            val before = learner.adapter().digest
            for (calls in 0 until 4) {
                var left = calls
                assertNull(learner.learn(responses) { left-- > 0 }, "after $calls calls")
                assertEquals(before, learner.adapter().digest, "after $calls calls")
            }
            var left = 4
            assertNotNull(learner.learn(responses) { left-- > 0 })
            assertNotEquals(before, learner.adapter().digest)
        }
    }

    @Test
    fun aSessionLearnsFromItsAnswersAndSaysTheSame() = inDirectory { place ->
        session(place) { session, store ->
            val said = answers(session, 0 until 10)
            val adapted = adaptation(place).step(SessionUser(session), null, StepBudget.UNBOUNDED)
            assertEquals(listOf(IntervalEvent.LEARNED), adapted.events)
            assertEquals(8, adapted.steps) // four passes of two steps
            assertTrue(adapted.isFinished && adapted.usesLearned)
            val (first, last) = adapted.losses.take(2).average() to adapted.losses.takeLast(2).average()
            assertTrue(last < first, "the loss went from $first to $last")
            assertNotNull(session.adapters[Role.DRAFTER])
            assertEquals(said, answers(session, 0 until 10)) // greedy text is the target's
            store.sync()
            val second = adaptation(place).step(SessionUser(session), null, StepBudget.UNBOUNDED)
            assertEquals(listOf(IntervalEvent.LEARNED), second.events)
            assertTrue(second.losses.first() < adapted.losses.first(), "${second.losses} after ${adapted.losses}")
        }
    }

    @Test
    fun shortBudgetsGiveTheAdapterOfALongOne() = inDirectory { place ->
        session(place) { session, _ ->
            answers(session, 0 until 8)
            val straight = adaptation(place, "straight")
            straight.step(SessionUser(session), null, StepBudget.UNBOUNDED)
            session.useAdapter(null, Role.DRAFTER)
            var calls = 0
            while (true) {
                var left = 21 // a step has eight calls here; the work of an unfinished one is repeated
                val part = adaptation(place, "parts").step(SessionUser(session), null) { left-- > 0 }
                calls++
                if (part.isFinished) break
                assertEquals(listOf(IntervalEvent.UNFINISHED), part.events)
                assertNull(session.adapters[Role.DRAFTER], "an unfinished adapter is not used")
            }
            assertTrue(calls > 1)
            val adapters = listOf("straight", "parts").map { readAdapter(File(place, "$it/adapter.safetensors")) }
            assertEquals(adapters[0].digest, adapters[1].digest)
        }
    }

    @Test
    fun anAdapterThatDraftsWorseIsTakenBack() = inDirectory { place ->
        session(place) { session, _ ->
            val step = StepOptions(learningRate = 2.0, weightDecay = 0.0)
            val said = answers(session, 0 until 8)
            assertEquals(listOf(IntervalEvent.LEARNED), learned(place, session, step).events)
            val bad = checkNotNull(session.adapters[Role.DRAFTER])
            assertEquals(said, answers(session, 0 until 8)) // a bad adapter changes speed only
            assertEquals(listOf(IntervalEvent.ROLLED_BACK), learned(place, session, step).events)
            assertNull(session.adapters[Role.DRAFTER])
            answers(session, 8 until 16)
            assertEquals(listOf(IntervalEvent.RESTED), learned(place, session, step).events)
            answers(session, 16 until 24)
            assertEquals(listOf(IntervalEvent.LEARNED), learned(place, session, step).events)
            assertNotEquals(bad.digest, session.adapters[Role.DRAFTER]?.digest)
        }
    }

    @Test
    fun theInterfaceOfAnApp() = inDirectory { place ->
        val options = optionsIn(place)
        withLearning(loaded, options) { session, learning ->
            assertThrows(SessionException::class.java) { learning.step(1.0) }
            learning.on()
            answers(session, 0 until 4)
            learning.pause()
            answers(session, 4 until 8)
            learning.on()
            answers(session, 8 until 11)
            assertEquals(0, learning.step(600.0).steps, "seven answers were recorded, and an interval has eight")
            answers(session, 11 until 12)
            val outcome = learning.step(600.0)
            assertTrue(outcome.steps > 0 && outcome.isFinished && outcome.uses && !outcome.wentBack)
            assertNotNull(outcome.loss)
            val used = checkNotNull(session.adapters[Role.DRAFTER])
            assertEquals(used.digest, readAdapter(File(place, "learned/adapter.safetensors")).digest)
            learning.off()
            withLearning(loaded, options) { next, again -> // what was learned is used again by the next session
                again.on()
                assertEquals(used.digest, next.adapters[Role.DRAFTER]?.digest)
            }
            learning.goBack()
            assertNull(session.adapters[Role.DRAFTER])
            session.saveCache(File(place, "cache.odc"))
            learning.on()
            learning.wipe()
            assertEquals(0, session.cache.size)
            assertFalse(File(place, "cache.odc").exists())
            assertEquals(emptyList<String>(), File(place, "traces").list().orEmpty().toList())
            val left = File(place, "learned").list().orEmpty().filter { "safetensors" in it }
            assertEquals(emptyList<String>(), left)
        }
    }

    @Test
    fun aHotDeviceDoesNotLearn() = inDirectory { place ->
        withLearning(loaded, optionsIn(place), level = 1) { session, learning ->
            learning.on()
            answers(session, 0 until 8)
            val outcome = learning.step(600.0)
            assertEquals(0, outcome.steps)
            assertFalse(outcome.isFinished)
        }
    }

    @Test
    fun aStepFitsTheMemoryThatIsFree() = inDirectory { place ->
        withLearning(loaded, optionsIn(place)) { session, learning ->
            learning.on()
            answers(session, 0 until 8)
            val least = stepBytes(loaded.bundle, 8)
            val refused = assertThrows(BundleException::class.java) { learning.step(60.0, least) }
            assertEquals("memory", refused.fault)
            assertEquals(32, lengthWithin(loaded.bundle, stepBytes(loaded.bundle, 32)))
            assertEquals(loaded.bundle.drafter.kv.maxLength, lengthWithin(loaded.bundle, 1L shl 40))
            assertTrue(learning.step(120.0, stepBytes(loaded.bundle, 32)).steps > 0)
        }
    }

    @Test
    fun aBundleWithoutAStepIsRefusedByName() = inDirectory { place ->
        StarterBundles.load("a").use { other ->
            withLearning(other, optionsIn(place)) { _, learning ->
                learning.on()
                val refused = assertThrows(SettingException::class.java) { learning.step(1.0) }
                assertTrue("training step" in refused.message.orEmpty(), refused.toString())
            }
        }
    }

    private fun learner(options: StepOptions) = OrtLearner(loaded.bundle, loaded.vocabMap, options) { CREATED }

    private fun adaptation(place: File, name: String = "learned", step: StepOptions = onlineOptions()): Adaptation =
        Adaptation(
            loaded.bundle, loaded.vocabMap, LearnedDirectory(File(place, name)), File(place, "traces"), AdaptOptions(),
            step,
        )

    private fun learned(place: File, session: Session, step: StepOptions): Adapted =
        adaptation(place, step = step).step(SessionUser(session), null, StepBudget.UNBOUNDED)

    private fun session(place: File, run: (Session, TraceStore) -> Unit) {
        TraceStore(File(place, "traces"), Vocabularies.of(loaded.vocabMap)).use { store ->
            Session(loaded, trace = store).use { run(it, store) }
        }
    }

    private fun checkEnd(learner: OrtLearner, place: File) {
        val actual = learner.state()
        for ((name, array) in LEARNER_STATE.read(File(place, "end.safetensors")).arrays) {
            if (array is FloatValues) {
                assertArrayEquals(array.values, (actual.getValue(name) as FloatValues).values, 1e-4f, name)
            }
        }
        val expected = readAdapter(File(place, "adapter.safetensors")).named
        val own = learner.adapter().named
        assertEquals(expected.keys, own.keys)
        for ((name, tensor) in expected) assertArrayEquals(tensor.values, own.getValue(name).values, 4e-4f, name)
    }

    private fun assertNear(expected: Double, actual: Double, what: String) =
        assertTrue(abs(expected - actual) <= 1e-4 * (1 + abs(expected)), "$what is $actual and not $expected")
}
