package io.omnidraft.learning

import io.omnidraft.SettingException
import io.omnidraft.learning.step.StepOptions
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

/** The order of a pass, and the ranges of its options. The learning itself is in LearnerTest. */
class LearnTracesTest {
    @Test
    fun `each pass takes all responses, in its own order, which the seed decides`() {
        val options = LearnOptions(batchSize = 4)
        for (count in listOf(1, 4, 13, 64)) {
            val each = (count + 3) / 4
            val passes = List(3) { pass -> List(each) { batch(pass.toLong() * each + it, count, options) } }
            for (pass in passes) {
                assertEquals((0 until count).toList(), pass.flatten().sorted())
                assertEquals(each - 1, pass.count { it.size == 4 && it !== pass.last() })
            }
            if (count > 4) assertEquals(3, passes.map { it.flatten() }.toSet().size)
            assertEquals(passes[1][0], batch(each.toLong(), count, options)) // a step can be made again
        }
        val other = LearnOptions(StepOptions(seed = 1), batchSize = 64)
        assertNotEquals(batch(0, 64, LearnOptions(batchSize = 64)), batch(0, 64, other))
    }

    @Test
    fun `options outside their ranges are refused by name`() {
        val wrong = mapOf(
            "steps" to { LearnOptions(steps = 0) },
            "batch_size" to { LearnOptions(batchSize = 0) },
            "max_length" to { LearnOptions(maxLength = 1) },
            "schedule" to { LearnOptions(schedule = "sometimes") },
        )
        for ((name, make) in wrong) {
            assertEquals(name, assertThrows(SettingException::class.java) { make() }.setting)
        }
    }
}
