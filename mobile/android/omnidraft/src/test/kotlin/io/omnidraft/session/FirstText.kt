package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.OpenOptions
import java.io.File

/*
 * How long an app waits for the first text: `FirstText BUNDLE STATE`. The second run of the program finds what the first
 * one remembered in STATE, as an app that is started again does.
 */
fun main(arguments: Array<String>) {
    val (bundle, state) = arguments.map { File(it) }
    val started = seconds()
    openLoaded(bundle, OpenOptions(state = state)).use { loaded ->
        val opened = seconds()
        Session(loaded).use { session ->
            val answer = session.generate("How many legs do 3 cats have?", GenerationConfig(maxNewTokens = 32))
            val piece = answer.next()
            val first = seconds()
            answer.finish()
            val all = seconds()
            val parts = listOf("open" to opened - started, "first text" to first - opened, "the rest" to all - first)
            println(parts.joinToString { (name, time) -> "$name ${Math.round(time * 1000)} ms" })
            println("piece '${piece.text}' of '${answer.text}'; costs from ${loaded.device?.source}")
        }
    }
}
