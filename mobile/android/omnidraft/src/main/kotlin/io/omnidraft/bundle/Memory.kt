package io.omnidraft.bundle

/*
 * The memory that a generation needs, computed before anything is loaded (spec/08-phones.md, Memory).
 *
 * The figures are resident bytes at the peak. The factors were measured with onnxruntime 1.31 on Linux, with a full
 * context; they are those of the Python runtime, whose own base is counted here for the app, too.
 */

import io.omnidraft.decoding.PREFILL_CHUNK
import java.io.File
import java.io.IOException
import kotlin.math.sqrt

private const val BASE = 72L shl 20 // the runtime, onnxruntime with its first session
private const val PACKED = 1.5 // resident bytes per byte of a graph with weights inside: most have a packed copy
private const val MAPPED = 1.02 // per byte of weights beside the graph, mapped while they are packed one by one
private const val TOKENIZER = 22L // resident bytes per byte of tokenizer.json; a compiled tokenizer is mapped
private const val CACHE_ENTRY = 64L // bytes of a cached n-gram
private const val ROWS = 13L // rows of logits of the longest usual verification
private const val ACTIVATIONS = 30 // times [chunk, hidden] float32, for a pass over a chunk of the prompt
private const val SCORES = 2 // times [heads, chunk, max_length] float32, in a graph without an attention operator
private const val HEAP_BASE = 16L shl 20 // the app and this library with a bundle open
private const val HEAP_ROWS = 2 * ROWS + 2 // of a vocabulary: logits and probabilities of a verification, their order
private const val HEADROOM = 0.05 // of the need: other programs may take memory meanwhile
private const val MEGABYTE = 1_000_000L

/** Bytes at the peak, by use. */
internal class Need(
    val base: Long,
    val target: Long, // weights, as onnxruntime keeps them
    val drafter: Long,
    val kv: Long, // the KV buffers at their full length; a short text touches less of them
    val vocabulary: Long, // tokenizers, vocabulary map and, with the drafter, an n-gram cache that holds every n-gram
    val work: Long, // activations of the longest pass
) {
    val total: Long get() = base + target + drafter + kv + vocabulary + work
}

/** Why a generation should run without the drafter, as a sentence; null if it need not. */
internal fun whyPlain(
    needed: Long,
    plain: Long,
    available: Long?,
    place: String = "free",
    remedy: String = "make room to decode with it",
): String? {
    if (available == null || needed * (1 + HEADROOM) <= available) return null
    return "decoding without the drafter: with it ${megabytes(needed)} MB are needed, " +
        "without it ${megabytes(plain)} MB, and ${megabytes(available)} MB are $place; $remedy"
}

private fun megabytes(bytes: Long): Long = (bytes + MEGABYTE / 2) / MEGABYTE

internal fun memoryNeed(bundle: Bundle, drafter: Boolean = true): Need {
    val models = if (drafter) bundle.models else listOf(bundle.target)
    val drafts = models.size > 1
    val ngrams = if (drafts) bundle.target.vocabSize else 0 // at most
    return Need(
        base = BASE,
        target = weights(bundle, bundle.target),
        drafter = if (drafts) weights(bundle, bundle.drafter) else 0,
        kv = models.sumOf { it.kvBytes },
        vocabulary = models.sumOf { tokenizer(bundle, it) } + size(bundle, bundle.vocabMap) + CACHE_ENTRY * ngrams,
        work = models.sumOf { work(it) },
    )
}

/**
 * The bytes of it that count in the app's heap on Android: rows of logits and of distributions, the index of the
 * vocabulary map, the n-gram cache, and the keys and values of static graphs, which the host keeps.
 */
internal fun heapNeed(bundle: Bundle, drafter: Boolean = true): Long {
    val models = if (drafter) bundle.models else listOf(bundle.target)
    val kept = models.filter { it.place != null }.sumOf { it.kvBytes }
    val rows = models.sumOf { (HEAP_ROWS + blockRows(it.place)) * 4 * it.vocabSize }
    val ngrams = if (models.size > 1) CACHE_ENTRY * bundle.target.vocabSize else 0
    return HEAP_BASE + kept + rows + ngrams + size(bundle, bundle.vocabMap)
}

/** Rows of logits of all static graphs: each writes one for each token of its block. */
private fun blockRows(place: Place?): Int = place?.form?.graphs?.keys?.sum() ?: 0

private fun tokenizer(bundle: Bundle, entry: ModelEntry): Long {
    val compiled = entry.compiledTokenizer
    return if (compiled != null) size(bundle, compiled) else TOKENIZER * size(bundle, entry.tokenizer)
}

private fun size(bundle: Bundle, name: String): Long = bundle.files.getValue(name).bytes

private fun weights(bundle: Bundle, entry: ModelEntry): Long {
    if (entry.place != null) return staticWeights(bundle, entry, entry.place)
    // An exported graph has model.onnx.data; an adopted graph may have several files with other endings.
    val beside = if (entry.layout == CONCAT_LAYOUT) entry.graph else "${entry.graph}.data"
    val mapped = bundle.files.keys.filter { it.startsWith(beside) && it != entry.graph }.sumOf { size(bundle, it) }
    if (mapped == 0L) return (PACKED * size(bundle, entry.graph)).toLong()
    // A table stays mapped: as a whole beside the packed LM head that shares it, else a few of its pages.
    return (PACKED * size(bundle, entry.graph) + MAPPED * mapped).toLong() + table(bundle, entry, mapped)
}

/** Of static graphs: float16 weights become float32 in each graph; the others stay mapped. */
private fun staticWeights(bundle: Bundle, entry: ModelEntry, place: Place): Long {
    val weights = size(bundle, place.form.weights)
    val others = place.files.sumOf { size(bundle, it) } - weights
    val isFloat = place.form.weights == entry.places.getValue(NPU).form.weights
    val widened = if (isFloat) 2L * place.form.graphs.size * weights else 0L
    return (MAPPED * (weights + others)).toLong() + widened
}

/** Bytes of the embedding: added where the LM head reads them too, else taken off; 0 where an export recorded none. */
private fun table(bundle: Bundle, entry: ModelEntry, most: Long): Long {
    val tables = (bundle.manifest["checks"] as? Map<*, *>)?.get("tables") as? Map<*, *>
    val found = tables?.get(entry.graph) as? Map<*, *> ?: return 0
    val bytes = found["bytes"] as? Long ?: return 0
    if (bytes !in 0..most || "shared" !in found) return 0
    return if (found["shared"] == true) bytes else -bytes
}

private fun work(entry: ModelEntry): Long {
    // Of a usual decoder with this number of parameters.
    val hidden = sqrt(entry.parameters / (12.0 * entry.kv.numLayers))
    val work = 4.0 * ACTIVATIONS * PREFILL_CHUNK * hidden
    if (entry.layout == SHARED_LAYOUT) return (work + 4.0 * ROWS * entry.vocabSize).toLong()
    // A graph of layout concat computes logits for every token, and stores the scores of its attention.
    val scores = 4.0 * SCORES * (hidden / entry.kv.headDim) * PREFILL_CHUNK * entry.kv.maxLength
    return (work + scores + 4.0 * PREFILL_CHUNK * entry.vocabSize).toLong()
}

/** Peak resident memory of this process in bytes, with mapped files; null where it is not counted. */
internal fun peakBytes(): Long? = try {
    val line = File("/proc/self/status").readLines().firstOrNull { it.startsWith("VmHWM:") }
    line?.filter { it in '0'..'9' }?.toLongOrNull()?.times(1024)
} catch (_: IOException) {
    null // a system without the file
}
