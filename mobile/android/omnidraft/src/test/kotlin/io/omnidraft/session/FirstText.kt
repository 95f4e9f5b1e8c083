package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.OpenOptions
import java.io.File
import java.lang.management.ManagementFactory

/*
 * How long an app waits for the first text: `FirstText BUNDLE STATE`. The second run of the program finds what the
 * first one remembered in STATE, as an app that is started again does. Beside the time on the clock stands the
 * processor's time of this thread, which other programs on the machine change less; a small target and its drafter run
 * in this thread.
 */
fun main(arguments: Array<String>) {
    val (bundle, state) = arguments.map { File(it) }
    val started = Moment()
    openLoaded(bundle, OpenOptions(state = state)).use { loaded ->
        val opened = Moment()
        Session(loaded).use { session ->
            val answer = session.generate("How many legs do 3 cats have?", GenerationConfig(maxNewTokens = 32))
            val piece = answer.next()
            val first = Moment()
            answer.finish()
            val all = Moment()
            println("open ${opened.since(started)}, first text ${first.since(opened)}, the rest ${all.since(first)}")
            println("piece '${piece.text}' of '${answer.text}'; costs from ${loaded.device?.source}")
        }
    }
}

private class Moment {
    private val clock = seconds()
    private val processor = ManagementFactory.getThreadMXBean().currentThreadCpuTime * 1e-9

    fun since(before: Moment): String = "${ms(clock - before.clock)} ms (${ms(processor - before.processor)})"

    private fun ms(seconds: Double) = Math.round(seconds * 1000)
}
