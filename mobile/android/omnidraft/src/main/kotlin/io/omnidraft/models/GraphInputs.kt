package io.omnidraft.models

import io.omnidraft.bundle.GraphFields
import io.omnidraft.bundle.GraphFileException
import io.omnidraft.disk.bytes
import java.nio.ByteBuffer

/*
 * The inputs that a graph declares, with those that it has a value for (overridable initializers). onnxruntime's Java
 * interface names only the inputs that must be fed, so the adapters of a graph are read from its file. The file was
 * checked before (ExternalData), and the engine has loaded it.
 *
 * A graph is a protobuf message. Field numbers are those of onnx.proto.
 */

/**
 * An input as the file declares it.
 *
 * @property kind the number of its element type in onnx.proto; 1 is float32.
 * @property sizes one for each dimension; -1 for one that passes choose.
 */
internal class DeclaredInput(val kind: Int, val sizes: LongArray)

/** The inputs of the graph in an ONNX file, by name. What cannot be read declares nothing. */
internal fun declaredInputs(graph: ByteBuffer): Map<String, DeclaredInput> {
    val found = HashMap<String, DeclaredInput>()
    val fields = GraphFields(graph)
    try {
        fields.each(0, graph.limit()) { number, at, end ->
            if (number == MODEL_GRAPH) {
                fields.each(at, end) { part, start, stop -> if (part == GRAPH_INPUT) input(fields, graph, start, stop, found) }
            }
        }
    } catch (_: GraphFileException) {
        return emptyMap()
    }
    return found
}

private const val MODEL_GRAPH = 7L
private const val GRAPH_INPUT = 11L
private const val NAME = 1L
private const val TYPE = 2L
private const val TENSOR_TYPE = 1L
private const val ELEMENT_TYPE = 1L
private const val SHAPE = 2L
private const val DIMENSION = 1L
private const val DIMENSION_VALUE = 1L
private const val MOST_NAME = 512
private const val MOST_DIMENSIONS = 64

private fun input(fields: GraphFields, graph: ByteBuffer, at: Int, end: Int, found: HashMap<String, DeclaredInput>) {
    var name = ""
    var declared: DeclaredInput? = null
    fields.each(at, end) { number, start, stop ->
        if (number == NAME && stop - start <= MOST_NAME) name = String(bytes(graph, start, stop), Charsets.UTF_8)
        if (number == TYPE) {
            fields.each(start, stop) { kind, first, last ->
                if (kind == TENSOR_TYPE) declared = tensor(fields, first, last)
            }
        }
    }
    declared?.let { found[name] = it }
}

private fun tensor(fields: GraphFields, at: Int, end: Int): DeclaredInput {
    var kind = 0L
    val sizes = ArrayList<Long>()
    fields.each(at, end, { number, value -> if (number == ELEMENT_TYPE) kind = value }) { number, start, stop ->
        if (number == SHAPE) {
            fields.each(start, stop) { part, first, last ->
                if (part == DIMENSION && sizes.size < MOST_DIMENSIONS) sizes.add(dimension(fields, first, last))
            }
        }
    }
    return DeclaredInput(kind.toInt(), sizes.toLongArray())
}

/** The size in one dimension; -1 where it has a name, or none. */
private fun dimension(fields: GraphFields, at: Int, end: Int): Long {
    var size = -1L
    fields.each(at, end, { number, value -> if (number == DIMENSION_VALUE) size = value }) { _, _, _ -> }
    return size
}
