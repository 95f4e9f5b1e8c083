package io.omnidraft.session

import com.sun.management.ThreadMXBean
import io.omnidraft.GenerationConfig
import io.omnidraft.support.StarterBundles
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory
import java.lang.management.ManagementFactory

/** After the first rounds of a session no array of the size of a vocabulary is allocated. */
internal class AllocationTest {
    private val memory = ManagementFactory.getThreadMXBean() as ThreadMXBean
    private val configs = mapOf(
        "greedy" to GenerationConfig(maxNewTokens = 200, numDraftTokens = 4, ignoreEos = true),
        "sampled" to GenerationConfig(200, temperature = 1.0, seed = 3, numDraftTokens = 4, ignoreEos = true),
        "truncated" to GenerationConfig(200, 0.8, seed = 3, numDraftTokens = 4, ignoreEos = true, topK = 40, topP = 0.9),
        "auto" to GenerationConfig(maxNewTokens = 200, temperature = 1.0, seed = 4, ignoreEos = true),
    )

    @TestFactory
    fun aRoundAllocatesLessThanARowOfLogits(): List<DynamicTest> = configs.map { (name, config) ->
        DynamicTest.dynamicTest(name) {
            StarterBundles.load("a").use { loaded ->
                Session(loaded).use { session ->
                    val prompt = "How many legs do 3 cats have?"
                    session.generate(prompt, config).finish() // passes of all lengths were made
                    val answer = session.generate(prompt, config)
                    repeat(WARM) { answer.next() }
                    val rounds = answer.statistics.rounds
                    val before = allocated()
                    answer.finish()
                    val each = (allocated() - before) / (answer.statistics.rounds - rounds)
                    val row = 4L * loaded.bundle.target.vocabSize
                    assertTrue(answer.statistics.rounds - rounds > 10)
                    assertTrue(each < row, "$each bytes in a round, a row of logits takes $row")
                }
            }
        }
    }

    private fun allocated(): Long = memory.getThreadAllocatedBytes(Thread.currentThread().id)
}

private const val WARM = 5
