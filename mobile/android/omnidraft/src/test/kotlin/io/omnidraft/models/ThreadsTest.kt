package io.omnidraft.models

import io.omnidraft.bundle.openBundle
import io.omnidraft.device.CostsSource
import io.omnidraft.device.StateDirectory
import io.omnidraft.device.keptCosts
import io.omnidraft.device.thisMachine
import io.omnidraft.session.Loading
import io.omnidraft.session.loadBundle
import io.omnidraft.support.StarterBundles
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File

/** A pass of the target runs on the fast processors of a phone, and on fewer where that is as fast. */
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

    @Test
    fun `fewer threads are tried until they are slower`() {
        fun tried(vararg speeds: Double?): Pair<Int, Int> { // tokens a second from the most threads on
            var asked = 0
            return fastestThreads(speeds.size) { speeds[speeds.size - it].also { asked++ } } to asked
        }
        assertEquals(4 to 2, tried(10.0, 9.0, 12.0, 1.0))
        assertEquals(3 to 3, tried(10.0, 9.6, 9.4, 1.0), "each is compared with the fastest")
        assertEquals(3 to 3, tried(10.0, 12.0, 11.0, 1.0))
        assertEquals(1 to 2, tried(1.0, 1.0))
        assertEquals(1 to 0, tried(1.0))
        assertEquals(2 to 1, tried(null, 1.0), "nothing was measured")
        assertEquals(2 to 2, tried(1.0, null))
    }

    @Test
    fun `costs of each number of threads are kept, and forgotten together`() {
        val (state, bundle) = StateDirectory(folder) to openBundle(StarterBundles.directory("a"))
        val loading = Loading(state = state, measureSeconds = 60.0)
        fun kept(threads: Int) = keptCosts(state, bundle.seal, thisMachine(Engine.version, threads, "cpu", "cpu"))
        val first = loadBundle(bundle, loading, most = 2).also { it.close() }
        assertEquals(listOf(true, true), listOf(1, 2).map { kept(it) != null || bundle.measuredOn?.threads == it })
        loadBundle(bundle, loading, most = 2).use { second ->
            assertEquals(first.costs, second.costs)
            assertNotEquals(CostsSource.MEASURED, second.device?.source)
            second.device?.forget?.invoke()
            assertNull(kept(1) ?: kept(2))
        }
    }
}
