package io.omnidraft.support

import io.omnidraft.OmniDraftException
import io.omnidraft.conformance.ROOT
import java.io.File
import java.time.Duration
import kotlin.random.Random
import org.junit.jupiter.api.Assertions.assertTimeoutPreemptively
import org.junit.jupiter.api.Assertions.assertTrue

/* What the tests share that read changed files. */

private const val BEGINNING = 256
private const val FILES = 10_000
private const val JSON = "0123456789-[]{}\",:eE. \n"

/** A copy of a file with one or two changes. */
internal fun changedBytes(data: ByteArray, random: Random): ByteArray {
    var changed = data.copyOf()
    repeat(1 + random.nextInt(2)) { changed = changedOnce(changed, random) }
    return changed
}

private fun changedOnce(data: ByteArray, random: Random): ByteArray {
    if (data.isEmpty()) return data
    // Half of the changes are near the beginning, where most fields are.
    val at = random.nextInt(if (random.nextBoolean()) minOf(data.size, BEGINNING) else data.size)
    when (random.nextInt(9)) {
        0 -> data[at] = random.nextInt().toByte()
        1 -> data[at] = (data[at].toInt() xor (1 shl random.nextInt(8))).toByte()
        2 -> data[at] = listOf(0, 1, -1, 127, -128).random(random).toByte()
        3 -> data[at] = (data[at] + 1).toByte()
        4 -> data[at] = JSON.random(random).code.toByte()
        5 -> for (i in at until minOf(at + 4, data.size)) data[i] = listOf(0, -1).random(random).toByte()
        6 -> return data.copyOf(at)
        7 -> return data.copyOf(at) + data.copyOfRange(minOf(data.size, at + 1 + random.nextInt(8)), data.size)
        else -> return data.copyOf(at) + random.nextBytes(1 + random.nextInt(8)) + data.copyOfRange(at, data.size)
    }
    return data
}

/**
 * Runs [use] with ten thousand of the files: each is refused by [refusal] with one of [faults], or read and used.
 * Each fault that is not in [rare] must come up, and a share of [least] must be read.
 */
internal fun checkChanged(
    given: List<ByteArray>, random: Random, faults: Set<String>, refusal: Class<out OmniDraftException>,
    rare: Set<String> = setOf(), least: Double = 0.01, use: (ByteArray) -> Unit,
) {
    val seen = HashMap<String, Int>()
    assertTimeoutPreemptively(Duration.ofMinutes(5)) {
        repeat(FILES) {
            val fault = try {
                use(given.random(random))
                "read"
            } catch (error: OmniDraftException) {
                assertTrue(refusal.isInstance(error) && error.fault in faults, "it threw $error")
                error.fault
            }
            seen[fault] = 1 + (seen[fault] ?: 0)
        }
    }
    assertTrue(seen.keys.containsAll(faults - rare), "some faults never came up: ${faults - seen.keys} of $seen")
    assertTrue((seen["read"] ?: 0) >= least * FILES, "too few were read: $seen")
}

/** Writes a number of 4 bytes, such as a checksum, at [at]. */
internal fun putU32(data: ByteArray, at: Int, number: Long) {
    for (i in 0 until 4) data[at + i] = (number ushr (8 * i)).toByte()
}

/** The contents of the files of a folder of spec/vectors whose names end with [end], in the order of their names. */
internal fun vectorFiles(folder: String, end: String): List<ByteArray> {
    val files = checkNotNull(File(ROOT, folder).listFiles { file -> file.name.endsWith(end) })
    return files.sortedBy { it.name }.map { it.readBytes() }
}
