package io.omnidraft.decoding

import java.util.Arrays

/*
 * Top-k and top-p of a row (spec/04-speculation.md, section 2). An id and its weight are one number that sorts as the
 * rules rank them, so ranking makes no objects. Python has this in sampling.py, where numpy sorts.
 */

// Of a weight, relative to the largest.
private val FLOORS = floatArrayOf(1f / 64, 1f / 512, 1f / 4096, 1f / 65536, 1f / 16777216, 0f)

/** Set the weight of every id to 0 that top-k and then top-p do not keep. */
internal fun keepNucleus(weights: FloatArray, size: Int, sampling: SamplingConfig, workspace: Workspace) {
    val keys: LongArray
    var kept: Int
    val total: Double
    if (sampling.topK > 0) {
        val count = minOf(sampling.topK, size)
        keys = workspace.keys(size)
        kept = minOf(count, rank(weights, size, count, 0.0, keys))
        total = mass(keys, kept)
    } else {
        total = sum(weights, size)
        keys = workspace.keys(size)
        kept = rank(weights, size, 1, sampling.topP * total, keys)
    }
    if (sampling.topP < 1.0) kept = nucleus(keys, kept, sampling.topP * total)
    weights.fill(0f, 0, size)
    for (i in 0 until kept) weights[idOf(keys[i])] = weightOf(keys[i])
}

/** How many of the ranked ids have less than [mass] before them. */
private fun nucleus(keys: LongArray, count: Int, mass: Double): Int {
    var before = 0.0
    var kept = 0
    while (kept < count && before < mass) before += weightOf(keys[kept++]).toDouble()
    return maxOf(1, kept)
}

/**
 * At least the [count] heaviest ids and as many as hold [mass], by falling weight, then by id.
 *
 * A few tokens hold nearly all mass, so only those above a floor are sorted. The floor is lowered until the ids above
 * it are enough.
 */
private fun rank(weights: FloatArray, size: Int, count: Int, mass: Double, keys: LongArray): Int {
    var found = 0
    for (floor in FLOORS) {
        found = 0
        for (id in 0 until size) if (weights[id] >= floor) keys[found++] = keyOf(weights[id], id)
        if (found >= count && mass(keys, found) >= mass) break
    }
    if (mass == 0.0 && found > count) {
        bringForward(keys, found, count)
        found = count
    }
    Arrays.sort(keys, 0, found)
    return found
}

/** Move the [count] smallest keys to the front, in any order: quickselect with the median of three as its pivot. */
private fun bringForward(keys: LongArray, size: Int, count: Int) {
    var low = 0
    var high = size - 1
    while (low < high) {
        val pivot = median(keys[low], keys[(low + high) ushr 1], keys[high])
        var i = low
        var j = high
        while (i <= j) {
            while (keys[i] < pivot) i++
            while (keys[j] > pivot) j--
            if (i <= j) {
                val swapped = keys[i]
                keys[i++] = keys[j]
                keys[j--] = swapped
            }
        }
        if (count <= j) high = j else if (count > i) low = i else return
    }
}

private fun median(a: Long, b: Long, c: Long): Long = maxOf(minOf(a, b), minOf(maxOf(a, b), c))

/** A number that sorts ids by falling weight, then by id; a weight of 0 or more has bits that ascend with it. */
private fun keyOf(weight: Float, id: Int): Long = ((Int.MAX_VALUE - weight.toRawBits()).toLong() shl 32) or id.toLong()

private fun idOf(key: Long): Int = key.toInt()

private fun weightOf(key: Long): Float = Float.fromBits(Int.MAX_VALUE - (key ushr 32).toInt())

private fun mass(keys: LongArray, count: Int): Double {
    var sum = 0.0
    for (i in 0 until count) sum += weightOf(keys[i]).toDouble()
    return sum
}

private fun sum(weights: FloatArray, size: Int): Double {
    var sum = 0.0
    for (i in 0 until size) sum += weights[i].toDouble()
    return sum
}
