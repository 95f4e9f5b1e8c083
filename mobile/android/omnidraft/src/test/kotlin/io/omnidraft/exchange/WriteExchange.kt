package io.omnidraft.exchange

import io.omnidraft.GenerationConfig
import io.omnidraft.PushPart
import io.omnidraft.SessionOptions
import io.omnidraft.bundle.openBundle
import io.omnidraft.device.Measure
import io.omnidraft.learning.answers
import io.omnidraft.learning.online.LearningController
import io.omnidraft.models.Role
import io.omnidraft.models.writeAdapter
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Loading
import io.omnidraft.session.Session
import io.omnidraft.session.loadBundle
import java.io.File

/*
 * Writes files for the runtimes in other languages: `WriteExchange BUNDLE FOLDER` writes what scripts/phones/exchange.py
 * lists, a session that was saved in the middle of an answer, its n-grams, a trace, what was learned from it, and a push.
 */

internal val MESSAGES = listOf("How many legs do 3 cats have?", "And how many legs do 4 more cats have?", "Add one dog.")
internal val GREEDY = GenerationConfig(maxNewTokens = 32, numDraftTokens = 4)
internal val SAMPLED = GREEDY.copy(temperature = 1.0, seed = 77)

fun main(arguments: Array<String>) {
    val (bundle, folder) = arguments.map { File(it) }
    loadBundle(openBundle(bundle), Loading(measure = Measure.NEVER)).use { loaded ->
        writeTalk(loaded, folder)
        writeLearned(loaded, folder)
    }
}

private fun writeTalk(loaded: LoadedBundle, folder: File) = Session(loaded).use { session ->
    session.chat(MESSAGES[0], GREEDY).finish()
    val answer = session.chat(MESSAGES[1], SAMPLED)
    repeat(3) { answer.next() }
    session.save(File(folder, "talk.session"))
    session.cache.prefill()
    session.saveCache(File(folder, "cache.odc"))
}

private fun writeLearned(loaded: LoadedBundle, folder: File) {
    val options = SessionOptions(traces = File(folder, "traces"), learned = File(folder, "learned"))
    Session(loaded).use { session ->
        LearningController(session, options, null).use { learning ->
            learning.on()
            answers(session, 0 until 12)
            val outcome = learning.step(300.0)
            check(outcome.uses) { "nothing was learned" }
            writeAdapter(File(folder, "learned.safetensors"), checkNotNull(session.adapters[Role.DRAFTER]))
            val push = learning.push(PushPart.values().toSet())
            File(folder, "store/${push.name}").apply { parentFile.mkdirs() }.writeBytes(push.data)
        }
    }
}
