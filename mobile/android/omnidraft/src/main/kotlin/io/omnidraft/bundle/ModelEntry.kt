package io.omnidraft.bundle

/* One model of a bundle, as the manifest describes it: its graph, its tokenizer and the shapes they need. */

import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.integer
import io.omnidraft.disk.long
import io.omnidraft.disk.mapping
import io.omnidraft.disk.quoted
import io.omnidraft.disk.text

/** A graph that keeps keys and values in shared buffers. */
internal const val SHARED_LAYOUT = "shared"

/** A graph whose pass returns past and new keys and values together, as Optimum exports it. */
internal const val CONCAT_LAYOUT = "concat"

/** How a graph keeps its past. */
internal val LAYOUTS: List<String> = listOf(SHARED_LAYOUT, CONCAT_LAYOUT)

/** The numbers of KV buffers, by their name in a manifest. */
internal enum class KvType(val word: String, val bytes: Int) {
    FLOAT32("float32", 4),
    FLOAT16("float16", 2),
}

/** The KV buffers of a graph: numbers [1, num_kv_heads, max_length, head_dim], two in each layer. */
internal data class KvShape(
    val numLayers: Int,
    val numKvHeads: Int,
    val headDim: Int,
    val maxLength: Int,
    val type: KvType = KvType.FLOAT32,
) {
    val bytes: Long get() = 2L * type.bytes * numLayers * numKvHeads * headDim * maxLength

    /** The buffers of static graphs, which are always float32. */
    fun of(place: Place): KvShape = copy(maxLength = place.kvLength, type = KvType.FLOAT32)
}

internal data class ModelEntry(
    val source: String,
    val architecture: String,
    val graph: String,
    val tokenizer: String,
    val kv: KvShape,
    val vocabSize: Int,
    val quantization: String,
    val bosId: Int?,
    val eosIds: List<Int>,
    val parameters: Long,
    val places: Map<String, Place> = emptyMap(), // where the static graphs may run, by name; empty if there are none
    val place: Place? = null, // the chosen one; null is the dynamic graph
    val fingerprint: String? = null,
    val lora: LoraSites? = null, // where adapters enter the graph; null if they cannot
    val layout: String = SHARED_LAYOUT,
    val train: StepEntry? = null,
    val tokenizerFingerprint: String = "",
    val compiledTokenizer: String? = null,
) {
    /** The ids that every text of the model begins with. */
    val start: IntArray get() = bosId?.let { intArrayOf(it) } ?: IntArray(0)

    /** Whether this stands for the drafter of a bundle that has none. */
    val isAbsent: Boolean get() = graph.isEmpty()

    /** Whether a file of the bundle is a graph or weights of this model, where it runs. */
    fun reads(name: String): Boolean =
        if (place != null) name in place.files else !isAbsent && name.startsWith(graph)

    /** Bytes of the KV buffers at their full length; two sets take turns in layout `concat`. */
    val kvBytes: Long get() = kv.bytes * if (layout == CONCAT_LAYOUT) 2 else 1
}

/**
 * In place of a drafter where a bundle has none: the 256 bytes as a vocabulary, without a graph. The vocabulary map
 * spells the target's tokens with them, and no session asks for a draft.
 */
internal val NO_DRAFTER: ModelEntry = ModelEntry(
    source = "none",
    architecture = "none",
    graph = "",
    tokenizer = "",
    kv = KvShape(1, 1, 1, 1),
    vocabSize = 256,
    quantization = "none",
    bosId = null,
    eosIds = emptyList(),
    parameters = 0,
    tokenizerFingerprint = "0864c10eb9f122e7b9dfef5a287f4fb7c610b310847c0c41656e0656a9b0b03e",
)

