package io.omnidraft.traces

import io.omnidraft.Defaults
import io.omnidraft.Defaults.TRACE_TOP as TOP
import io.omnidraft.decoding.BLOCK
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.Outcome
import io.omnidraft.decoding.RowMath
import io.omnidraft.decoding.TargetProbs
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.VocabMap
import kotlin.math.ln
import kotlin.math.max
import kotlin.math.min

/*
 * From a round to what a trace keeps of it: the largest probabilities of the target.
 *
 * It reads the values of the loop and changes none of them, so a recorded generation emits the same tokens.
 */

private const val ROUNDING = 2e-6 // error of a sum of 150,000 float32

/**
 * Makes a [TracedRound] from a round while recording is on. It holds memory of the size of the vocabularies, which each
 * row uses again; one thread uses it.
 */
internal class Tracer(private val map: VocabMap, private val recording: () -> Boolean) {
    private val math by lazy { RowMath() }
    private val weights by lazy { FloatArray(map.targetSize) }
    private val blocks by lazy { DoubleArray((map.targetSize + BLOCK - 1) / BLOCK) }
    private val firsts by lazy { firstsOf(map) }
    private val sums by lazy { FloatArray(firsts.size) }
    private val candidates = Candidates()

    /** A round as a trace keeps it; null in a pause or where a row has no distribution. */
    operator fun invoke(outcome: Outcome, probs: TargetProbs): TracedRound? {
        if (!recording()) return null
        val tokens = ArrayList<TracedToken>(outcome.emitted.size)
        for (i in outcome.emitted.indices) {
            val row = row(probs.logits, i) ?: return null
            val token = outcome.emitted[i]
            val (roots, unspelled) = roots(row)
            tokens.add(
                TracedToken(
                    token, row.surprisal(token), i < outcome.verdict.accepted, row.largest(TOP), roots, unspelled,
                ),
            )
        }
        return TracedRound(tokens)
    }

    /** The distribution of a row of logits, until the next call; null where the logits have no distribution. */
    fun row(logits: Logits, row: Int): Row? {
        val shift = logits[row, math.argmax(logits, row)]
        if (shift.isNaN() || shift.isInfinite()) return null
        math.exponentials(logits, row, shift, 1f, weights, blocks)
        return Row(logits, row, shift.toDouble(), weights, blocks.sum(), candidates)
    }

    /** Masses below the children of the root of the whole trie, and the mass without a spelling. */
    fun roots(row: Row): Pair<Masses, Double> {
        val weights = row.weights
        val leaves = map.leaves
        val offsets = map.firstOffsets
        val firsts = firsts
        var whole = 0.0
        for (i in firsts.indices) {
            var sum = 0.0
            for (leaf in offsets[firsts[i]] until offsets[firsts[i] + 1]) sum += weights[leaves[leaf]]
            sums[i] = sum.toFloat()
            whole += sum
        }
        whole /= row.total
        // A sum of float32 differs from 1 by about 1e-6 that belongs to no token.
        val unspelled = if (whole < 1.0 - ROUNDING) 1.0 - whole else 0.0
        return Pair(largest(sums, sums.size, row.total, whole, TOP, firsts, candidates), unspelled)
    }
}

/** The draft ids that spellings begin with, ascending. */
private fun firstsOf(map: VocabMap): IntArray {
    val firsts = IntList()
    for (draft in 0 until map.draftSize) if (map.firstOffsets[draft + 1] > map.firstOffsets[draft]) firsts.add(draft)
    return firsts.toArray()
}

/** The distribution of a row at temperature 1. */
internal class Row(
    private val logits: Logits, // the row of them that has number index
    private val index: Int,
    val shift: Double,
    val weights: FloatArray, // exp(logit - shift) of each id; the next row overwrites them
    val total: Double, // the sum of the weights
    private val candidates: Candidates, // memory that all rows use
) {
    /** -ln of a token's probability, in nats. */
    fun surprisal(token: Int): Double = max(0.0, shift + ln(total) - logits[index, token])

    /** The [top] most probable tokens. */
    fun largest(top: Int): Masses = largest(weights, logits.width, total, 1.0, top, candidates = candidates)
}

/** The largest of some probabilities (ties: lowest first), and the sum of the others. */
internal fun largest(
    weights: FloatArray, // in proportion to the probabilities, the first size of them
    size: Int,
    total: Double, // the weight of probability 1
    whole: Double, // the sum of all probabilities
    top: Int, // number of probabilities to keep
    ids: IntArray? = null, // the ids of the probabilities, ascending; their positions when null
    candidates: Candidates = Candidates(), // memory that calls use one after another
): Masses {
    val floor = (Defaults.TRACE_FLOOR * total).toFloat()
    val likely = candidates.places
    likely.clear()
    for (i in 0 until size) if (weights[i] >= floor) likely.add(i)
    val kept = if (likely.size > top) candidates.heaviest(weights, top) else likely.toArray()
    var listed = 0.0
    val probabilities = FloatArray(kept.size) {
        val probability = (weights[kept[it]] / total.toFloat()).coerceIn(Defaults.TRACE_FLOOR.toFloat(), 1f)
        listed += probability
        floatOf(halfOf(probability))
    }
    val rest = min(1.0, max(0.0, whole - listed))
    return Masses(if (ids == null) kept else IntArray(kept.size) { ids[kept[it]] }, probabilities, rest)
}

/** Places of weights that are not too small to be kept. There are 2^14 at most, by their least share of the sum. */
internal class Candidates {
    val places = IntList()

    private var values = FloatArray(0)

    /** The [top] of the places with the largest weights, ascending; of equal weights the first. */
    fun heaviest(weights: FloatArray, top: Int): IntArray {
        val count = places.size
        if (values.size < count) values = FloatArray(count + count / 2)
        for (i in 0 until count) values[i] = weights[places[i]]
        values.sort(0, count)
        val least = values[count - top]
        var ties = top
        for (i in count - top until count) if (values[i] > least) ties -= 1
        val kept = IntArray(top)
        var at = 0
        for (i in 0 until count) {
            val weight = weights[places[i]]
            if (weight < least || (weight == least && ties == 0)) continue
            if (weight == least) ties -= 1
            kept[at++] = places[i]
        }
        return kept
    }
}
