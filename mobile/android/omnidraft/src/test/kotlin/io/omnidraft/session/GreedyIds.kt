package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.bundle.openBundle
import io.omnidraft.device.Measure
import java.io.File

/*
 * Ids of greedy texts, plain and drafted, for scripts/arm64: `GreedyIds BUNDLE TOKENS DRAFT PROMPT ...` prints an object of JSON.
 */
fun main(arguments: Array<String>) {
    val (tokens, draft) = arguments.slice(1..2).map { it.toInt() }
    val prompts = arguments.drop(3)
    loadBundle(openBundle(File(arguments[0])), Loading(measure = Measure.NEVER)).use { loaded ->
        Session(loaded).use { session ->
            val (plain, drafted) = listOf(Mode.PLAIN, Mode.TRIE).map { mode ->
                val config = GenerationConfig(tokens, mode = mode, numDraftTokens = draft, ignoreEos = true)
                prompts.map { session.generate(it, config).finish().tokenIds.asList() }
            }
            check(session.stats.acceptedDrafts > 0) { "no draft was accepted" }
            println("""{"plain": $plain, "drafted": $drafted}""")
        }
    }
}
