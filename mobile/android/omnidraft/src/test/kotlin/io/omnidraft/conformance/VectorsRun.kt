package io.omnidraft.conformance

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
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
 * After the last test of the class, each folder must have run as many vectors as the manifest counts. The counts are also
 * written to the file of the system property `omnidraft.vectors`, where that is set; scripts/android/test compares the
 * folders of all classes with the manifest.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class VectorsRun {
    private val ran = TreeMap<String, Int>()

    /** A test for each vector of a folder. */
    protected fun folder(name: String, run: (Vector) -> Unit): List<DynamicTest> {
        check(name in COUNTS) { "the manifest has no folder $name" }
        ran[name] = 0
        return vectorsOf(name).map { vector ->
            DynamicTest.dynamicTest("$name/${vector.name}") {
                ran[name] = ran.getValue(name) + 1
                run(vector)
            }
        }
    }

    /** Fails if a folder ran another number of vectors than the manifest has. */
    @AfterAll
    fun eachVectorRan() {
        System.getProperty("omnidraft.vectors")?.let { path ->
            File(path).appendText(ran.entries.joinToString("") { "${it.key} ${it.value}\n" })
        }
        assertEquals(ran.keys.associateWith { COUNTS[it] }, ran.toMap(), "vectors that ran")
    }
}
