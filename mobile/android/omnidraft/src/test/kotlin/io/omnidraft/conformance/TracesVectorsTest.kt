package io.omnidraft.conformance

import io.omnidraft.Defaults
import io.omnidraft.TraceFileException
import io.omnidraft.decoding.Logits
import io.omnidraft.support.segmentJson
import io.omnidraft.support.vectorMap
import io.omnidraft.traces.Masses
import io.omnidraft.traces.Tracer
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.encode
import io.omnidraft.traces.halfOf
import io.omnidraft.traces.largest
import io.omnidraft.traces.readSegments
import io.omnidraft.traces.readTraces
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runs `trace/...`: what a trace keeps of a row, good and bad files. */
class TracesVectorsTest : VectorsRun() {
    @TestFactory
    fun rows(): List<DynamicTest> = folder("trace/rows") { vector ->
        if ("numbers" in vector.input) halves(vector) else row(vector)
    }

    private fun halves(vector: Vector) {
        val numbers = vector.input["numbers"].floats()
        val kept = largest(numbers, numbers.size, 1.0, 1.0, Defaults.TRACE_TOP)
        val bits = kept.probabilities.map { (halfOf(it).toInt() and 0xffff).toString(16).padStart(4, '0') }
        assertEquals(vector.expected["float16"], bits, vector.why)
    }

    private fun row(vector: Vector) {
        val logits = vector.input["logits"].floats()
        val tracer = Tracer(vectorMap(vector.input["map"].str()), { true })
        val row = checkNotNull(tracer.row(Logits.of(logits, logits.size), 0)) { vector.why }
        val (roots, unspelled) = tracer.roots(row)
        val surprisals = DoubleArray(logits.size) { row.surprisal(it) }
        assertArrayEquals(vector.expected["surprisals"].nums(), surprisals, 1e-5, vector.why)
        assertEquals(vector.expected["unspelled"].num(), unspelled, 1e-6, vector.why)
        same(vector, vector.expected["distribution"].obj(), row.largest(Defaults.TRACE_TOP))
        same(vector, vector.expected["roots"].obj(), roots)
    }

    private fun same(vector: Vector, expected: Json, kept: Masses) {
        assertArrayEquals(expected["ids"].ints(), kept.ids, vector.why)
        val probabilities = expected["probabilities"].nums()
        for (i in probabilities.indices) {
            assertEquals(probabilities[i], kept.probabilities[i].toDouble(), probabilities[i] / (1 shl 11), vector.why)
        }
        assertEquals(expected["rest"].num(), kept.rest, 1e-6, vector.why)
    }

    @TestFactory
    fun valid(): List<DynamicTest> = folder("trace/valid") { vector ->
        val file = vector.file(vector.input["file"].str())
        val (_, segment) = readSegments(file).single()
        assertSame(vector, "segment", vector.expected["segment"], segmentJson(segment))
        assertEquals(vector.expected["torn"].int(), segment.torn, vector.why)
        val data = file.readBytes()
        assertArrayEquals(data.copyOf(data.size - segment.torn), encode(segment), vector.why)
    }

    @TestFactory
    fun invalid(): List<DynamicTest> = folder("trace/invalid") { vector ->
        val pair = vector.input["map"]?.let { Vocabularies.of(vectorMap(it.str())) }
        val file = vector.file(vector.input["file"].str())
        assertNull(unlessRefused(vector, TraceFileException::class.java) { readTraces(listOf(file), pair).count() })
    }
}
