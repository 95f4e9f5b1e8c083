package io.omnidraft.bundle

/*
 * The weight files that an ONNX graph names, and what no graph may hold, found before onnxruntime reads it
 * (spec/03-bundle.md, "The weights of a graph").
 *
 * A graph is a protobuf message. Every message of onnx.proto that a graph may have is walked through, so that the number
 * of its fields bounds the memory that a parser takes for it. Refused are loops, branches, functions and sparse tensors: a
 * small graph with them can take any time and memory while it is loaded. So is what two parsers could read in two ways.
 * Field numbers are those of onnx.proto.
 */

import io.omnidraft.disk.bytes
import io.omnidraft.disk.quoted
import java.nio.ByteBuffer

private const val MOST_FIELDS = 1 shl 19
private const val MOST_NODES = 1 shl 15
private const val MOST_TENSORS = 1 shl 15
private const val MOST_USES = 1 shl 12 // of a value, as an input of nodes
private const val MOST_PLACE = 4096 // bytes of a name; longer ones are in no manifest
private const val MOST_VARINT = 70 // bits of a number: 10 bytes of 7 bits
private const val HUGE = 1L shl 62 // stands for a number that 63 bits do not hold

// Types of fields.
private const val VARINT = 0
private const val FIXED64 = 1
private const val MESSAGE = 2
private const val FIXED32 = 5

private const val INPUT = 1L // of a node: the name of a value
private const val OPERATOR = 4L // of a node: the name of its operator
private const val KEY = 1L // of an entry of external data, and of a property of the model
private const val VALUE = 2L
private val COMPILED = "EPContext".toByteArray() // a node that names a file of compiled code
private val SETTINGS = "ort_config".toByteArray() // a property that sets options of onnxruntime's session
private val KEYS = listOf("location", "offset", "length", "checksum").map { it.toByteArray() } // of external data
private val ORT_MARK = "ORTM".toByteArray() // at byte 4 of a graph in .ort format

private const val SUBGRAPH = "a graph inside a node"
private const val SPARSE = "a sparse tensor"
private const val DEVICES = "a configuration of devices"
private const val NO_TENSOR = "a value that is no tensor"

/** A kind of message, with the fields that are refused in it; a plain one holds no message. */
private enum class Kind(val refused: Map<Long, String> = emptyMap()) {
    MODEL(mapOf(20L to "training information", 25L to "a function", 26L to DEVICES)),
    GRAPH(mapOf(15L to SPARSE)),
    NODE(mapOf(10L to DEVICES)),
    ATTRIBUTE(mapOf(6L to SUBGRAPH, 11L to SUBGRAPH, 22L to SPARSE, 23L to SPARSE)),
    TENSOR,
    VALUE,
    TYPE(mapOf(4L to NO_TENSOR, 5L to NO_TENSOR, 7L to NO_TENSOR, 8L to NO_TENSOR, 9L to NO_TENSOR)),
    TENSOR_TYPE,
    SHAPE,
    ANNOTATION,
    PROPERTY,
    PLAIN,
    EXTERNAL,
}

/** The fields that hold a message, and its kind. */
private val INSIDE: Map<Kind, Map<Long, Kind>> = mapOf(
    Kind.MODEL to mapOf(7L to Kind.GRAPH, 8L to Kind.PLAIN, 14L to Kind.PROPERTY),
    Kind.GRAPH to mapOf(
        1L to Kind.NODE, 5L to Kind.TENSOR, 11L to Kind.VALUE, 12L to Kind.VALUE, 13L to Kind.VALUE,
        14L to Kind.ANNOTATION, 16L to Kind.PLAIN,
    ),
    Kind.NODE to mapOf(5L to Kind.ATTRIBUTE, 9L to Kind.PLAIN),
    Kind.ATTRIBUTE to mapOf(5L to Kind.TENSOR, 10L to Kind.TENSOR, 14L to Kind.TYPE, 15L to Kind.TYPE),
    Kind.TENSOR to mapOf(3L to Kind.PLAIN, 13L to Kind.EXTERNAL, 16L to Kind.PLAIN),
    Kind.VALUE to mapOf(2L to Kind.TYPE, 4L to Kind.PLAIN),
    Kind.TYPE to mapOf(1L to Kind.TENSOR_TYPE),
    Kind.TENSOR_TYPE to mapOf(2L to Kind.SHAPE),
    Kind.SHAPE to mapOf(1L to Kind.PLAIN),
    Kind.ANNOTATION to mapOf(2L to Kind.PLAIN),
)

/**
 * A graph that no engine may read.
 *
 * @property fault `outside` for the name of a file and for what is no graph, `graph` for what no graph may hold.
 */
internal class GraphFileException(message: String, val fault: String = "outside") : Exception(message)

/** Reads the fields of the messages of a graph, which are bounded in number; what is no protobuf is refused. */
internal class GraphFields(private val data: ByteBuffer) {
    private var left = MOST_FIELDS
    private var next = 0 // the byte behind the number that was read last

