package io.omnidraft.models

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File

/** A pass of the target runs on the fast processors of a phone. */
internal class ThreadsTest {
    @TempDir
    lateinit var folder: File

    private fun fast(name: String, vararg values: Any): Int {
        for ((core, value) in values.withIndex()) {
            File(folder, "cpu$core/$name").apply { parentFile.mkdirs() }.writeText("$value\n")
        }
        return fastCores(folder, values.size)
    }

    @Test
    fun `slow processors are left out, by capacity or else by frequency`() {
        assertEquals(6, fastCores(folder, 6), "nothing is told")
        val frequency = "cpufreq/cpuinfo_max_freq"
        val little = IntArray(4) { 1_800_000 }.toTypedArray()
        assertEquals(4, fast(frequency, *little, 2_400_001, 2_400_001, 2_850_000, 2_850_000))
        assertEquals(4, fast(frequency, 1_000, 1_000, "none", 2_000), "one does not say")
        assertEquals(2, fast("cpu_capacity", 250, 250, 250, 250, 250, 250, 800, 1024))
        assertEquals(8, fast("cpu_capacity", 900, 900, 900, 900, 900, 900, 1024, 1024))
    }
}
