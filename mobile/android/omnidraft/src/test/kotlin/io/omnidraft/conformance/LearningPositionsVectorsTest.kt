package io.omnidraft.conformance

import io.omnidraft.bundle.FloatTensor
import io.omnidraft.decoding.Logits
import io.omnidraft.learning.RunningMean
import io.omnidraft.learning.interval
import io.omnidraft.learning.overlap
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.SparseDistributions
import io.omnidraft.learning.positions.TargetRows
import io.omnidraft.learning.positions.TraceAligner
import io.omnidraft.learning.positions.fromTraces
import io.omnidraft.learning.probabilities
import io.omnidraft.support.trieWith
import io.omnidraft.support.vectorMap
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.readTraces
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory
import kotlin.math.abs

/**
 * Runs `learner/align` and `learner/trace`, training positions of responses and of recorded generations; `learner/mean`;
 * and `sync/compare`.
 */
class LearningPositionsVectorsTest : VectorsRun() {
    @TestFactory
    fun align(): List<DynamicTest> = folder("learner/align") { check(it, alignedOf(it.input), it.expected) }

    @TestFactory
    fun trace(): List<DynamicTest> = folder("learner/trace") { vector ->
        val given = vector.input
        val trie = trieWith(vectorMap(given["map"].str()), given["active"].ints())
        val files = given["files"].list().map { vector.file(it.str()) }
        val aligner = TraceAligner(Aligner(trie, given["max_length"].int()), given["start"].ints())
        val responses = fromTraces(readTraces(files, Vocabularies.of(trie.map)), aligner).toList()
        val expected = vector.expected["responses"].list()
        assertEquals(expected.size, responses.size, "responses; ${vector.why}")
        for (i in expected.indices) check(vector, responses[i], expected[i].obj())
    }

    @TestFactory
    fun mean(): List<DynamicTest> = folder("learner/mean") { vector ->
        val mean = RunningMean()
        vector.input["steps"].list().zip(vector.expected["means"].list()).forEach { (step, expected) ->
            if (step != null) mean.add(mapOf("tensor" to FloatTensor(intArrayOf(step.list().size), step.floats())))
            val actual = mean.tensors["tensor"]?.values
            if (expected == null) {
                assertNull(actual, vector.why)
            } else {
                val numbers = expected.nums()
                for (i in numbers.indices) {
                    assertEquals(numbers[i], checkNotNull(actual)[i].toDouble(), 1e-6 + 1e-5 * abs(numbers[i]), vector.why)
                }
                assertEquals(numbers.size, actual?.size, vector.why)
            }
        }
    }

    @TestFactory
    fun compare(): List<DynamicTest> = folder("sync/compare") { if ("counts" in it.input) interval(it) else acceptance(it) }

    private fun interval(vector: Vector) {
        val (low, high) = interval(vector.input["differences"].nums(), vector.input["counts"].nums())
        if (vector.expected["low"] == null) {
            assertEquals(listOf(Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY), listOf(low, high), vector.why)
        } else {
            val expected = doubleArrayOf(vector.expected["low"].num(), vector.expected["high"].num())
            assertClose(vector, "interval", expected, doubleArrayOf(low, high))
        }
    }

    private fun acceptance(vector: Vector) {
        val given = vector.input
        val logits = given["logits"].floats()
        val allowed = given["allowed"].ints().map { it == 1 }.toBooleanArray()
        val q = probabilities(Logits.of(logits, logits.size), 0, allowed)
        val distributions = SparseDistributions(
            intArrayOf(0), arrayOf(given["ids"].ints()), arrayOf(given["probabilities"].nums()),
            doubleArrayOf(given["other"].num()), doubleArrayOf(given["weight"].num()),
        )
        val expected = doubleArrayOf(vector.expected["acceptance"].num())
        assertClose(vector, "acceptance", expected, doubleArrayOf(overlap(q, distributions, 0, given["inside"].bool())))
    }

    private fun check(vector: Vector, response: Aligned, expected: Json) {
        assertSame(vector, "draft ids", expected["draft_ids"], response.draftIds)
        assertSame(vector, "prompt length", expected["prompt_length"], response.promptLength)
        assertSame(vector, "tokens", expected["tokens"], response.tokens)
        assertSame(vector, "rows", expected["rows"], response.rows)
        val actual = response.trieDistributions
        val distributions = expected["trie"].list().map { it.obj() }
        assertSame(vector, "rows of the distributions", distributions.map { it["row"] }, actual.rows)
        for ((n, distribution) in distributions.withIndex()) {
            val order = actual.ids[n].indices.sortedBy { actual.ids[n][it] }
            assertSame(vector, "ids of $n", distribution["ids"], order.map { actual.ids[n][it] })
            val probabilities = order.map { actual.probabilities[n][it] }.toDoubleArray()
            assertClose(vector, "distribution $n", distribution["probabilities"].nums(), probabilities)
            val sums = doubleArrayOf(actual.other[n], actual.weights[n])
            val expectedSums = doubleArrayOf(distribution["other"].num(), distribution["weight"].num())
            for (i in sums.indices) assertEquals(expectedSums[i], sums[i], 1e-12, "other, weight of $n; ${vector.why}")
        }
    }
}

internal fun alignedOf(given: Json): Aligned {
    val trie = trieWith(vectorMap(given["map"].str()), given["active"].ints())
    val distributions = given["distributions"].list().map { it.obj() }
    val rows = TargetRows(
        distributions.map { it["ids"].ints() }.toTypedArray(),
        distributions.map { it["probabilities"].nums() }.toTypedArray(),
        distributions.map { it["rest"].num() }.toDoubleArray(),
    )
    val aligner = Aligner(trie, given["max_length"].int(), given["keep"].int())
    return aligner.align(given["prompt"].ints(), given["tokens"].ints(), rows)
}
