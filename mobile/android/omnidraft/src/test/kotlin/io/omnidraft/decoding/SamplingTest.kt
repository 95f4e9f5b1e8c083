package io.omnidraft.decoding

import io.omnidraft.Defaults
import io.omnidraft.SettingException
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Distributions of wide rows, beside the same rules in float64 with a plain sort. */
class SamplingTest {
    private val width = 20_000

    private fun row(spread: Double): FloatArray {
        val random = SplitMix64(5)
        return FloatArray(width) { ((random.uniform() + random.uniform() - 1.0) * spread).toFloat() }
    }

    /** Flat rows take the selection of many equal ranks, peaked rows the first floor. */
    @Test
    fun wideRowsAreTruncatedAsByAPlainSort() {
        val settings = listOf(
            SamplingConfig(1.0), SamplingConfig(0.7, topK = 50), SamplingConfig(1.0, topK = width + 5),
            SamplingConfig(1.0, topP = 0.9), SamplingConfig(1.0, topK = 300, topP = 0.8),
            SamplingConfig(1.0, minP = 0.3),
            SamplingConfig(1.0, topK = 900, topP = 0.95, minP = 0.01, repetitionPenalty = 1.3),
        )
        val context = listOf(1, 5, 5, 19_999)
        for (spread in listOf(0.001, 3.0, 40.0)) {
            val row = row(spread)
            for (sampling in settings) {
                val actual = targetDistribution(Logits.of(row, width), 0, sampling, context.toIntArray())
                val due = processed(row, sampling, if (sampling.repetitionPenalty == 1.0) emptyList() else context)
                // Ids at the edge of a share may change places, because sums are in float32: their mass is tiny.
                val difference = (0 until width).sumOf { Math.abs(due[it] - actual.probability(it)) }
                assertTrue(difference < 2e-4, "$sampling, spread $spread: $difference")
                val kept = (0 until width).count { actual.probability(it) > 0.0 }
                if (sampling.topP == 1.0 && sampling.topK in 1..width) assertEquals(sampling.topK, kept)
            }
        }
    }

    @Test
    fun partsOfADistributionAddUp() {
        val distribution = targetDistribution(Logits.of(row(3.0), width), 0, SamplingConfig(1.0))
        val ids = IntArray(width / 2) { 2 * it }
        val set = IdSet(width).also { set -> ids.forEach { set.add(it) } }
        assertEquals(1.0, distribution.mass(ids) + distribution.massOutside(set), 1e-6)
        assertEquals(1.0, distribution.probability(77) + distribution.massOutside(77), 1e-6)
        val others = distribution.without(set)
        assertEquals(0.0, others.mass(ids))
        assertEquals(distribution.probability(77) / distribution.massOutside(set), others.probability(77), 1e-9)
        assertEquals(0.0, distribution.without(77).probability(77))
        val single = targetDistribution(Logits.of(floatArrayOf(0f, 90f), 2), 0, SamplingConfig(1.0))
        assertEquals(0.0, single.massOutside(1), "0 only if each is 0")
    }

    @Test
    fun aRowIsReadAgainWhereABannedIdIsTheLikeliest() {
        val row = floatArrayOf(500f, 1f, 2f, 0f)
        for (temperature in listOf(0.0, 0.001, 1.0)) {
            val distribution = draftDistribution(Logits.of(row, 4), 0, temperature, intArrayOf(0))
            assertEquals(0.0, distribution.probability(0))
            assertTrue(distribution.probability(2) > distribution.probability(1))
            assertEquals(1.0, (0..3).sumOf { distribution.probability(it) }, 1e-6)
        }
    }

    @Test
    fun theConfidenceIsTheLargestProbability() {
        val row = row(3.0)
        val best = (0 until width).sortedByDescending { row[it] }
        val banned = intArrayOf(best[0], best[2])
        val allowed = IdSet(width).also { set -> for (id in 0 until width) if (id != best[1]) set.add(id) }
        val logits = Logits.of(row, width)
        val open = row.copyOf().also { for (id in best.take(3)) it[id] = Float.NEGATIVE_INFINITY }
        for ((temperature, softmax) in listOf(0.0 to 1.0, 0.7 to 0.7, 1.0 to 1.0)) {
            val free = draftDistribution(logits, 0, temperature, NO_IDS, isConfident = true)
            val some = draftDistribution(logits, 0, temperature, banned, Workspace(), allowed, isConfident = true)
            for ((due, actual) in listOf(row to free, open to some)) {
                val largest = processed(due, SamplingConfig(softmax), emptyList()).max()
                assertEquals(largest, actual.confidence, 1e-6 * largest)
                assertEquals(temperature == 0.0, actual.isCertain)
            }
        }
        assertEquals(1.0, draftDistribution(logits, 0, 0.0, banned).confidence, "nobody asked for it")
    }

    @Test
    fun aRowThatIsNothingWhereAGrammarAllowsIsRefused() {
        val logits = Logits.of(floatArrayOf(Float.NEGATIVE_INFINITY, 1f, 2f), 3)
        val allowed = IdSet(3).also { it.add(0) }
        for (temperature in listOf(0.0, 0.7, 1.0)) for (isConfident in listOf(false, true)) {
            assertThrows(LogitsError::class.java) {
                draftDistribution(logits, 0, temperature, NO_IDS, Workspace(), allowed, isConfident)
            }
        }
    }

    @Test
    fun settingsOutsideTheirRangesAreRefusedByName() {
        val refused = mapOf<String, () -> Unit>(
            "topK" to { SamplingConfig(topK = -1) },
            "topP" to { SamplingConfig(topP = Double.NaN) },
            "minP" to { SamplingConfig(minP = 1.5) },
            "repetitionPenalty" to { SamplingConfig(repetitionPenalty = 0.0) },
            "temperature" to { SamplingConfig(temperature = 0.00001) },
            "numDraftTokens" to { FixedLength(Defaults.MAX_DRAFT_TOKENS + 1) },
        )
        for ((setting, make) in refused) {
            val error = assertThrows(SettingException::class.java, { make() }, setting)
            assertEquals(setting, error.setting)
            assertTrue(error.message!!.startsWith(setting), "a message begins with the setting: ${error.message}")
        }
        assertThrows(SettingException::class.java) { SamplingConfig(temperature = Double.POSITIVE_INFINITY) }
        assertThrows(SettingException::class.java) { SamplingConfig(temperature = -1.0) }
    }
}
