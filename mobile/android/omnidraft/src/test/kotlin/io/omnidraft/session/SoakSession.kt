package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.bundle.openBundle
import io.omnidraft.device.Measure
import io.omnidraft.support.residentBytes
import java.io.File

/*
 * Many short answers in one process: `SoakSession BUNDLE COUNT`. It says the resident memory 40 times. Every third answer
 * is cancelled, every tenth answer drops and loads its drafter, and each fiftieth answer begins a new session. The
 * program fails where the memory of the last quarter is above that of the second by more than a bound.
 */

private const val BOUND = 8L shl 20 // bytes

fun main(arguments: Array<String>) {
    val count = arguments[1].toInt()
    val samples = ArrayList<Long>()
    loadBundle(openBundle(File(arguments[0])), Loading(measure = Measure.NEVER)).use { loaded ->
        var session = Session(loaded)
        for (number in 1..count) {
            if (number % 50 == 0) {
                session.close()
                session = Session(loaded)
            }
            answer(session, number)
            if (number % maxOf(1, count / 40) == 0) {
                System.gc() // direct buffers of closed sessions are freed with their objects
                samples.add(residentBytes())
            }
        }
        session.close()
    }
    val (early, late) = samples.chunked(samples.size / 4).let { it[1].max() to it[3].max() }
    println("$count answers; resident ${samples.map { it shr 20 }} MiB")
    check(late - early <= BOUND) { "resident memory grew from $early to $late bytes" }
}

private fun answer(session: Session, number: Int) {
    val temperature = if (number % 2 == 0) 1.0 else 0.0
    val sampled = GenerationConfig(maxNewTokens = 12, temperature = temperature, seed = number.toLong())
    val answer = session.generate("How many legs do $number cats have?", sampled)
    answer.next()
    if (number % 10 == 0) session.models.dropDrafter()
    if (number % 3 == 0) answer.cancel()
    answer.finish()
    if (number % 10 == 0) session.models.loadDrafter()
}
