package io.omnidraft.session

import io.omnidraft.BundleException
import io.omnidraft.GenerationConfig
import io.omnidraft.OmniDraft
import io.omnidraft.support.residentBytes
import java.io.File
import java.util.concurrent.Executor

private const val OF_A_SESSION = 50 // texts; each session has keys and values of its own
private const val MEGABYTE = 1_000_000

/*
 * Many texts in a small heap: `LargeContext BUNDLE TEXTS` writes them in sessions that are opened one after another, and
 * prints the memory of the process ten times. What the app's heap does not hold is said in one line.
 */
fun main(arguments: Array<String>) {
    try {
        write(File(arguments[0]), arguments[1].toInt())
    } catch (refused: BundleException) {
        println("${refused.fault}: $refused")
    }
}

private fun write(bundle: File, texts: Int) = OmniDraft.open(bundle).use { model ->
    var (written, tokens, drafted, resident) = listOf(0, 0, 0, 0)
    while (written < texts) {
        model.session().use { session ->
            val least = written
            while (written < minOf(texts, least + OF_A_SESSION)) {
                val config = GenerationConfig(maxNewTokens = 12, numDraftTokens = 2, ignoreEos = true)
                val result = session.generate("How many legs do $written cats have?", config, Executor { it.run() }) {}
                tokens += result.tokenIds.size
                drafted += result.stats.drafted
                written++
                resident = maxOf(resident, (residentBytes() / MEGABYTE).toInt())
                if (written % maxOf(1, texts / 10) == 0) {
                    println("$written texts, $tokens tokens, $drafted drafted, $resident MB resident, heap ${heap()} MB")
                    resident = 0
                }
            }
        }
    }
}

private fun heap(): Long = with(Runtime.getRuntime()) { (totalMemory() - freeMemory()) / MEGABYTE }
