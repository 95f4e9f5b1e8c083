package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.disk.dump
import io.omnidraft.device.Measure
import io.omnidraft.bundle.openBundle
import io.omnidraft.models.readAdapter
import io.omnidraft.models.writeAdapter
import java.io.File

/*
 * Writes files for a runtime in another language: `WriteSession BUNDLE OUT [ADAPTER]` writes into OUT a session that was
 * saved in the middle of an answer (talk.session), its cache (cache.odc), the adapter once more (adapter.safetensors),
 * and due.json: the ids of the answer when it is resumed, and those of the answer to the next message.
 * scripts/android/check_session.py reads them.
 */

private const val TOKENS = 32
private val MESSAGES = listOf("How many legs do 3 cats have?", "And how many legs do 4 more cats have?", "Add one dog.")

fun main(arguments: Array<String>) {
    val (bundle, out) = arguments.map { File(it) }
    loadBundle(openBundle(bundle), Loading(measure = Measure.NEVER)).use { loaded ->
        val greedy = GenerationConfig(maxNewTokens = TOKENS, numDraftTokens = 4)
        val sampled = greedy.copy(temperature = 1.0, seed = -3)
        val before = Session(loaded).use { session ->
            session.chat(MESSAGES[0], greedy).finish()
            val answer = session.chat(MESSAGES[1], sampled)
            repeat(3) { answer.next() }
            session.save(File(out, "talk.session"))
            session.saveCache(File(out, "cache.odc"))
            answer.tokenIds.size
        }
        val due = Session(loaded).use { session ->
            session.load(File(out, "talk.session"))
            val resumed = session.resume().finish().tokenIds
            linkedMapOf(
                "before" to before.toLong(),
                "resumed" to resumed.map { it.toLong() },
                "message" to MESSAGES[2],
                "after" to session.chat(MESSAGES[2], greedy).finish().tokenIds.map { it.toLong() },
            )
        }
        File(out, "due.json").writeBytes(dump(due))
    }
    arguments.getOrNull(2)?.let { writeAdapter(File(out, "adapter.safetensors"), readAdapter(File(it))) }
}
