package io.omnidraft.decoding

import io.omnidraft.support.rows
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.VocabMap
import kotlin.math.exp
import kotlin.math.ln
import kotlin.math.sqrt

/*
 * A language small enough to enumerate: eight draft tokens, ten target tokens, random models, as tests/support/toy.py.
 */

// i: maps to nothing; sfo: longer than a target token; #: control
internal val DRAFT_TOKENS: List<String> = listOf("s", "f", "la", "ke", "o", "i", "sfo", "#")

// X: nothing spells it
internal val TARGET_TOKENS: List<String> = listOf("S", "F", "LA", "KE", "O", "FLAKE", "FO", "FLAS", "X", "LAKE")
private val DIRECT = mapOf("s" to "S", "f" to "F", "la" to "LA", "ke" to "KE", "o" to "O")
internal val GRAMS: Map<String, List<String>> = mapOf(
    "FLAKE" to listOf("f", "la", "ke"), "FO" to listOf("f", "o"),
    "FLAS" to listOf("f", "la", "s"), "LAKE" to listOf("la", "ke"),
)
private val EXPANSIONS = mapOf("sfo" to listOf("S", "F", "O"))

private fun d(name: String): Int = DRAFT_TOKENS.indexOf(name)

private fun t(name: String): Int = TARGET_TOKENS.indexOf(name)

internal fun toyMap(): VocabMap {
    val directTo = DIRECT.entries.associate { it.value to it.key }
    val spellings = TARGET_TOKENS.map { target ->
        val pieces = GRAMS[target] ?: listOfNotNull(directTo[target])
        pieces.map { d(it) }.toIntArray()
    }
    val leaves = spellings.indices.filter { spellings[it].isNotEmpty() }
        .sortedWith { a, b -> compare(spellings[a], spellings[b]) }
    return VocabMap(
        targetBytes = rows(TARGET_TOKENS.map { name -> name.map { it.code }.toIntArray() }),
        direct = IntArray(DRAFT_TOKENS.size) { DIRECT[DRAFT_TOKENS[it]]?.let { target -> t(target) } ?: -1 },
        spellings = rows(spellings),
        expansions = rows(DRAFT_TOKENS.map { EXPANSIONS[it].orEmpty().map { target -> t(target) }.toIntArray() }),
        leaves = leaves.toIntArray(),
        draftAllowed = BooleanArray(DRAFT_TOKENS.size) { DRAFT_TOKENS[it] != "#" },
        draftFingerprint = "d".repeat(64),
        targetFingerprint = "e".repeat(64),
    )
}

private fun compare(a: IntArray, b: IntArray): Int {
    for (i in 0 until minOf(a.size, b.size)) if (a[i] != b[i]) return a[i] - b[i]
    return a.size - b.size
}

internal fun toyCache(map: VocabMap, grams: Collection<String>): NgramCache {
    val cache = NgramCache(map)
    for (gram in grams) check(cache.insert(t(gram))) { "no n-gram $gram" }
    return cache
}

/** Random logits that depend on the whole context; scores and rewinds like any model. */
internal open class ContextModel(
    private val seed: Long,
    override val vocabSize: Int,
    private val spread: Double = 1.5,
    override val maxLength: Int = 64,
) : Model {
    private val context = ArrayList<Int>()
    private val known = HashMap<List<Int>, FloatArray>()

    override val length: Int get() = context.size

    /** The logits behind a context. */
    open fun row(context: List<Int>): FloatArray = known.getOrPut(context.toList()) {
        val random = SplitMix64(context.fold(seed) { hash, token -> (SplitMix64(hash + token).nextU64()) })
        FloatArray(vocabSize) { (normal(random) * spread).toFloat() }
    }

    override fun score(tokens: IntArray, numLogits: Int?): Logits {
        check(tokens.isNotEmpty() && length + tokens.size <= maxLength) { "${tokens.size} tokens at $length" }
        val rows = tokens.map {
            context.add(it)
            row(context)
        }
        val kept = rows.takeLast(numLogits ?: rows.size)
        val values = FloatArray(kept.size * vocabSize) { kept[it / vocabSize][it % vocabSize] }
        return Logits.of(values, vocabSize)
    }

    override fun rewind(length: Int) {
        check(length in 0..context.size) { "rewind to $length of ${context.size}" }
        while (context.size > length) context.removeAt(context.size - 1)
    }
}

/** A model whose rows are spoiled behind some texts. */
internal class UnsoundModel(seed: Long, vocabSize: Int, private val spoil: (FloatArray) -> Unit) :
    ContextModel(seed, vocabSize) {
    override fun row(context: List<Int>): FloatArray {
        val row = super.row(context)
        if (context.sum() % 3 != 1) return row
        return row.copyOf().also { spoil(it) }
    }
}

private fun normal(random: SplitMix64): Double =
    sqrt(-2.0 * ln(1.0 - random.uniform())) * Math.cos(2.0 * Math.PI * random.uniform())

/** The target's distribution as [SamplingConfig] describes it, step by step in float64 with a plain sort. */
internal fun processed(row: FloatArray, sampling: SamplingConfig, context: List<Int>): DoubleArray {
    val logits = DoubleArray(row.size) { row[it].toDouble() }
    for (id in context.toSet()) {
        val penalty = sampling.repetitionPenalty
        logits[id] = if (logits[id] > 0.0) logits[id] / penalty else logits[id] * penalty
    }
    val largest = logits.max()
    if (sampling.temperature == 0.0) {
        val best = logits.indexOfFirst { it == largest }
        return DoubleArray(row.size) { if (it == best) 1.0 else 0.0 }
    }
    val weights = DoubleArray(row.size) { exp((logits[it] - largest) / sampling.temperature) }
    val ranked = weights.indices.sortedWith(compareBy({ -weights[it] }, { it }))
        .take(if (sampling.topK == 0) row.size else sampling.topK)
    val mass = ranked.sumOf { weights[it] }
    val kept = HashSet<Int>()
    var before = 0.0
    for (id in ranked) {
        if (before / mass < sampling.topP && weights[id] >= sampling.minP * weights[ranked[0]]) kept.add(id)
        before += weights[id]
    }
    val sum = kept.sumOf { weights[it] }
    return DoubleArray(row.size) { if (it in kept) weights[it] / sum else 0.0 }
}
