package io.omnidraft.bundle

/* The training step in the manifest: its graph, and the layout of the vector of trainable parameters. */

import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.integer
import io.omnidraft.disk.mapping
import io.omnidraft.disk.quoted
import io.omnidraft.disk.text

/** The shape of a tensor of the vector. */
internal data class Matrix(val rows: Int, val columns: Int) {
    val size: Long get() = rows.toLong() * columns
}

/** Where a tensor lies in the vector: from [begin] to [end], exclusive. */
internal class Span(val name: String, val begin: Int, val end: Int, val shape: Matrix)

/**
 * How the vector of trainable parameters is cut into tensors, one after another in row-major order.
 *
 * @property tensors shape of each by name, `{site}.{part}.lora_a` and `.lora_b`, in order.
 */
internal data class StepLayout(val tensors: Map<String, Matrix>) {
    /** Length of the vector; a learner refuses one that no array holds. */
    val size: Long get() = tensors.values.sumOf { it.size }

    /** Name, place and shape of each tensor, of a vector that an array holds. */
    fun spans(): List<Span> {
        check(size <= Int.MAX_VALUE) { "no array holds $size numbers" }
        var at = 0
        return tensors.map { (name, shape) ->
            val begin = at
            at += shape.size.toInt()
            Span(name, begin, at, shape)
        }
    }
}

/** The training step of a bundle's drafter (spec/14-train-step.md). */
internal data class StepEntry(
    val graph: String,
    val folder: String, // the folder that the paths of the graph's weights are relative to
    val rank: Int, // of each part of a site
    val layout: StepLayout,
)

internal fun readStep(data: Map<String, Any?>): StepEntry {
    val layout = StepLayout(tensorsOf(data.at("tensors")))
    val graph = text(data.at("graph"), BundleLimits.MAX_PATH)
    val folder = text(data.at("folder"), BundleLimits.MAX_PATH)
    return StepEntry(graph, folder, integer(data.at("rank"), 1, BundleLimits.MAX_RANK), layout)
}

private fun tensorsOf(data: Any?): Map<String, Matrix> {
    val tensors = LinkedHashMap<String, Matrix>()
    for (each in array(data, BundleLimits.MAX_TENSORS)) {
        val fields = mapping(each)
        val name = text(fields.at("name"), BundleLimits.MAX_TENSOR_NAME)
        if (name in tensors) throw ValueError("two tensors ${quoted(name)}")
        tensors[name] = matrix(fields.at("shape"))
    }
    if (tensors.isEmpty()) throw ValueError("a training step without tensors")
    return tensors
}

private fun matrix(value: Any?): Matrix {
    val sizes = array(value, 2, 2).map { integer(it, 1) }
    return Matrix(sizes[0], sizes[1])
}

/** The layout of LoRA of a rank at every part of a graph's sites. */
internal fun layoutOf(lora: LoraSites, rank: Int): StepLayout {
    val tensors = LinkedHashMap<String, Matrix>()
    for ((name, site) in lora.sites) {
        for (part in site.parts) {
            tensors["$name.${part.name}.lora_a"] = Matrix(site.inputs, rank)
            tensors["$name.${part.name}.lora_b"] = Matrix(rank, part.width)
        }
    }
    return StepLayout(tensors)
}

/** Check that a step learns the tensors that the graph takes. */
internal fun checkLayout(entry: StepEntry, lora: LoraSites) {
    if (entry.layout.tensors != layoutOf(lora, entry.rank).tensors) {
        throw ValueError("the tensors of the training step are not those of lora")
    }
}
