package io.omnidraft.models

import ai.onnxruntime.NodeInfo
import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OrtSession
import ai.onnxruntime.TensorInfo
import io.omnidraft.BundleException
import io.omnidraft.bundle.KvShape
import io.omnidraft.bundle.KvType
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.aName
import io.omnidraft.bundle.bName
import io.omnidraft.disk.mapFile
import io.omnidraft.disk.quoted
import java.io.File

/* The inputs and outputs of a graph against what the manifest says of it; spec/03-bundle.md, "The graph". */

/** A size that passes choose. */
internal const val ANY: Long = -1

/** An input or output: its element type, and its sizes. */
internal class Value(val kind: OnnxJavaType, vararg val sizes: Long)

/** What a graph takes and gives, without adapters. */
internal class SharedValues(val inputs: Map<String, Value>, val outputs: Map<String, Value>)

/** Inputs and outputs of a graph of layout `shared`, without adapters. */
internal fun sharedValues(kv: KvShape, vocabSize: Int): SharedValues {
    val kind = if (kv.type == KvType.FLOAT16) OnnxJavaType.FLOAT16 else OnnxJavaType.FLOAT
    val buffer = Value(kind, *kvShape(kv))
    val inputs = linkedMapOf(
        "input_ids" to Value(OnnxJavaType.INT64, 1, ANY),
        "seqlens_k" to Value(OnnxJavaType.INT32, 1),
        "total_sequence_length" to Value(OnnxJavaType.INT32, 1),
        "num_logits" to Value(OnnxJavaType.INT64, 1),
    )
    val outputs = linkedMapOf("logits" to Value(OnnxJavaType.FLOAT, 1, ANY, vocabSize.toLong()))
    for (name in kvNames(kv.numLayers)) {
        inputs["past_key_values.$name"] = buffer
        outputs["present.$name"] = buffer
    }
    return SharedValues(inputs, outputs)
}

/** Inputs and outputs of a static graph for blocks of some tokens, without adapters. */
internal fun staticValues(kv: KvShape, vocabSize: Int, block: Int, hidden: Int): SharedValues {
    val (heads, width) = kv.numKvHeads.toLong() to kv.headDim.toLong()
    val (rows, past) = block.toLong() to kv.maxLength.toLong()
    val table = Value(OnnxJavaType.FLOAT, 1, 1, rows, width)
    val inputs = linkedMapOf(
        "inputs_embeds" to Value(OnnxJavaType.FLOAT, 1, rows, hidden.toLong()),
        "attention_mask" to Value(OnnxJavaType.FLOAT, 1, 1, rows, past + rows),
        "cos" to table,
        "sin" to table,
    )
    val outputs = linkedMapOf("logits" to Value(OnnxJavaType.FLOAT, 1, rows, vocabSize.toLong()))
    for (name in kvNames(kv.numLayers)) {
        inputs["past_key_values.$name"] = Value(OnnxJavaType.FLOAT, 1, heads, past, width)
        outputs["new.$name"] = Value(OnnxJavaType.FLOAT, 1, heads, rows, width)
    }
    return SharedValues(inputs, outputs)
}

internal fun adapterValues(lora: LoraSites?): Map<String, Value> {
    val values = LinkedHashMap<String, Value>()
    for ((name, site) in lora?.sites ?: emptyMap()) {
        val rank = if (lora?.rank == null) ANY else lora.rankOf(name).toLong()
        values[aName(name)] = Value(OnnxJavaType.FLOAT, site.inputs.toLong(), rank)
        values[bName(name)] = Value(OnnxJavaType.FLOAT, rank, site.outputs.toLong())
    }
    return values
}

/** The names of the keys and values of every layer, after `past_key_values.` and `present.`. */
internal fun kvNames(numLayers: Int): List<String> =
    (0 until numLayers).flatMap { listOf("$it.key", "$it.value") }

/** Refuses a graph that lacks one of these inputs or outputs, or has it of another type or shape. */
internal fun checkValues(path: File, session: OrtSession, values: SharedValues) {
    checkEach(path, "input", values.inputs, session.inputInfo)
    checkEach(path, "output", values.outputs, session.outputInfo)
}

private fun checkEach(path: File, what: String, wanted: Map<String, Value>, found: Map<String, NodeInfo>) {
    for ((name, value) in wanted) {
        val info = found[name] ?: throw refused(path, "it has no $what '$name'")
        check(path, "its $what '$name'", info.info as? TensorInfo, value)
    }
}

/** Refuses a graph with an input that nothing feeds, or without the adapters of the manifest. */
internal fun checkAdapters(path: File, session: OrtSession, known: Set<String>, adapters: Map<String, Value>) {
    val needed = session.inputInfo.filterKeys { it !in known }
    for (name in needed.keys) {
        if (name !in adapters) {
            throw refused(path, "it has an input ${quoted(name)}, which the manifest does not name")
        }
    }
    if (adapters.isEmpty()) return
    val declared = declaredInputs(mapFile(path))
    for ((name, value) in adapters) {
        val info = needed[name]?.info as? TensorInfo
        if (info != null) {
            check(path, "its input '$name'", info, value)
            continue
        }
        val found = declared[name] ?: throw refused(path, "it has no input '$name', which the manifest names")
        if (found.kind != FLOAT || !isSame(found.sizes, value.sizes)) {
            throw refused(path, "its input '$name' is of another type or shape than the manifest gives")
        }
    }
}

private const val FLOAT = 1

/** Compares an input or output; a size that the graph names, and does not fix, is left to the engine. */
private fun check(path: File, what: String, found: TensorInfo?, wanted: Value) {
    if (found != null && found.type == wanted.kind && isSame(found.shape, wanted.sizes)) return
    val own = found?.let { "${it.type} ${it.shape.asList()}" } ?: "no tensor"
    val expected = "${wanted.kind} ${wanted.sizes.asList()}"
    throw refused(path, "$what is ${own.take(MOST_SHOWN)} where the manifest gives $expected")
}

private fun isSame(found: LongArray, wanted: LongArray): Boolean =
    found.size == wanted.size && found.indices.all { found[it] == ANY || found[it] == wanted[it] }

private const val MOST_SHOWN = 120

private fun refused(path: File, why: String) =
    BundleException("graph", "$path does not fit the manifest: $why", "run `omnidraft export` again")
