package io.omnidraft.bundle

/*
 * The weight files that an ONNX graph names, and what no graph may hold, found before onnxruntime reads it
 * (spec/03-bundle.md, "The weights of a graph").
 *
 * A graph is a protobuf message. Only the fields on the way to tensors are read; everything else is skipped. Refused
 * are loops, branches and functions: a small graph with them can take any time and memory while it is loaded. The walk
 * is bounded in the number of fields. Field numbers are those of onnx.proto.
 */

import io.omnidraft.disk.bytes
import io.omnidraft.disk.quoted
import java.nio.ByteBuffer

private const val MOST_FIELDS = 1 shl 20
private const val MOST_NODES = 1 shl 15
private const val MOST_PLACE = 4096 // bytes of a name; longer ones are in no manifest
private const val MOST_VARINT = 70 // bits of a number: 10 bytes of 7 bits
private const val HUGE = 1L shl 62 // stands for a number that 63 bits do not hold

// Types of fields.
private const val VARINT = 0
private const val FIXED64 = 1
private const val MESSAGE = 2
private const val FIXED32 = 5

private const val OPERATOR = 4L // of a node: the name of its operator
private const val KEY = 1L // of an entry of external data
private const val VALUE = 2L
private val COMPILED = "EPContext".toByteArray() // a node that names a file of compiled code
private val LOCATION = "location".toByteArray()
private val ORT_MARK = "ORTM".toByteArray() // at byte 4 of a graph in .ort format

/** A kind of message, with the fields that are refused in it. */
private enum class Kind(val refused: Map<Long, String> = emptyMap()) {
    MODEL(mapOf(20L to "training information", 25L to "a function")),
    GRAPH,
    NODE,
    ATTRIBUTE(mapOf(6L to "a graph inside a node", 11L to "a graph inside a node")),
    SPARSE,
    TENSOR,
    EXTERNAL,
    ;

    /** The kind of message in a field that leads to a tensor; null for all other fields. */
    fun inside(field: Long): Kind? = when (this) {
        MODEL -> if (field == 7L) GRAPH else null
        GRAPH -> when (field) {
            1L -> NODE
            5L -> TENSOR
            15L -> SPARSE
            else -> null
        }
        NODE -> if (field == 5L) ATTRIBUTE else null
        ATTRIBUTE -> when (field) {
            5L, 10L -> TENSOR
            22L, 23L -> SPARSE
            else -> null
        }
        SPARSE -> if (field == 1L || field == 2L) TENSOR else null
        TENSOR -> if (field == 13L) EXTERNAL else null
        EXTERNAL -> null
    }
}

/**
 * A graph that no engine may read.
 *
 * @property fault `outside` for the name of a file and for what is no graph, `graph` for what no graph may hold.
 */
internal class GraphFileException(message: String, val fault: String = "outside") : Exception(message)

/** A walk through a graph: the fields and nodes that it may still read, and the places that it found. */
private class Walk(private val data: ByteBuffer, val places: MutableSet<String>) {
    private var fields = MOST_FIELDS
    private var nodes = MOST_NODES
    private var next = 0 // the byte behind the number that was read last

    /** Read one message from [at] to [end]. The depth is that of [Kind.inside]. */
    fun message(kind: Kind, at: Int, end: Int) {
        if (kind == Kind.EXTERNAL) return entry(at, end)
        if (kind == Kind.NODE && --nodes < 0) throw GraphFileException("it has more than $MOST_NODES nodes", "graph")
        eachField(at, end) { number, start, stop ->
            val inside = kind.inside(number)
            when {
                inside != null -> message(inside, start, stop)
                number in kind.refused -> throw GraphFileException("it holds ${kind.refused[number]}", "graph")
                kind == Kind.NODE && number == OPERATOR && isText(start, stop, COMPILED) ->
                    throw GraphFileException("it holds compiled code (EPContext)", "graph")
            }
        }
    }