/** The part of a manifest for one model. */
internal fun readEntry(data: Map<String, Any?>): ModelEntry {
    val places = data["npu"]?.let { readPlaces(mapping(it)) } ?: emptyMap()
    val lora = data["lora"]?.let { loraOf(mapping(it)) }
    if (lora == null && places.values.any { it.form.loraRank != null }) {
        throw ValueError("static graphs for adapters without the field lora")
    }
    val vocabSize = integer(data.at("vocab_size"), 1, BundleLimits.MAX_VOCABULARY)
    val kv = kvOf(mapping(data.at("kv")))
    val layout = layoutOf(if ("layout" in data) data["layout"] else SHARED_LAYOUT)
    if (kv.type != KvType.FLOAT32 && layout != SHARED_LAYOUT) {
        throw ValueError("${kv.type.word} keys and values are for graphs of layout $SHARED_LAYOUT")
    }
    return ModelEntry(
        source = text(data.at("source"), BundleLimits.MAX_SOURCE),
        architecture = text(data.at("architecture"), BundleLimits.MAX_SOURCE),
        graph = text(data.at("graph"), BundleLimits.MAX_PATH),
        tokenizer = text(data.at("tokenizer"), BundleLimits.MAX_PATH),
        kv = kv,
        vocabSize = vocabSize,
        quantization = text(data.at("quantization"), BundleLimits.MAX_NAME),
        bosId = data.at("bos_id")?.let { integer(it, 0, vocabSize - 1) },
        eosIds = array(data.at("eos_ids"), BundleLimits.MAX_EOS).map { integer(it, 0, vocabSize - 1) },
        parameters = long(data.at("parameters"), 0, MOST_EXACT),
        places = places,
        fingerprint = data["fingerprint"]?.let { hexadecimal(it, 64) },
        lora = lora,
        layout = layout,
        train = trainOf(data, lora),
        tokenizerFingerprint = hexadecimal(data.at("tokenizer_fingerprint"), 64),
        compiledTokenizer = data["compiled_tokenizer"]?.let { text(it, BundleLimits.MAX_PATH) },
    )
}

private fun kvOf(data: Map<String, Any?>): KvShape = KvShape(
    numLayers = integer(data.at("num_layers"), 1, BundleLimits.MAX_LAYERS),
    numKvHeads = integer(data.at("num_kv_heads"), 1, BundleLimits.MAX_LAYERS),
    headDim = integer(data.at("head_dim"), 1, BundleLimits.MAX_HEAD_DIM),
    maxLength = integer(data.at("max_length"), 1, BundleLimits.MAX_LENGTH),
    type = kvTypeOf(if ("type" in data) data["type"] else KvType.FLOAT32.word),
)

private fun kvTypeOf(value: Any?): KvType = KvType.entries.find { it.word == value } ?: throw ValueError(
    "${quoted(value)} is not a type of keys and values, which is one of ${KvType.entries.joinToString { it.word }}",
)

private fun trainOf(data: Map<String, Any?>, lora: LoraSites?): StepEntry? {
    val step = readStep(mapping(data["train"] ?: return null))
    if (lora == null || data["fingerprint"] == null) {
        throw ValueError("a training step without the fields lora and fingerprint")
    }
    checkLayout(step, lora)
    return step
}

private fun loraOf(data: Map<String, Any?>): LoraSites {
    val sites = mapping(data.at("sites"), BundleLimits.MAX_SITES).entries.associate { (name, site) ->
        text(name, BundleLimits.MAX_NAME) to siteOf(mapping(site))
    }
    if (sites.isEmpty()) throw ValueError("LoRA without a site")
    return LoraSites(data.at("rank")?.let { integer(it, 1, BundleLimits.MAX_RANK) }, sites)
}

private fun siteOf(data: Map<String, Any?>): Site {
    val parts = array(data.at("parts"), BundleLimits.MAX_PARTS, 1).map { array(it, 2, 2) }
    val widths = parts.map { (name, width) ->
        Part(text(name, BundleLimits.MAX_NAME), integer(width, 1, BundleLimits.MAX_WIDTH))
    }
    return Site(integer(data.at("inputs"), 1, BundleLimits.MAX_WIDTH), widths)
}

private fun layoutOf(value: Any?): String {
    if (value !in LAYOUTS) {
        throw ValueError("${quoted(value)} is not a layout, which is one of ${LAYOUTS.joinToString()}")
    }
    return value as String
}
