package io.omnidraft.decoding

import io.omnidraft.BundleException
import io.omnidraft.SettingException

/*
 * From logits to distributions: drafting, verification, correction and bonus use the same probabilities
 * (spec/04-speculation.md, section 2).
 */

private const val COLDEST = 1e-4
private const val SMALLEST_DIVISOR = 1.17549435e-38f // of float32; the inverse of it is finite

private val NO_WEIGHTS = FloatArray(0)

/** A row of logits of which no distribution can be made: its largest logit is NaN or infinite. */
internal class LogitsError(message: String) :
    BundleException("logits", message, "use another bundle, or no adapter")

/**
 * How a row of logits becomes the target's distribution.
 *
 * The steps are taken in the order of transformers: repetition penalty, temperature, top-k, top-p, min-p.
 *
 * @property topP of those, in order of falling probability (ties: lowest ids first), keep each token before which less
 *   than this share of their mass comes; 1 keeps all.
 * @property minP of those, keep each token with at least this share of the largest probability; 0 keeps all.
 * @property repetitionPenalty divides the positive and multiplies the negative logits of every id in the context,
 *   prompt included; 1 changes nothing.
 * @throws SettingException a value outside its range.
 */
internal data class SamplingConfig(
    val temperature: Double = 0.0, // divides the logits; 0 takes the argmax after the penalty (ties: lowest id)
    val topK: Int = 0, // number of the most probable tokens to keep (ties: lowest ids first); 0 keeps all
    val topP: Double = 1.0,
    val minP: Double = 0.0,
    val repetitionPenalty: Double = 1.0,
) {
    init {
        checkTemperature(temperature)
        if (topK < 0) refuse("topK $topK is less than 0", "use 0 to keep all tokens, 40 is usual", "topK")
        if (!(0.0 < topP && topP <= 1.0)) {
            refuse("topP $topP is outside 0 < topP <= 1", "use 1 to keep all tokens, 0.95 is usual", "topP")
        }
        if (!(minP in 0.0..1.0)) {
            refuse("minP $minP is outside 0..1", "use 0 to keep all tokens, 0.05 is usual", "minP")
        }
        if (!(0.0 < repetitionPenalty && repetitionPenalty < Double.POSITIVE_INFINITY)) {
            val sentence = "repetitionPenalty $repetitionPenalty is not a number above 0"
            refuse(sentence, "use 1 for none, 1.1 is usual", "repetitionPenalty")
        }
    }
}

private fun refuse(message: String, remedy: String, setting: String): Nothing =
    throw SettingException(message, remedy, setting)

/** The distribution of one row of logits. */
internal fun targetDistribution(
    logits: Logits,
    row: Int,
    sampling: SamplingConfig, // what is done to it
    context: IntArray = NO_IDS, // target ids before the row, for the repetition penalty
    workspace: Workspace = Workspace(), // lends the distribution its memory
    allowed: IdSet? = null, // the ids that may come at all; null: all
): Distribution {
    val width = logits.width
    val math = workspace.math
    val penalises = sampling.repetitionPenalty != 1.0 && context.isNotEmpty()
    val changes = penalises || allowed != null
    val weights = if (changes || sampling.temperature > 0.0) workspace.row(width) else NO_WEIGHTS
    if (changes) {
        logits.read(row, 0, width, weights)
        allowed?.restrict(weights)
    }
    if (penalises) penalise(weights, width, sampling.repetitionPenalty.toFloat(), context)
    val best = if (changes) math.argmax(weights, width) else math.argmax(logits, row)
    val largest = if (changes) weights[best] else logits[row, best]
    checkFinite(largest, "target")
    if (sampling.temperature == 0.0) return OneHot(best, width)
    val divisor = divisor(sampling.temperature)
    val blocks = emptyBlocks(width)
    if (changes) math.exponentials(weights, width, largest, divisor, blocks)
    else math.exponentials(logits, row, largest, divisor, weights, blocks)
    if (!truncate(weights, width, sampling, workspace)) return Categorical(weights, width, workspace, blocks)
    return Categorical(weights, width, workspace)
}

/** Set the weights to 0 that top-k, top-p and min-p do not keep; false where the settings keep all. */
private fun truncate(weights: FloatArray, width: Int, sampling: SamplingConfig, workspace: Workspace): Boolean {
    val keepsNucleus = sampling.topK > 0 || sampling.topP < 1.0
    if (keepsNucleus) keepNucleus(weights, width, sampling, workspace)
    if (sampling.minP > 0.0) {
        val least = sampling.minP.toFloat() // the largest weight is exp(0) = 1 and always kept
        for (id in 0 until width) if (weights[id] < least) weights[id] = 0f
    }
    return keepsNucleus || sampling.minP > 0.0
}

/**
 * The settings whose distribution log-probabilities are of.
 *
 * Above temperature 0 they are the settings themselves. At temperature 0 the distribution is certain, so
 * log-probabilities are of the softmax of the penalised logits.
 */
internal fun scoring(sampling: SamplingConfig): SamplingConfig =
    if (sampling.temperature > 0.0) sampling
    else SamplingConfig(temperature = 1.0, repetitionPenalty = sampling.repetitionPenalty)

