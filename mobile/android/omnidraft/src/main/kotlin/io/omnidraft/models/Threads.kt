package io.omnidraft.models

/* How many threads a pass of the target runs on (spec/08-phones.md, "Threads"). */

import io.omnidraft.SettingException
import java.io.File
import java.io.IOException

private const val THREADS_PER_CORE = 4 // at most; more only take memory and time
private const val SMALL = 50_000_000 // parameters; waking threads costs a smaller model more time than they save
private const val MOST_THREADS = 4 // of a phone; more cores wait for memory, and heat it
private const val LEAST_SPEED = 0.95 // of the fastest; fewer threads heat a phone less
private const val MOST_DIGITS = 20

/** What says how fast a processor is, and the least share of the fastest one's that a fast processor has. */
private val SPEEDS = listOf("cpu_capacity" to 0.5, "cpufreq/cpuinfo_max_freq" to 0.75)

/** Refuses a number of threads that this device would only suffer from. */
internal fun checkThreads(threads: Int) {
    val most = THREADS_PER_CORE * cores()
    if (threads !in 1..most) {
        val message = "threads $threads is outside 1..$most, $THREADS_PER_CORE for each core of this device"
        throw SettingException(message, "leave it out, and the target's size decides", "threads")
    }
}

internal fun threadsFor(parameters: Long): Int = if (parameters < SMALL) 1 else minOf(MOST_THREADS, fastCores())

/**
 * The threads of a target pass that this device is fastest with: one less, from [most] on, until that is slower.
 *
 * @param speed tokens a second with a number of threads, drafted; null where it is not known, and nothing is compared.
 */
internal fun fastestThreads(most: Int, speed: (Int) -> Double?): Int {
    var threads = most
    var best = if (most > 1) speed(most) else null
    while (best != null && threads > 1) {
        val fewer = speed(threads - 1)
        if (fewer == null || fewer < LEAST_SPEED * best) break
        best = maxOf(best, fewer)
        threads -= 1
    }
    return threads
}

/** Processors that are about as fast as the fastest one; all, where the system does not tell how fast they are. */
internal fun fastCores(folder: File = File("/sys/devices/system/cpu"), cores: Int = cores()): Int {
    for ((name, share) in SPEEDS) {
        val speeds = (0 until cores).mapNotNull { number(File(folder, "cpu$it/$name")) }
        if (speeds.size == cores) return speeds.count { it >= share * speeds.max() }
    }
    return cores
}

private fun cores(): Int = Runtime.getRuntime().availableProcessors()

/** The number in a file of the system; null where there is none, or it may not be read. */
private fun number(file: File): Int? = try {
    file.bufferedReader().use { reader ->
        val digits = CharArray(MOST_DIGITS)
        String(digits, 0, maxOf(0, reader.read(digits))).trim().toIntOrNull()
    }
} catch (_: IOException) {
    null
}
