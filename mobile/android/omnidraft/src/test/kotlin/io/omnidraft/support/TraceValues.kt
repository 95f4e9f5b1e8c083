package io.omnidraft.support

import io.omnidraft.Defaults
import io.omnidraft.traces.Frame
import io.omnidraft.traces.Masses
import io.omnidraft.traces.Segment
import io.omnidraft.traces.Start
import io.omnidraft.traces.TraceHeader
import io.omnidraft.traces.TracedRound
import io.omnidraft.traces.TracedToken
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.floatOf
import io.omnidraft.traces.halfOf
import kotlin.math.max
import kotlin.random.Random

/* Random traces for tests: what tests/support/trace_files.py makes for the Python runtime. */

/** The pair of a language of 8 draft ids and 10 target ids. */
internal val SMALL_PAIR = Vocabularies("d".repeat(64), "e".repeat(64), 8, 10)

/** Records whose rounds lie between one another. */
internal fun randomSegment(random: Random, records: Int = 3, rounds: Int = 3, pair: Vocabularies = SMALL_PAIR): Segment {
    val values = TraceValues(random, pair)
    val frames = ArrayList<Frame>()
    var begun = 0
    repeat(records + records * rounds) {
        if (begun < records && (begun == 0 || random.nextDouble() < 0.3)) {
            frames.add(Frame(begun.toLong(), values.start()))
            begun += 1
        } else {
            frames.add(Frame(random.nextInt(begun).toLong(), values.round()))
        }
    }
    return Segment(TraceHeader(pair, 1), frames)
}

internal class TraceValues(private val random: Random, private val pair: Vocabularies = SMALL_PAIR) {
    private val draftIds = minOf(pair.draftSize, 1L shl 20).toInt()
    private val targetIds = minOf(pair.targetSize, 1L shl 20).toInt()

    fun start(): Start = Start(
        drafterAdapter = if (random.nextBoolean()) null else "a".repeat(64),
        targetAdapter = null,
        mode = "trie",
        continues = random.nextInt(3) == 0,
        skipped = 0,
        context = draft(random.nextInt(9)),
    )

    fun round(): TracedRound {
        val accepted = random.nextInt(4)
        return TracedRound(List(accepted + 1) { token(it < accepted) })
    }

    private fun token(accepted: Boolean): TracedToken {
        val unspelled = if (random.nextBoolean()) 0.0 else single(0.1)
        return TracedToken(
            random.nextInt(targetIds), single(random.nextDouble(9.0)), accepted,
            masses(targetIds, 0.0), masses(draftIds, unspelled), unspelled,
        )
    }

    /** A distribution over some ids, the rest of its mass elsewhere. */
    private fun masses(size: Int, beside: Double): Masses {
        val ids = List(random.nextInt(7)) { random.nextInt(size) }.distinct().sorted()
        val weights = List(ids.size + 1) { random.nextDouble() }
        val shares = weights.map { it / weights.sum() * (1.0 - beside) }
        val kept = ids.indices.filter { shares[it] >= Defaults.TRACE_FLOOR }
        val probabilities = FloatArray(kept.size) { floatOf(halfOf(shares[kept[it]].toFloat())) }
        val rest = 1.0 - beside - kept.sumOf { shares[it] }
        return Masses(IntArray(kept.size) { ids[kept[it]] }, probabilities, single(max(0.0, rest)))
    }

    private fun draft(count: Int) = IntArray(count) { random.nextInt(draftIds) }

    private fun single(number: Double): Double = number.toFloat().toDouble()
}

/** One round of a trace: a token with the number as its id. */
internal fun numberedRound(number: Int): TracedRound {
    val ids = IntArray(4 + number % 7) { it }
    val masses = Masses(ids, FloatArray(ids.size) { 1f / 64 }, 1.0 - ids.size / 64.0)
    return TracedRound(listOf(TracedToken(number, 0.5, false, masses, masses, 0.0)))
}
