package io.omnidraft.learning

import io.omnidraft.PushPart
import io.omnidraft.SessionOptions
import io.omnidraft.bundle.openBundle
import io.omnidraft.device.Measure
import io.omnidraft.learning.online.LearningController
import io.omnidraft.models.Role
import io.omnidraft.models.writeAdapter
import io.omnidraft.session.Loading
import io.omnidraft.session.Session
import io.omnidraft.session.loadBundle
import java.io.File

/*
 * Writes what a device learned, for a runtime in another language: `WriteLearned BUNDLE OUT` answers, learns, and
 * writes into OUT the adapter (learned.safetensors) and a push of all parts in the layout of a store (store/).
 * scripts/android/check_learned.py reads them.
 */

fun main(arguments: Array<String>) {
    val (bundle, out) = arguments.map { File(it) }
    val options = SessionOptions(traces = File(out, "traces"), learned = File(out, "learned"))
    loadBundle(openBundle(bundle), Loading(measure = Measure.NEVER)).use { loaded ->
        Session(loaded).use { session ->
            LearningController(session, options, null).use { learning ->
                learning.on()
                answers(session, 0 until 12)
                val outcome = learning.step(300.0)
                check(outcome.uses) { "nothing was learned" }
                writeAdapter(File(out, "learned.safetensors"), checkNotNull(session.adapters[Role.DRAFTER]))
                learning.writePush(File(out, "store"), "phone", PushPart.values().toSet())
                println("${outcome.steps} steps, loss ${outcome.loss}")
            }
        }
    }
}
