package io.omnidraft.session

import io.omnidraft.GenerationConfig
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.DecoderState
import io.omnidraft.decoding.FixedLength
import io.omnidraft.decoding.Model
import io.omnidraft.decoding.Round
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.decoding.cutAtEos
import io.omnidraft.vocab.NgramCache
import java.util.TreeMap

/*
 * Measure this device: seconds of a target pass, of a draft token and of the round's own work.
 *
 * The machine is rarely idle, so all measurements take turns and each figure is a median. A disturbance then slows all
 * of them alike, and their ratios stay.
 */

private const val DRAFTED = 2
private const val TURNS = 4
private const val ROUNDS = 5 // in a turn
private const val REPEATS = 3 // of each pass in a turn
private const val TOKENS = 96 // more than all these rounds can emit

// Tokens of the timed passes; the others follow from the first ones.
private val PASSES = intArrayOf(1, 5, 9, 3, 7, 2, 4, 6, 8)
private const val LONGEST_PASS = 9
private const val PASSES_SHARE = 0.6 // of a turn's time, for passes; the rest is for rounds
private const val ROUND_PASSES = 2 // a round takes less time than this number of the longest passes
private const val COMPARED_PASSES = 16 // first passes of a generation,
private const val COMPARED_TOKENS = 512 // after at most so long a text
private const val MOST_RATIO = 2.0
private const val LEAST_PASSES = 2 // timed before a turn may end early; and one round

internal class Timings {
    /** Seconds of target passes by their tokens. */
    val passes = TreeMap<Int, MutableList<Double>>()

    /** Rounds with a draft before which the drafter had nothing to read. */
    val timed = ArrayList<Round>()

    var longest = 0.0

    /** The costs; passes that were not timed lie on the line between those that were. */
    fun costs(): Costs {
        val known = passes.mapValuesTo(TreeMap()) { median(it.value) }
        val seconds = (1..known.lastKey()).map { between(known, it) }
        // The pass after a draft takes longer than those after other passes: the drafter's weights took the caches.
        val drafts = timed.map {
            val more = it.seconds.target - seconds[minOf(it.proposed.size, seconds.size - 1)]
            (it.seconds.draft + maxOf(0.0, more)) / it.draft.size
        }
        val hosts = timed.map { it.seconds.translate + it.seconds.verify + it.seconds.learn }
        return Costs(
            // Costs must not fall with n; if they do, it was noise.
            DoubleArray(seconds.size) { n -> seconds.subList(n, seconds.size).min() },
            if (drafts.isEmpty()) seconds[0] else median(drafts),
            if (hosts.isEmpty()) 0.0 else median(hosts),
        )
    }
}

/**
 * Times target passes over 1 to 9 tokens after a prompt and some real rounds, greedy, in turns. Nothing begins that
 * would end after [seconds], if it takes as long as before.
 *
 * The cache of the models is not changed; their KV buffers are overwritten.
 *
 * @return null where the time was too short to time two passes and a draft.
 */
internal fun measureWithin(
    models: DecoderModels,
    prompt: IntArray, // target ids
    draftPrompt: IntArray, // the same text in draft ids
    seconds: Double,
): Costs? {
    val timings = Measurement(models, prompt, draftPrompt, seconds).run()
    if (timings.passes.size < LEAST_PASSES || timings.timed.isEmpty()) return null
    return timings.costs()
}

private class Measurement(
    models: DecoderModels,
    private val prompt: IntArray,
    draftPrompt: IntArray,
    private val most: Double, // seconds
) {
    private val target: Model = models.target
    private val timings = Timings()
    private val text = DecoderState()
    private val loop: Decode
    private val started: Double

    init {
        val tokens = minOf(TOKENS, target.maxLength - prompt.size)
        text.restart(prompt, draftPrompt, tokens, cutAtEos(emptySet()))
        val trial = DecoderModels(target, models.drafter, NgramCache(models.cache.map))
        loop = Decode(trial, text, GenerationConfig(), FixedLength(DRAFTED), SplitMix64(0))
        started = seconds()
    }

    fun run(): Timings {
        val before = prompt.copyOf(minOf(prompt.size, target.maxLength - LONGEST_PASS))
        for (turn in 0 until TURNS) {
            timePasses(before, turn + PASSES_SHARE)
            text.cached.clear() // the KV buffers hold other positions now
            for (i in 0 until ROUNDS) {
                if (isOver(turn + 1.0, timings.timed.isNotEmpty(), ROUND_PASSES) || !loop.hasNext()) break
                val round = loop.next()
                // In the first round the drafter reads its context again.
                if (i > 0 && round.draft.isNotEmpty()) timings.timed.add(round)
            }
        }
        return timings
    }

    /** Whether more passes would end after all the time, or begin after the turns and there is enough. */
    private fun isOver(turns: Double, enough: Boolean, passes: Int): Boolean {
        val passed = seconds() - started
        return passed + passes * timings.longest >= most || (enough && passed >= most * turns / TURNS)
    }

    /** Adds the seconds of passes after a prompt, by their tokens; their ids do not matter. */
    private fun timePasses(before: IntArray, turns: Double) {
        if (isOver(turns, timings.passes.size >= LEAST_PASSES, 1)) return
        target.rewind(0)
        timed(before, 1)
        val past = target.length
        repeat(REPEATS) {
            for (n in PASSES) {
                if (isOver(turns, timings.passes.size >= LEAST_PASSES, 1)) return
                timings.passes.getOrPut(n) { ArrayList() }.add(timed(IntArray(n) { before[0] }, null))
                target.rewind(past)
            }
        }
    }

    private fun timed(tokens: IntArray, rows: Int?): Double {
        val begun = seconds()
        target.score(tokens, rows)
        val taken = seconds() - begun
        timings.longest = maxOf(timings.longest, taken)
        return taken
    }
}

/** The middle of some numbers; the mean of the two in the middle of an even number of them. */
internal fun median(numbers: List<Double>): Double {
    val sorted = numbers.sorted()
    val middle = sorted.size / 2
    return if (sorted.size % 2 == 1) sorted[middle] else (sorted[middle - 1] + sorted[middle]) / 2
}

/** The seconds of a pass over n tokens, on the line between the nearest passes that are known. */
private fun between(known: TreeMap<Int, Double>, n: Int): Double {
    val below = known.floorEntry(n) ?: known.firstEntry()
    val above = known.ceilingEntry(n) ?: known.lastEntry()
    if (below.key == above.key) return below.value
    return below.value + (above.value - below.value) * (n - below.key) / (above.key - below.key)
}

/** Compares the first passes of a generation with costs of this device. */
internal class CostsWatch(private val costs: Costs) {
    private val ratios = ArrayList<Double>() // seconds of each pass, relative to its costs

    /**
     * Counts a target pass over a number of tokens; whether the passes so far show that they take twice as long as the
     * costs say. [length] is that of the text before it: attention makes the passes of a long text slower.
     */
    fun areOutdated(tokens: Int, seconds: Double, length: Int): Boolean {
        if (length > COMPARED_TOKENS || ratios.size == COMPARED_PASSES) return false
        ratios.add(seconds / costs.passSeconds(tokens))
        return ratios.size == COMPARED_PASSES && median(ratios) > MOST_RATIO
    }
}
