package io.omnidraft.learning

import io.omnidraft.Defaults
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.decoding.Logits
import io.omnidraft.decoding.SessionModel
import io.omnidraft.learning.positions.Aligned
import io.omnidraft.learning.positions.SparseDistributions
import io.omnidraft.session.tensorOf
import kotlin.math.exp
import kotlin.math.max
import kotlin.math.min
import kotlin.math.sqrt

/*
 * Compare two adapters of a drafter on recorded text by the expected acceptance of their draft tokens (spec/15-sync.md,
 * The adapter comparison).
 */

private const val CHUNK = 64 // positions whose logits are in memory at once

/** The result of comparing an offered adapter with the current one. */
internal class AdapterComparison(
    val generations: Int,
    val positions: Int,
    val current: Double, // expected acceptance of a draft token with the current adapter, 0 to 1
    val offered: Double, // expected acceptance of a draft token with the offered adapter, 0 to 1
    val low: Double, // lower end of the 95 % interval of `offered - current`; -infinity for too few generations
    val high: Double, // upper end of that interval; infinity for too few generations
) {
    val isBetter: Boolean get() = low > 0.0

    val isEnough: Boolean get() = generations >= Defaults.SYNC_LEAST_GENERATIONS
}

internal fun compare(
    model: SessionModel, // the drafter; afterwards it has the offered adapter and an empty context
    responses: List<Aligned>, // recorded generations (`fromTraces`), none longer than the model's context
    current: Map<String, FloatTensor>,
    offered: Map<String, FloatTensor>,
): AdapterComparison {
    val (before, after) = listOf(current, offered).map { tensors ->
        model.rewind(0)
        model.useAdapter(tensors.mapValues { tensorOf(it.value) })
        DoubleArray(responses.size) { acceptances(model, responses[it]).sum() }
    }
    val read = responses.indices.filter { responses[it].trieDistributions.size > 0 }
    if (read.isEmpty()) {
        return AdapterComparison(0, 0, 0.0, 0.0, Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY)
    }
    val counts = DoubleArray(read.size) { responses[read[it]].trieDistributions.size.toDouble() }
    val positions = counts.sum()
    val (low, high) = interval(DoubleArray(read.size) { after[read[it]] - before[read[it]] }, counts)
    return AdapterComparison(
        read.size, positions.toInt(),
        read.sumOf { before[it] } / positions, read.sumOf { after[it] } / positions, low, high,
    )
}

/**
 * The 95 % interval of the mean difference per position; generations are the observations.
 *
 * It is the interval of a ratio of sums, sum d / sum n, with residuals d - mean n (Cochran, Sampling Techniques,
 * chapter 6) and Student's t.
 *
 * @param differences d, the sum of differences over the positions of each generation.
 * @param counts n, the positions of each generation.
 */
internal fun interval(differences: DoubleArray, counts: DoubleArray): Pair<Double, Double> {
    val groups = counts.size
    if (groups < Defaults.SYNC_LEAST_GENERATIONS) return Pair(Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY)
    val mean = differences.sum() / counts.sum()
    var squares = 0.0
    for (i in counts.indices) {
        val residual = differences[i] - mean * counts[i]
        squares += residual * residual
    }
    val error = sqrt(squares * groups / (groups - 1)) / counts.sum()
    val t = studentT(NORMAL_95, groups - 1.0)
    return Pair(mean - t * error, mean + t * error)
}

/** Expected acceptance at each distribution of a response, times the weight of that distribution. */
internal fun acceptances(model: SessionModel, response: Aligned): DoubleArray {
    val distributions = response.trieDistributions
    val begins = BooleanArray(response.numRows)
    for (row in response.rows) if (row < begins.size) begins[row] = true
    val accepted = DoubleArray(distributions.size)
    val first = response.promptLength - 1 // the position whose logits are row 0
    var start = 0
    while (start < response.draftIds.size) {
        val inPrompt = start <= first
        val end = if (inPrompt) first + 1 else min(start + CHUNK, response.draftIds.size)
        val logits = model.score(response.draftIds.copyOfRange(start, end), if (inPrompt) 1 else null)
        val row = max(start, first) - first
        for (n in 0 until distributions.size) {
            val at = distributions.rows[n] - row
            if (at !in 0 until logits.rows) continue
            val q = probabilities(logits, at, response.vocabMap.draftAllowed)
            accepted[n] = overlap(q, distributions, n, !begins[distributions.rows[n]])
        }
        start = end
    }
    model.rewind(0)
    return accepted
}

/** Softmax of a row of logits over the draft tokens that may be drafted, at temperature 1. */
internal fun probabilities(logits: Logits, row: Int, allowed: BooleanArray): DoubleArray {
    val values = DoubleArray(logits.width) { Double.NEGATIVE_INFINITY }
    var largest = Double.NEGATIVE_INFINITY
    for (id in 0 until min(logits.width, allowed.size)) {
        if (!allowed[id]) continue
        values[id] = logits[row, id].toDouble()
        largest = max(largest, values[id])
    }
    var total = 0.0
    for (id in values.indices) {
        values[id] = exp(values[id] - largest)
        total += values[id]
    }
    for (id in values.indices) values[id] /= total
    return values
}

/**
 * sum min(P, Q) of a distribution, times its weight.
 *
 * Inside a spelling OTHER is the end of the spelling, which the drafter proposes by any token that continues no
 * spelling, so OTHER counts as one outcome. Elsewhere OTHER is many tokens of which only the sum is known. It counts as
 * 0 there, because a drafter with a flat distribution would gain by it.
 */
internal fun overlap(q: DoubleArray, distributions: SparseDistributions, n: Int, inside: Boolean): Double {
    val ids = distributions.ids[n]
    var kept = 0.0
    var drawn = 0.0
    for (k in ids.indices) {
        kept += min(q[ids[k]], distributions.probabilities[n][k])
        drawn += q[ids[k]]
    }
    if (inside) kept += min((1.0 - drawn).coerceIn(0.0, 1.0), distributions.other[n])
    return kept * distributions.weights[n]
}
