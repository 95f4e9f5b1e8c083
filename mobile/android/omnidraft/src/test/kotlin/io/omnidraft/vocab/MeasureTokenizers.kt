package io.omnidraft.vocab

import io.omnidraft.support.residentBytes
import java.io.File
import java.lang.management.ManagementFactory

/*
 * Prints what a compiled tokenizer takes: time to open, memory, and speed on the lines of
 * scripts/android/tokenizer_lines.py.
 *
 *     java ... io.omnidraft.vocab.MeasureTokenizersKt FOLDER NAME
 */
fun main(arguments: Array<String>) {
    val (folder, name) = arguments
    val start = cpuTime()
    val tokenizer = CompiledTokenizer.fromFile(File(folder, "$name.bin"))
    val opened = cpuTime()
    println("$name: ${tokenizer.size} ids, opened in ${(opened - start) / 1_000_000} ms of this thread")
    println("heap: ${heap() / 1024} KiB, resident ${residentBytes() / 1024} KiB")
    val texts = linesIn(File(folder, "lines.bin"))
    val bytes = texts.sumOf { it.toByteArray().size }
    repeat(3) { turn ->
        val begin = cpuTime()
        val ids = texts.sumOf { tokenizer.encode(it).size }
        val seconds = (cpuTime() - begin) / 1e9
        println("turn $turn: $bytes bytes, $ids ids, $seconds s, ${(bytes / seconds / 1000).toInt()} kB/s")
    }
    println("heap: ${heap() / 1024} KiB with the lines and all that was kept, resident ${residentBytes() / 1024} KiB")
    println("${tokenizer.name} and ${texts.size} texts") // both are needed up to here
}

/** Nanoseconds that the processor gave this thread, so that other programs do not change the figures. */
private fun cpuTime(): Long = ManagementFactory.getThreadMXBean().currentThreadCpuTime

private fun heap(): Long {
    repeat(3) { System.gc() }
    return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory()
}

private fun linesIn(file: File): List<String> {
    val data = file.readBytes()
    val lines = ArrayList<String>()
    var at = 0
    while (at < data.size) {
        val size = (0 until 4).sumOf { (data[at + it].toInt() and 0xff) shl (8 * it) }
        lines.add(String(data, at + 4, size, Charsets.UTF_8))
        at += 4 + size
    }
    return lines
}
