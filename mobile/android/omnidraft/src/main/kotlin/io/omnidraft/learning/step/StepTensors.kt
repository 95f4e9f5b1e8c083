package io.omnidraft.learning.step

import io.omnidraft.AdapterException
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.Site
import io.omnidraft.bundle.Span
import io.omnidraft.bundle.StepLayout
import io.omnidraft.decoding.SplitMix64
import io.omnidraft.models.Adapter
import io.omnidraft.models.SitePair
import kotlin.math.sqrt

/*
 * The vector of trained parameters, and its conversion to an adapter and back (spec/14-train-step.md, The vector).
 */

/** The largest number of trained parameters: three vectors of them are 3 GiB, which no phone gives an app. */
internal const val MOST_PARAMETERS = 1L shl 28

/**
 * Initial parameters: A is uniform within 1 / sqrt(rows of A), B is zero, so the drafter is unchanged.
 *
 * The n-th value of all A, in the order of the layout, is (2 u - 1) times the bound, with u the n-th uniform value of
 * SplitMix64, computed in float64.
 */
internal fun initialVector(layout: StepLayout, seed: Long): FloatArray {
    val random = SplitMix64(seed)
    val vector = FloatArray(layout.size.toInt())
    for (span in layout.spans()) {
        if (!span.name.endsWith(".lora_a")) continue
        val bound = 1.0 / sqrt(span.shape.rows.toDouble())
        for (i in span.begin until span.end) vector[i] = ((2.0 * random.uniform() - 1.0) * bound).toFloat()
    }
    return vector
}

/** A and B of each site in the form of an adapter: parts side by side, the scale multiplied into B. */
internal fun sitesOf(vector: FloatArray, layout: StepLayout, lora: LoraSites, scale: Double): Map<String, SitePair> {
    val places = StepPlaces(layout)
    return lora.sites.mapValues { (name, site) -> pack(vector, site, places.of(name, site), scale.toFloat()) }
}

private fun pack(vector: FloatArray, site: Site, parts: List<PartPlace>, scale: Float): SitePair {
    val ranks = parts.sumOf { it.rank }
    val a = FloatTensor(site.inputs, ranks)
    val b = FloatTensor(ranks, site.outputs)
    for (part in parts) {
        for (row in 0 until site.inputs) {
            val from = part.a + row * part.rank
            vector.copyInto(a.values, row * ranks + part.row, from, from + part.rank)
        }
        for (row in 0 until part.rank) {
            val into = (part.row + row) * site.outputs + part.column
            for (i in 0 until part.width) b.values[into + i] = vector[part.b + row * part.width + i] * scale
        }
    }
    return SitePair(a, b)
}

/** The vector of an adapter that [sitesOf] packed; sites that the adapter does not have are zero. */
internal fun vectorOf(adapter: Adapter, layout: StepLayout, lora: LoraSites, scale: Double): FloatArray {
    adapter.checkFits(lora)
    val places = StepPlaces(layout)
    val vector = FloatArray(layout.size.toInt())
    for ((name, pair) in adapter.tensors) {
        val site = lora.sites.getValue(name)
        val parts = places.of(name, site)
        checkPacked(name, site, parts, pair)
        unpack(vector, site, parts, pair, scale.toFloat())
    }
    return vector
}

private fun unpack(vector: FloatArray, site: Site, parts: List<PartPlace>, pair: SitePair, scale: Float) {
    val ranks = pair.a.shape[1]
    for (part in parts) {
        for (row in 0 until site.inputs) {
            val from = row * ranks + part.row
            pair.a.values.copyInto(vector, part.a + row * part.rank, from, from + part.rank)
        }
        for (row in 0 until part.rank) {
            val from = (part.row + row) * site.outputs + part.column
            for (i in 0 until part.width) vector[part.b + row * part.width + i] = pair.b.values[from + i] / scale
        }
    }
}

private fun checkPacked(name: String, site: Site, parts: List<PartPlace>, pair: SitePair) {
    val ranks = parts.sumOf { it.rank }
    if (pair.a.shape[1] != ranks) {
        throw AdapterException(
            "rank",
            "$name has rank ${pair.a.shape[1]} and the training step takes $ranks",
            "begin without an adapter, or export with its rank as train_rank in --config",
        )
    }
    for (part in parts) {
        for (row in part.row until part.row + part.rank) {
            if (hasOutside(pair.b.values, row * site.outputs, site.outputs, part)) {
                throw AdapterException(
                    "shape",
                    "$name mixes its parts, which no training step does",
                    "begin without an adapter",
                )
            }
        }
    }
}

/** Whether a row of B has a value outside the columns of its part. */
private fun hasOutside(values: FloatArray, row: Int, outputs: Int, part: PartPlace): Boolean =
    (0 until outputs).any { (it < part.column || it >= part.column + part.width) && values[row + it] != 0.0f }

/**
 * Where a part of a site lies: [a] and [b] in the vector, [row] of its ranks and [column] of its outputs in the site.
 */
private class PartPlace(val a: Int, val b: Int, val row: Int, val column: Int, val rank: Int, val width: Int)

private class StepPlaces(layout: StepLayout) {
    private val spans: Map<String, Span> = layout.spans().associateBy { it.name }

    fun of(name: String, site: Site): List<PartPlace> {
        var row = 0
        var column = 0
        return site.parts.map { part ->
            val a = spans.getValue("$name.${part.name}.lora_a")
            val b = spans.getValue("$name.${part.name}.lora_b")
            val place = PartPlace(a.begin, b.begin, row, column, a.shape.columns, part.width)
            row += place.rank
            column += part.width
            place
        }
    }
}