    /** Read a key and a value of external data, of which `location` names the file. */
    private fun entry(at: Int, end: Int) {
        var keys = 0
        var isLocation = false
        val values = ArrayList<IntRange>(1)
        eachField(at, end) { number, start, stop ->
            if (number == KEY && keys++ == 0) isLocation = isText(start, stop, LOCATION)
            if (number == VALUE && values.size < 2) values.add(start until stop)
        }
        if (keys > 1 || values.size > 1) throw GraphFileException("an entry of external data has two keys or values")
        if (keys == 1 && isLocation) places.add(place(values.firstOrNull() ?: IntRange.EMPTY))
    }

    private fun place(range: IntRange): String {
        val count = range.last - range.first + 1
        val place = String(bytes(data, range.first, range.first + minOf(count, MOST_PLACE)), Charsets.UTF_8)
        if (count > MOST_PLACE || !isFileName(place)) {
            throw GraphFileException("its weights are in ${quoted(place)}, which is not a file of a bundle")
        }
        return place
    }

    private fun isText(start: Int, stop: Int, text: ByteArray): Boolean =
        stop - start == text.size && text.indices.all { data.get(start + it) == text[it] }

    /** Number, first and last byte (exclusive) of each field that has a length; others are skipped. */
    private inline fun eachField(from: Int, end: Int, use: (Long, Int, Int) -> Unit) {
        var at = from
        while (at < end) {
            if (--fields < 0) throw GraphFileException("it has more than $MOST_FIELDS fields")
            val tag = varint(at, end)
            val type = (tag and 7).toInt()
            val size = sizeOf(type, next, end)
            if (next + size > end) throw GraphFileException("a field is longer than its message")
            at = next + size.toInt()
            if (type == MESSAGE) use(tag ushr 3, at - size.toInt(), at)
        }
    }

    /** Bytes of a field behind its number, or behind its length; [next] moves to the first of them. */
    private fun sizeOf(type: Int, at: Int, end: Int): Long = when (type) {
        VARINT -> 0L.also { varint(at, end) }
        MESSAGE -> varint(at, end)
        FIXED64 -> 8
        FIXED32 -> 4
        else -> throw GraphFileException("a field has the unknown type $type")
    }

    /** A number; one that 62 bits do not hold keeps its lowest 3 bits and becomes larger than any file. */
    private fun varint(from: Int, end: Int): Long {
        var value = 0L
        var shift = 0
        var at = from
        while (at < end && shift < MOST_VARINT) {
            val byte = data.get(at++).toInt() and 0xff
            val bits = (byte and 0x7f).toLong()
            if (shift < 56) value = value or (bits shl shift) else if (bits != 0L) value = value and 7 or HUGE
            if (byte < 0x80) {
                next = at
                return value
            }
            shift += 7
        }
        throw GraphFileException("a number has no end")
    }
}

/**
 * Whether a text is a relative path of files: parts of `A-Za-z0-9._+-` that do not begin with `.`, with `/` between
 * them.
 */
internal fun isFileName(name: String): Boolean = name.split("/").all { part ->
    part.isNotEmpty() && part[0] != '.' && part.all { isFileCharacter(it) }
}

private fun isFileCharacter(char: Char): Boolean =
    char in 'A'..'Z' || char in 'a'..'z' || char in '0'..'9' || char in "._+-"

/**
 * The files that the tensors of a graph are in: relative paths with `/` between parts.
 *
 * @param graph the bytes of an ONNX file, from 0 to its limit; it may be mapped.
 * @throws GraphFileException it is no ONNX graph or has too many fields or nodes, it names a file by an absolute path,
 *   `..`, a hidden name or characters other than ASCII letters, digits and `._+-`; or it holds a graph inside a node
 *   (If, Loop, Scan), a function, training information or compiled code.
 */
internal fun externalFiles(graph: ByteBuffer): Set<String> {
    val size = graph.limit()
    val isOrt = size >= 8 && ORT_MARK.indices.all { graph.get(4 + it) == ORT_MARK[it] }
    if (size < 2 || isOrt) throw GraphFileException("it is no ONNX graph")
    val walk = Walk(graph, LinkedHashSet())
    walk.message(Kind.MODEL, 0, size)
    return walk.places
}