/** The target's distribution after a number of proposed tokens. */
internal fun interface Probs {
    operator fun invoke(row: Int): Distribution
}

/**
 * The target's distributions of one pass; each is computed when it is first asked for.
 *
 * They live until the next round: it borrows the same memory.
 *
 * @param context target ids before the last row: all so far, and the n proposed ones. Only the repetition penalty
 *   reads it; without one it may be empty.
 */
internal class TargetProbs(
    val logits: Logits, // the last n + 1 - c rows of a pass over the last token and n proposed ones
    private val sampling: SamplingConfig, // how a row becomes a distribution
    private val context: IntArray,
    private val workspace: Workspace = Workspace(), // lends the distributions their memory
    private val allowed: (Int) -> IdSet? = { null }, // the ids that may follow a row's tokens; null: all
    private val certain: IntArray = NO_IDS, // the first c proposed tokens, which nothing else may replace
) : Probs {
    private val rows = arrayOfNulls<Distribution>(certain.size + logits.rows)

    /** The distribution of the token after [row] proposed tokens. */
    override fun invoke(row: Int): Distribution =
        rows[row] ?: computed(row).also { rows[row] = it }

    /** Natural log-probability of each emitted token under its row; see [scoring] for temperature 0. */
    fun logprobs(emitted: IntArray): DoubleArray {
        val probs =
            if (sampling.temperature > 0.0) this else TargetProbs(logits, scoring(sampling), context, workspace, allowed, certain)
        return DoubleArray(emitted.size) { Math.log(probs(it).probability(emitted[it])) }
    }

    private fun computed(row: Int): Distribution {
        val at = row - certain.size
        if (at < 0) return OneHot(certain[row], logits.width, draws = sampling.temperature > 0.0)
        return targetDistribution(logits, at, sampling, before(at), workspace, allowed(row))
    }

    private fun before(row: Int): IntArray =
        if (sampling.repetitionPenalty == 1.0) NO_IDS // the usual case needs no copy
        else context.copyOf(context.size - logits.rows + 1 + row)
}

/** Apply the repetition penalty to every distinct id of a context. */
private fun penalise(logits: FloatArray, size: Int, penalty: Float, context: IntArray) {
    val seen = IdSet(size)
    for (id in context) {
        if (id in seen) continue
        seen.add(id)
        logits[id] = if (logits[id] > 0f) logits[id] / penalty else logits[id] * penalty
    }
}

/** The drafter's distribution of one row, without the ids that it may not propose. */
internal fun draftDistribution(
    logits: Logits,
    row: Int,
    temperature: Double,
    banned: IntArray, // draft ids that are never drawn
    workspace: Workspace = Workspace(), // lends the distribution its memory
    allowed: IdSet? = null, // the ids that may be drawn; null: all that are not banned
    isConfident: Boolean = false, // whether the confidence is computed at temperature 0; otherwise it is 1 there
): Distribution {
    val width = logits.width
    var best = workspace.math.argmax(logits, row)
    checkFinite(logits[row, best], "drafter")
    val isFree = best !in banned && (allowed == null || best in allowed)
    val isBare = temperature == 0.0 && !isConfident
    if (isBare && isFree) return OneHot(best, width) // needs no copy
    val weights = workspace.row(width)
    logits.read(row, 0, width, weights)
    allowed?.restrict(weights)
    for (id in banned) weights[id] = Float.NEGATIVE_INFINITY
    if (!isFree) best = workspace.math.argmax(weights, width)
    val largest = weights[best]
    checkFinite(largest, "drafter")
    if (isBare) return OneHot(best, width)
    // Relative to the largest logit that is allowed: so the others keep weight where a banned one is much larger.
    val blocks = emptyBlocks(width)
    val divisor = if (temperature == 0.0) 1f else divisor(temperature)
    workspace.math.exponentials(weights, width, largest, divisor, blocks)
    if (temperature == 0.0) return OneHot(best, width, weights[best] / blocks.sum())
    return Categorical(weights, width, workspace, blocks)
}

/** A temperature as a divisor of float32: neither 0 nor infinite. */
private fun divisor(temperature: Double): Float = temperature.toFloat().coerceIn(SMALLEST_DIVISOR, Float.MAX_VALUE)

private fun checkFinite(largest: Float, role: String) {
    if (largest.isNaN() || largest.isInfinite()) {
        throw LogitsError("the largest logit of the $role is $largest, so nothing can be drawn")
    }
}

/** Refuse a temperature that is neither 0 nor large enough to divide float32 logits by. */
internal fun checkTemperature(temperature: Double): Double {
    if (temperature.isNaN() || temperature.isInfinite() || temperature < 0.0) {
        val remedy = "use 0 for greedy decoding, 1 for the model's own distribution"
        refuse("temperature $temperature is not a finite number >= 0", remedy, "temperature")
    }
    if (0.0 < temperature && temperature < COLDEST) {
        refuse("temperature $temperature is below $COLDEST", "use 0 for greedy decoding", "temperature")
    }
    return temperature
}