    /** Calls [use] with number, first and last byte (exclusive) of each field that has a length, and [count] with numbers. */
    fun each(from: Int, end: Int, count: (Long, Long) -> Unit = { _, _ -> }, use: (Long, Int, Int) -> Unit) {
        var at = from
        while (at < end) {
            if (--left < 0) throw GraphFileException("it has more than $MOST_FIELDS fields")
            val tag = short(at, end)
            if (tag < 8) throw GraphFileException("a field has the number 0")
            val type = (tag and 7).toInt()
            val size = when (type) {
                VARINT -> 0L.also { count(tag ushr 3, varint(next, end)) }
                MESSAGE -> short(next, end)
                FIXED64 -> 8L
                FIXED32 -> 4L
                else -> throw GraphFileException("a field has the unknown type $type")
            }
            if (next + size > end) throw GraphFileException("a field is longer than its message")
            at = next + size.toInt()
            if (type == MESSAGE) use(tag ushr 3, at - size.toInt(), at)
        }
    }

    /**
     * A tag or a length: below 2^32, and in no more bytes than it needs.
     *
     * Parsers differ in the rest: some keep the lowest 32 bits, others refuse.
     */
    private fun short(from: Int, end: Int): Long {
        val value = varint(from, end)
        val count = next - from
        if (value >= 1L shl 32 || (count > 1 && value ushr (7 * (count - 1)) == 0L)) {
            throw GraphFileException("a tag or a length is longer than it needs to be, or too large")
        }
        return value
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

/** A walk through a graph: what it may still hold, and the places that were found. */
private class Walk(private val data: ByteBuffer, val places: MutableSet<String>) {
    private val fields = GraphFields(data)
    private var nodes = MOST_NODES
    private var tensors = MOST_TENSORS
    private val uses = HashMap<ByteBuffer, Int>() // of each value, as an input of nodes

    /** Read one message from [at] to [end]. The depth is that of [INSIDE]. */
    fun message(kind: Kind, at: Int, end: Int) {
        if (kind == Kind.EXTERNAL) return entry(at, end)
        if (kind == Kind.NODE) nodes--
        if (kind == Kind.TENSOR) tensors--
        if (nodes < 0 || tensors < 0) {
            val most = if (nodes < 0) "$MOST_NODES nodes" else "$MOST_TENSORS tensors"
            throw GraphFileException("it has more than $most", "graph")
        }
        val messages = INSIDE[kind].orEmpty()
        fields.each(at, end) { number, start, stop ->
            val inside = messages[number]
            when {
                inside != null -> message(inside, start, stop)
                number in kind.refused -> throw GraphFileException("it holds ${kind.refused[number]}", "graph")
                kind == Kind.NODE || kind == Kind.PROPERTY -> name(kind, number, start, stop)
            }
        }
    }

    /** Look at a text of a node, or of a property of the model. */
    private fun name(kind: Kind, number: Long, start: Int, stop: Int) {
        if (kind == Kind.PROPERTY) {
            if (number == KEY && isText(start, stop, SETTINGS)) {
                throw GraphFileException("it sets options of the engine (ort_config)", "graph")
            }
        } else if (number == OPERATOR && isText(start, stop, COMPILED)) {
            throw GraphFileException("it holds compiled code (EPContext)", "graph")
        } else if (number == INPUT && start < stop) {
            val value = ByteBuffer.wrap(bytes(data, start, stop))
            val count = (uses[value] ?: 0) + 1
            if (count > MOST_USES) throw GraphFileException("a value is used more than $MOST_USES times", "graph")
            uses[value] = count
        }
    }

    /** Read a key and a value of external data, of which `location` names the file. */
    private fun entry(at: Int, end: Int) {
        val names = ArrayList<IntRange>(1)
        val values = ArrayList<IntRange>(1)
        fields.each(at, end) { number, start, stop ->
            if (number == KEY && names.size < 2) names.add(start until stop)
            if (number == VALUE && values.size < 2) values.add(start until stop)
        }
        if (names.size > 1 || values.size > 1) {
            throw GraphFileException("an entry of external data has two keys or values")
        }
        val name = names.firstOrNull() ?: IntRange.EMPTY
        val key = KEYS.indexOfFirst { isText(name.first, name.last + 1, it) }
        if (key < 0) {
            val given = String(bytes(data, name.first, minOf(name.last + 1, name.first + 80)), Charsets.UTF_8)
            throw GraphFileException("an entry of external data has the key ${quoted(given)}")
        }
        if (key == 0) places.add(place(values.firstOrNull() ?: IntRange.EMPTY))
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

/** The files that the tensors of a graph are in: relative paths with `/` between parts. */
internal fun externalFiles(graph: ByteBuffer): Set<String> {
    val size = graph.limit()
    val isOrt = size >= 8 && ORT_MARK.indices.all { graph.get(4 + it) == ORT_MARK[it] }
    if (size < 2 || isOrt) throw GraphFileException("it is no ONNX graph")
    val walk = Walk(graph, LinkedHashSet())
    walk.message(Kind.MODEL, 0, size)
    return walk.places
}
