package io.omnidraft.support

import java.io.File

/** Resident bytes of this process, by the name of a line of /proc/self/status: `VmRSS` now, `VmHWM` at most so far. */
internal fun residentBytes(name: String = "VmRSS"): Long {
    val line = File("/proc/self/status").readLines().first { it.startsWith("$name:") }
    return 1024 * line.filter { it.isDigit() }.toLong()
}
