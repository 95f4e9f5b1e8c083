package io.omnidraft.learning.step

import io.omnidraft.BundleException
import io.omnidraft.bundle.Bundle

/*
 * How much memory a call of the training step takes, before it is made. The figures are bounds over what MeasureStep of
 * the tests gave with the starter drafter; the step of another drafter may take less.
 */

private const val BASE = 96.0 * (1 shl 20) // the session of the graph
private const val WEIGHTS = 8.0 // bytes of a parameter: float32, and what the gradient keeps of it
private const val TRAINED = 48.0 // bytes of a trained parameter: vectors, moments, gradient, and copies in the heap
private const val ROW = 48.0 // bytes of a logit: logits, probabilities, gradients
private const val HIDDEN = 30.0 // bytes of a position for each input and output of a site
private const val SCORE = 64.0 // bytes of a head's score for a pair of positions: scores, probabilities, gradients
private const val MOST = (1L shl 53) - 1
private const val SHORTEST = 16
private const val MEGABYTE = 1_000_000L

/** The longest response with its prompt, in draft tokens, of which a call of the step fits the memory. */
internal fun lengthWithin(bundle: Bundle, freeMemory: Long): Int {
    // The largest length whose bound fits; it grows with the length.
    var length = 0
    var beyond = bundle.drafter.kv.maxLength + 1
    while (beyond - length > 1) {
        val middle = (length + beyond) / 2
        if (stepBytes(bundle, middle) <= freeMemory) length = middle else beyond = middle
    }
    val shortest = minOf(SHORTEST, bundle.drafter.kv.maxLength) // a drafter may have fewer positions
    if (length < shortest) {
        val need = (stepBytes(bundle, shortest) + MEGABYTE - 1) / MEGABYTE
        throw BundleException(
            "memory",
            "a training step of ${bundle.path.name} takes $need MB and ${freeMemory / MEGABYTE} MB are free",
            "learn when other apps are closed",
        )
    }
    return length
}

/** Bytes of a call of the step for one response of a length. */
internal fun stepBytes(bundle: Bundle, length: Int): Long {
    val drafter = bundle.drafter
    val trained = drafter.train?.layout?.size ?: 0
    val sites = drafter.lora?.sites.orEmpty()
    val widths = sites.values.sumOf { (it.inputs + it.outputs).toLong() }
    val heads = sites.entries.sumOf { (name, site) ->
        if (name.endsWith(".o")) site.inputs.toDouble() / maxOf(1, drafter.kv.headDim) else 0.0
    }
    val each = ROW * drafter.vocabSize + HIDDEN * widths + SCORE * heads * length
    return minOf(MOST.toDouble(), BASE + WEIGHTS * drafter.parameters + TRAINED * trained + each * length).toLong()
}

/** Whether the heap holds this many bytes and what is made of them. */
internal fun heapHolds(bytes: Long): Boolean {
    val runtime = Runtime.getRuntime()
    return bytes < (runtime.maxMemory() - runtime.totalMemory() + runtime.freeMemory()) / COPIES
}

private const val COPIES = 4 // a file, its arrays, and both again while they are written
