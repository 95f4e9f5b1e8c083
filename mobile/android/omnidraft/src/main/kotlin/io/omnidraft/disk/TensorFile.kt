package io.omnidraft.disk

import java.nio.ByteBuffer
import java.nio.ByteOrder

/* A safetensors file, read strictly: spec/03-bundle.md, "safetensors". The caller knows the tensors. */

private const val LENGTH_BYTES = 8
private const val MOST = (1L shl 53) - 1

/** Bytes of a value of each type. */
internal val SIZES: Map<String, Int> = mapOf(
    "BOOL" to 1, "U8" to 1, "I8" to 1, "U16" to 2, "I16" to 2, "F16" to 2, "BF16" to 2, "U32" to 4, "I32" to 4,
    "F32" to 4, "U64" to 8, "I64" to 8, "F64" to 8,
)

/** A file that is not laid out as it must be. */
internal class TensorFileError(message: String, val fault: String) : ValueError(message)

/** One tensor: its type, its sizes, and its bytes in row-major order; [data] is little-endian and begins at 0. */
internal class Tensor(val dtype: String, val shape: LongArray, val data: ByteBuffer)

/** The metadata, the entries of the tensors, and the byte at which the tensors begin. */
internal class TensorHeader(val metadata: Map<String, String>, val entries: Map<String, Any?>, val start: Int)

internal fun readHeader(data: ByteBuffer, most: Int): TensorHeader {
    val size = data.limit()
    if (size < LENGTH_BYTES) {
        throw TensorFileError("it has $size bytes and a header's length takes $LENGTH_BYTES", "truncated")
    }
    val length = data.duplicate().order(ByteOrder.LITTLE_ENDIAN).getLong(0)
    val isObject = size == LENGTH_BYTES || data.get(LENGTH_BYTES) == '{'.code.toByte()
    if (length < 0 || length > most || !isObject) throw TensorFileError("it is not a safetensors file", "header")
    val start = LENGTH_BYTES + length.toInt()
    if (size < start) throw TensorFileError("it has $size bytes of a header of $start", "truncated")
    return try {
        val entries = LinkedHashMap(mapping(parse(bytes(data, LENGTH_BYTES, start))))
        val metadata = if ("__metadata__" in entries) mapping(entries.remove("__metadata__")) else emptyMap()
        TensorHeader(metadata.mapValues { text(it.value) }, entries, start)
    } catch (error: ValueError) {
        throw TensorFileError("it is not a safetensors file (${error.message?.take(80)})", "header")
    }
}

/** The tensors of a file: one after another, without holes, to the end of the file. */
internal fun readTensors(data: ByteBuffer, entries: Map<String, Any?>, start: Int): Map<String, Tensor> {
    val layout = try {
        entries.map { entry(it.key, it.value) }.sortedWith(compareBy({ it.begin }, { it.end }))
    } catch (error: ValueError) {
        throw TensorFileError("its tensors are not laid out as in safetensors (${error.message?.take(80)})", "layout")
    }
    var at = 0L
    for (each in layout) {
        if (each.begin != at) {
            throw TensorFileError("${quoted(each.name)} begins at ${each.begin} and not at $at", "layout")
        }
        at = each.end
    }
    val size = data.limit().toLong()
    if (size < start + at) throw TensorFileError("it has $size bytes of ${start + at}", "truncated")
    if (size > start + at) throw TensorFileError("it has ${size - start - at} bytes too many", "trailing_bytes")
    return layout.associate {
        it.name to Tensor(it.dtype, it.shape, part(data, start + it.begin.toInt(), start + it.end.toInt()))
    }
}

private class Entry(val name: String, val begin: Long, val end: Long, val dtype: String, val shape: LongArray)

private fun entry(name: String, value: Any?): Entry {
    val entry = mapping(value)
    for (field in listOf("dtype", "shape", "data_offsets")) {
        if (field !in entry) throw ValueError("'$field'")
    }
    val dtype = text(entry["dtype"])
    val shape = array(entry["shape"], 8).map { long(it, 0, MOST) }.toLongArray()
    val (begin, end) = array(entry["data_offsets"], 2, 2).map { long(it, 0, MOST) }
    val size = SIZES[dtype]
    if (entry.size != 3 || size == null) {
        throw ValueError("${quoted(name)} is a tensor of type ${quoted(dtype)} with ${entry.size} fields")
    }
    if (end - begin != bytesOf(shape, size)) {
        throw ValueError("${quoted(name)} has ${end - begin} bytes and its shape another number")
    }
    return Entry(name, begin, end, dtype, shape)
}

/** Bytes of a shape; -1 if they are more than any file has. A zero size makes it 0, whatever the others are. */
private fun bytesOf(shape: LongArray, size: Int): Long {
    if (shape.any { it == 0L }) return 0
    var product = size.toLong()
    for (each in shape) {
        if (each > MOST / product) return -1
        product *= each
    }
    return product
}

/** A part of a buffer that shares its bytes, from 0 on, little-endian. */
internal fun part(data: ByteBuffer, begin: Int, end: Int): ByteBuffer {
    val view = data.duplicate()
    (view as java.nio.Buffer).limit(end).position(begin) // the return type of these differs between Java 8 and 9
    return view.slice().order(ByteOrder.LITTLE_ENDIAN)
}

internal fun bytes(data: ByteBuffer, begin: Int, end: Int): ByteArray =
    ByteArray(end - begin).also { part(data, begin, end).get(it) }
