package io.omnidraft.learning.positions

import io.omnidraft.Defaults.LEARNER_OPEN_GENERATIONS as OPEN
import io.omnidraft.SettingException
import io.omnidraft.decoding.SamplingConfig
import io.omnidraft.support.ToyGeneration
import io.omnidraft.support.ToyMode
import io.omnidraft.support.vectorMap
import io.omnidraft.traces.Start
import io.omnidraft.traces.Traced
import io.omnidraft.traces.TracedRound
import io.omnidraft.traces.Tracer
import io.omnidraft.traces.concatenated
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Which records of a trace are one generation; `learner/trace` of the vectors has what they become. */
class FromTracesTest {
    private val toy = vectorMap("toy")
    private val start = intArrayOf(ToyGeneration.START)
    private val toys = TraceAligner(Aligner(fullTrie(toy), 400), start)

    private fun recorded(mode: ToyMode, seed: Int): Traced {
        val tracer = Tracer(toy, { true })
        val rounds = ArrayList<TracedRound>()
        ToyGeneration(toy, mode, seed, SamplingConfig(0.7)).run { outcome, probs ->
            rounds.add(checkNotNull(tracer(outcome, probs)))
        }
        return Traced(Start(null, null, mode.word, false, 0, ToyGeneration.TOY_PROMPT), rounds)
    }

    /** A generation in several records, as segments and adapters cut it. */
    private fun parts(traced: Traced, vararg cuts: Int): List<Traced> {
        var text = traced.start.context
        return (listOf(0) + cuts.asList() + traced.rounds.size).zipWithNext { low, high ->
            val rounds = traced.rounds.subList(low, high)
            Traced(changed(traced.start, continues = low > 0, context = text), rounds).also {
                text += rounds.flatMap { it.tokens }.concatenated { toy.spell(it.tokenId) }
            }
        }
    }

    private fun changed(
        start: Start,
        continues: Boolean = start.continues,
        context: IntArray = start.context,
        skipped: Long = start.skipped,
        targetAdapter: String? = start.targetAdapter,
        drafterAdapter: String? = start.drafterAdapter,
    ) = Start(drafterAdapter, targetAdapter, start.mode, continues, skipped, context)

    private fun roundsOf(traces: List<Traced>): List<List<TracedRound>> =
        joined(traces.asSequence(), toy).map { it.rounds }.toList()

    @Test
    fun `records of one generation are joined`() {
        val one = recorded(ToyMode.TOKENS, 4)
        val other = recorded(ToyMode.MATCH, 5)
        val a = parts(one, 2, 3)
        val b = parts(other, 6)
        assertEquals(listOf(one.rounds, other.rounds), roundsOf(listOf(a[0], b[0], b[1], a[1], a[2])))
        val context = a[1].start.context
        val later = Traced(changed(a[1].start, skipped = 2, context = context.copyOfRange(2, context.size)), a[1].rounds)
        assertEquals(listOf(one.rounds.take(3)), roundsOf(listOf(a[0], later)))
    }

    @Test
    fun `what a pause or another target cut off stays apart`() {
        val (first, gone, last) = parts(recorded(ToyMode.TOKENS, 4), 2, 3)
        val begun = gone.start
        val apart = listOf(
            last,
            Traced(changed(begun, targetAdapter = "a".repeat(64)), gone.rounds),
            Traced(changed(begun, continues = false), gone.rounds), // another one, after the same text
            Traced(changed(begun, skipped = begun.skipped + 1), gone.rounds), // the same end of a longer text
            Traced(changed(begun, context = begun.context.map { (it + 1) % toy.draftSize }.toIntArray()), gone.rounds),
        )
        for (each in apart) assertEquals(listOf(first.rounds, each.rounds), roundsOf(listOf(first, each)))
        val drafters = Traced(changed(begun, drafterAdapter = "a".repeat(64)), gone.rounds)
        assertEquals(1, roundsOf(listOf(first, drafters, last)).size)
    }

    @Test
    fun `at most eight generations wait for their next record`() {
        val begun = List(OPEN + 2) { parts(recorded(ToyMode.TOKENS, 20 + it), 8) }
        val late = begun.map { it[0] } + begun.map { it[1] }
        // The two oldest were complete before their second records came; those push the two next out in turn.
        assertEquals(2 * (OPEN + 2), roundsOf(late).size)
        val inTime = begun.take(OPEN).map { it[0] } + begun.take(OPEN).map { it[1] }
        assertEquals(OPEN, roundsOf(inTime).size)
    }

    @Test
    fun `another target is refused`() {
        val traced = recorded(ToyMode.TOKENS, 4)
        val digest = "ab".repeat(32)
        val other = Traced(changed(traced.start, targetAdapter = digest), traced.rounds)
        val message = assertThrows(SettingException::class.java) { toys.align(other) }.message.orEmpty()
        assertTrue("is of the target with adapter abababababab and not with no adapter" in message, message)
        val adapted = TraceAligner(toys.aligner, start, digest)
        assertThrows(SettingException::class.java) { adapted.align(traced) }
        assertNotNull(adapted.align(other))
    }
}
