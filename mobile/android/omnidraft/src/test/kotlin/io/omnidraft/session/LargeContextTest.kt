package io.omnidraft.session

import io.omnidraft.support.StarterBundles
import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** A bundle with 472 MB of keys and values in a virtual machine with the heap of a small phone, direct buffers included. */
internal class LargeContextTest {
    /** `OMNIDRAFT_TEXTS=2000` writes that many. */
    @Test
    fun keysAndValuesTakeNoHeapAndAreFreed() {
        val texts = System.getenv("OMNIDRAFT_TEXTS")?.toInt() ?: 200
        val lines = run("-Xmx64m", texts)
        println(lines.joinToString("\n"))
        assertEquals(10, lines.size, lines.toString())
        val numbers = lines.map { line -> Regex("[0-9]+").findAll(line).map { it.value.toInt() }.toList() }
        assertTrue(numbers.last()[2] > 0, "nothing was drafted")
        val resident = numbers.map { it[3] }
        assertTrue(resident.all { it in 472..900 }, "$resident MB")
        val (first, second) = resident.subList(2, 6).max() to resident.subList(6, 10).max()
        assertTrue(second - first < MOST_GROWTH, "$resident MB")
    }

    @Test
    fun aBundleThatTheHeapDoesNotHoldIsRefusedBeforeItIsLoaded() {
        val said = run("-Xmx16m", 1).single()
        assertTrue(Regex("memory: long needs [0-9]+ MB of the app's heap, which has 16 MB; close .*").matches(said), said)
    }

    private fun run(heap: String, texts: Int): List<String> {
        val classes = listOf(LargeContextTest::class, Session::class, Unit::class, ai.onnxruntime.OrtSession::class)
            .joinToString(":") { File(it.java.protectionDomain.codeSource.location.toURI()).path }
        val java = File(System.getProperty("java.home"), "bin/java").path
        val options = listOf(heap, "-XX:MaxDirectMemorySize=64m", "-XX:+UseSerialGC", "-cp", classes)
        val arguments = listOf("io.omnidraft.session.LargeContextKt", StarterBundles.directory("long").path, "$texts")
        val process = ProcessBuilder(listOf(java) + options + arguments).redirectErrorStream(true).start()
        return process.inputStream.bufferedReader().readLines().also { process.waitFor() }
    }
}

private const val MOST_GROWTH = 40 // MB
