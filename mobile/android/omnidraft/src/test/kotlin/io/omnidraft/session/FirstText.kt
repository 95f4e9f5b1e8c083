package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.LoadOptions
import io.omnidraft.support.residentBytes
import java.io.File
import java.lang.management.ManagementFactory

/*
 * How long an app waits for the first text, and the memory of the process: `FirstText BUNDLE STATE`. The second run of the
 * program finds what the first one remembered in STATE, as an app that is started again does. Beside the time on the clock
 * stands the processor's time of this thread, which other programs on the machine change less; a small target and its
 * drafter run in this thread. The memory has the virtual machine's own, which is said first.
 */
fun main(arguments: Array<String>) {
    val (bundle, state) = arguments.map { File(it) }
    println("before: ${megabytes()}")
    val started = Moment()
    openLoaded(bundle, LoadOptions(state = state)).use { loaded ->
        val opened = Moment()
        println("open ${opened.since(started)}, costs from ${loaded.device?.source}: ${megabytes()}")
        val begun = Moment()
        Session(loaded).use { session ->
            val answer = session.generate("How many legs do 3 cats have?", GenerationConfig(maxNewTokens = 32))
            val piece = answer.next()
            val first = Moment()
            answer.finish()
            val all = Moment()
            println("first text ${first.since(begun)}, the rest ${all.since(first)}: ${megabytes()}")
            println("piece '${piece.text}' of '${answer.text}'")
        }
    }
}

private fun megabytes() = "${residentBytes() / 1_000_000} MB resident, ${residentBytes("VmHWM") / 1_000_000} MB at most"

private class Moment {
    private val clock = seconds()
    private val processor = ManagementFactory.getThreadMXBean().currentThreadCpuTime * 1e-9

    fun since(before: Moment): String = "${ms(clock - before.clock)} ms (${ms(processor - before.processor)})"

    private fun ms(seconds: Double) = Math.round(seconds * 1000)
}
