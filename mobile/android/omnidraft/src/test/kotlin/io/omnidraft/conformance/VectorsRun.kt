package io.omnidraft.conformance

import io.omnidraft.GenerationConfig
import io.omnidraft.OmniDraftException
import io.omnidraft.bundle.GraphFileException
import io.omnidraft.parts.PackIndexException
import io.omnidraft.support.WatchedText
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestInstance
import java.io.File
import java.util.TreeMap

/**
 * Base of the classes that run vectors. A class has one `@TestFactory` for each folder:
 *
 *     @TestFactory
 *     fun lookup(): List<DynamicTest> = folder("lookup") { vector -> ... }
 *
 * After the last test of the class, each folder must have run as many vectors as the manifest counts. The counts also
 * go to [noteRun].
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class VectorsRun {
    private val ran = TreeMap<String, Int>()
    private val passed = TreeMap<String, Int>()

    /** A test for each vector of a folder. */
    protected fun folder(name: String, run: (Vector) -> Unit): List<DynamicTest> {
        check(name in COUNTS) { "the manifest has no folder $name" }
        ran[name] = 0
        passed[name] = 0
        return vectorsOf(name).map { vector ->
            DynamicTest.dynamicTest("$name/${vector.name}") {
                ran[name] = ran.getValue(name) + 1
                run(vector)
                passed[name] = passed.getValue(name) + 1
            }
        }
    }

    /** Fails if a folder ran another number of vectors than the manifest has. */
    @AfterAll
    fun eachVectorRan() {
        for ((name, count) in ran) noteRun("vectors $name ${passed[name]}/$count")
        assertEquals(ran.keys.associateWith { COUNTS[it] }, ran.toMap(), "vectors that ran")
    }
}

/** What [read] gives; null where the vector expects its refusal, an exception of [kind] with that fault. */
internal fun <T> unlessRefused(vector: Vector, kind: Class<out Exception>, read: () -> T): T? {
    val fault = vector.expected["fault"] ?: return read()
    val refused = assertThrows(kind, { read() }, vector.why)
    val actual = when (refused) {
        is OmniDraftException -> refused.fault
        is GraphFileException -> refused.fault
        is PackIndexException -> refused.fault
        else -> throw AssertionError("$refused has no fault")
    }
    assertSame(vector, "the fault of $refused", fault, actual)
    return null
}

internal fun runGeneration(vector: Vector) {
    val mode = vector.input["mode"].str()
    if (mode in listOf("match", "direct", "paper")) { // a baseline
        assertTrue(GenerationConfig.Mode.values().none { it.word == mode }) { "a port has no mode $mode" }
    } else {
        WatchedText(vector).use { it.run() }
    }
}

/**
 * Writes a line of scripts/phones/results.py to the file of the system property `omnidraft.vectors`, where that is set.
 * scripts/android/test.sh compares what ran with the manifest.
 */
internal fun noteRun(line: String) {
    System.getProperty("omnidraft.vectors")?.let { File(it).appendText("$line\n") }
}
