package io.omnidraft.learning

import io.omnidraft.SettingException
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.step.Arrays
import io.omnidraft.learning.step.Learned
import io.omnidraft.learning.step.Learner
import io.omnidraft.learning.step.LongValues
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.models.Adapter
import io.omnidraft.models.SitePair
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import java.util.Random

/** The averaged learner: its adapter is the average of the steps, and a restart changes nothing. */
class AveragedTest {
    private fun adapter(rank: Int, seed: Long): Adapter {
        val random = Random(seed)
        fun tensor(rows: Int, columns: Int) =
            FloatTensor(intArrayOf(rows, columns), FloatArray(rows * columns) { random.nextGaussian().toFloat() })
        val sites = mapOf(SITE to SitePair(tensor(6, rank), tensor(rank, 5)))
        return Adapter("a".repeat(64), "d".repeat(64), "e".repeat(64), sites, "2026-01-01T00:00:00Z")
    }

    /** A learner that needs no answers: after step n its adapter is the one of seed n; step 3 is skipped. */
    private inner class Walk(private val rank: Int = 2) : Learner {
        private var step = 0L
        override var rate = 1e-3

        override fun learn(responses: List<Aligned>, budget: StepBudget): Learned? {
            if (!budget.goesOn()) return null
            step += 1
            return Learned(step, 1.0, 1.0, step == 3L)
        }

        override fun adapter(): Adapter = adapter(rank, step)

        override fun state(): Arrays = mapOf("step" to LongValues(longArrayOf(step)))

        override fun restore(state: Arrays) {
            step = (state.getValue("step") as LongValues).values[0]
        }
    }

    private fun b(adapter: Adapter): FloatArray = adapter.tensors.getValue(SITE).b.values

    @Test
    fun `going on is as if there had been no break`() {
        val learners = List(3) { AveragedLearner(Walk()) }
        fun steps(learner: Learner, count: Int) = repeat(count) { learner.learn(emptyList(), StepBudget.UNBOUNDED) }
        steps(learners[0], 7)
        steps(learners[1], 4)
        learners[2].restore(learners[1].state())
        steps(learners[2], 3)
        assertEquals(learners[0].adapter().digest, learners[2].adapter().digest)
    }

    @Test
    fun `a state of another rank changes nothing`() {
        val one = AveragedLearner(Walk(rank = 2))
        val other = AveragedLearner(Walk(rank = 1))
        one.learn(emptyList(), StepBudget.UNBOUNDED)
        val before = other.adapter().digest
        assertThrows(SettingException::class.java) { other.restore(one.state()) }
        assertThrows(SettingException::class.java) { other.restore(Walk().state()) }
        assertEquals(before, other.adapter().digest)
        one.rate = 5.0
        assertEquals(listOf(5.0, 5.0), listOf(one.rate, one.inner.rate))
    }

    private companion object {
        const val SITE = "layers.0.o"
    }
}
