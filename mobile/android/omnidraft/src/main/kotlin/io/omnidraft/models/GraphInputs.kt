package io.omnidraft.models

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
    fields(graph, 0, graph.limit()) { number, at, end, _ ->
        if (number == MODEL_GRAPH) {
            fields(graph, at, end) { part, start, stop, _ -> if (part == GRAPH_INPUT) input(graph, start, stop, found) }
        }
    }
    return found
}

private const val MODEL_GRAPH = 7
private const val GRAPH_INPUT = 11
private const val NAME = 1
private const val TYPE = 2
private const val TENSOR_TYPE = 1
private const val ELEMENT_TYPE = 1
private const val SHAPE = 2
private const val DIMENSION = 1
private const val DIMENSION_VALUE = 1
private const val MOST_NAME = 512
private const val MOST_DIMENSIONS = 64

private const val VARINT = 0
private const val FIXED64 = 1
private const val MESSAGE = 2
private const val FIXED32 = 5

private fun input(graph: ByteBuffer, at: Int, end: Int, found: HashMap<String, DeclaredInput>) {
    var name = ""
    var declared: DeclaredInput? = null
    fields(graph, at, end) { number, start, stop, _ ->
        if (number == NAME && stop - start <= MOST_NAME) name = text(graph, start, stop)
        if (number == TYPE) {
            fields(graph, start, stop) { kind, first, last, _ ->
                if (kind == TENSOR_TYPE) declared = tensor(graph, first, last)
            }
        }
    }
    declared?.let { found[name] = it }
}

private fun tensor(graph: ByteBuffer, at: Int, end: Int): DeclaredInput {
    var kind = 0L
    val sizes = ArrayList<Long>()
    fields(graph, at, end) { number, start, stop, value ->
        if (number == ELEMENT_TYPE) kind = value
        if (number == SHAPE) {
            fields(graph, start, stop) { part, first, last, _ ->
                if (part == DIMENSION && sizes.size < MOST_DIMENSIONS) sizes.add(dimension(graph, first, last))
            }
        }
    }
    return DeclaredInput(kind.toInt(), sizes.toLongArray())
}

/** The size in one dimension; -1 where it has a name, or none. */
private fun dimension(graph: ByteBuffer, at: Int, end: Int): Long {
    var size = -1L
    fields(graph, at, end) { number, _, _, value -> if (number == DIMENSION_VALUE) size = value }
    return size
}

private fun text(graph: ByteBuffer, at: Int, end: Int): String =
    String(ByteArray(end - at) { graph.get(at + it) }, Charsets.UTF_8)

/** Calls [each] with number, first byte, last byte (exclusive) and number value of each field of a message. */
private inline fun fields(graph: ByteBuffer, from: Int, end: Int, each: (Int, Int, Int, Long) -> Unit) {
    val cursor = Cursor(graph, from, end)
    while (cursor.hasNext()) {
        val tag = cursor.varint()
        val kind = (tag and 7L).toInt()
        val value = if (kind == VARINT || kind == MESSAGE) cursor.varint() else 0L
        val size = when (kind) {
            MESSAGE -> value
            FIXED64 -> 8L
            FIXED32 -> 4L
            else -> 0L
        }
        val at = cursor.take(size)
        if (at >= 0) each((tag ushr 3).toInt(), at, cursor.at, value)
    }
}

/** A place in a message, which stops at its end and at what is no protobuf. */
private class Cursor(private val graph: ByteBuffer, var at: Int, private val end: Int) {
    fun hasNext() = at < end

    fun varint(): Long {
        var value = 0L
        var shift = 0
        while (at < end && shift < 70) {
            val byte = graph.get(at++).toInt() and 0xff
            value = value or ((byte and 0x7f).toLong() shl shift)
            if (byte < 0x80) return value
            shift += 7
        }
        at = end
        return 0L
    }

    /** Skips [size] bytes and returns the place of the first; -1 where fewer bytes are left. */
    fun take(size: Long): Int {
        if (size < 0 || size > end - at) {
            at = end
            return -1
        }
        val start = at
        at += size.toInt()
        return start
    }
}
