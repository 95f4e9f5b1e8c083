package io.omnidraft.learning.step

import io.omnidraft.SettingException
import io.omnidraft.disk.Tensor
import io.omnidraft.disk.TensorFileError
import io.omnidraft.disk.TensorHeader
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.dump
import io.omnidraft.disk.encodeUtf8
import io.omnidraft.disk.parse
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readHeader
import io.omnidraft.disk.readTensors
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.reason
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.ByteOrder

/* The checkpoint file of learners: named arrays and JSON metadata in a safetensors file, the same as in Python. */

private const val LENGTH_BYTES = 8
private const val MAX_HEADER_BYTES = 1 shl 22
private const val MAX_FILE_BYTES = 1L shl 30

/**
 * The content of a file: its arrays, and its metadata as JSON values (see `disk/StrictJson.kt`; numbers may be Double).
 */
internal class SavedArrays(val arrays: Arrays, val metadata: Map<String, Any?>)

internal class StateFormat(
    val name: String, // written into the file; a file with another name is refused
    val version: String,
    val remedy: String = "delete it or name another file", // of a file that is refused
) {
    /** Replace the file. A kill at any moment leaves the old file or the new one, whole. */
    fun write(file: File, arrays: Arrays, metadata: Map<String, Any?>) {
        val texts = metadata.mapValues { stateJson(it.value) } + mapOf("format" to name, "version" to version)
        try {
            writeAtomically(file, encodeState(arrays, texts))
        } catch (error: IOException) {
            throw SettingException("$file cannot be written (${reason(error)})", "make room or give another place")
        }
    }

    /** The arrays and the metadata. Memory is that of the file, which is bounded. */
    fun read(file: File): SavedArrays {
        val data = bytesOf(file)
        val header = headerOf(file, data)
        val arrays = try {
            readTensors(data, header.entries, header.start).mapValues { (name, tensor) -> arrayOf(name, tensor) }
        } catch (error: ValueError) {
            throw unreadable(file, error)
        }
        return SavedArrays(arrays, metadataOf(file, header))
    }

    /** The error of a file from which nothing can go on; [why] is the verb of the sentence. */
    fun refusal(file: File, why: String): SettingException =
        SettingException("$file $why, so learning cannot go on from it", remedy)

    private fun bytesOf(file: File): ByteBuffer = try {
        if (!heapHolds(file.length())) throw IOException("it has ${file.length()} bytes, more than the memory holds")
        ByteBuffer.wrap(readWhole(file, MAX_FILE_BYTES))
    } catch (error: IOException) {
        throw unreadable(file, error)
    }

    private fun headerOf(file: File, data: ByteBuffer): TensorHeader {
        val header = try {
            readHeader(data, MAX_HEADER_BYTES)
        } catch (error: TensorFileError) {
            throw unreadable(file, error)
        }
        val metadata = header.metadata
        if (metadata["format"] != name || metadata["version"] != version) {
            throw refusal(file, "is ${metadata["format"]?.take(80)} version ${metadata["version"]?.take(20)}")
        }
        return header
    }

    private fun metadataOf(file: File, header: TensorHeader): Map<String, Any?> {
        val values = LinkedHashMap<String, Any?>()
        for ((name, text) in header.metadata) {
            if (name == "format" || name == "version") continue
            values[name] = try {
                parse(encodeUtf8(text))
            } catch (error: ValueError) {
                throw refusal(file, "has no readable ${name.take(80)} (${reason(error)})")
            }
        }
        return values
    }

    private fun unreadable(file: File, error: Exception) = refusal(file, "cannot be read (${reason(error)})")
}

/** The bytes of a file; larger values come first, so that each begins at a multiple of its size. */
internal fun encodeState(arrays: Arrays, metadata: Map<String, String>): ByteArray {
    val order = arrays.entries.sortedWith(compareBy({ sizeOrder(it.value) }, { it.key }))
    val header = LinkedHashMap<String, Any?>()
    header["__metadata__"] = metadata
    var end = 0L
    for ((name, array) in order) {
        val shape = array.shape.map { it.toLong() }
        header[name] = mapOf(
            "dtype" to array.type, "shape" to shape, "data_offsets" to listOf(end, end + array.bytes),
        )
        end += array.bytes
    }
    val text = dump(header)
    val length = (text.size + 7) / LENGTH_BYTES * LENGTH_BYTES
    if (LENGTH_BYTES + length + end > Int.MAX_VALUE - LENGTH_BYTES) throw IOException("it would have $end bytes")
    val out = ByteBuffer.allocate(LENGTH_BYTES + length + end.toInt()).order(ByteOrder.LITTLE_ENDIAN)
    out.putLong(length.toLong()).put(text)
    repeat(length - text.size) { out.put(' '.code.toByte()) }
    for ((_, array) in order) array.put(out)
    return out.array()
}

/** A JSON text that may hold numbers with a fraction; only this library and the Python runtime read it. */
internal fun stateJson(value: Any?): String = when (value) {
    is Double -> {
        require(!value.isNaN() && !value.isInfinite()) { "$value has no form in JSON" }
        value.toString()
    }
    is Map<*, *> -> value.entries.joinToString(",", "{", "}") { (name, each) ->
        "${stateJson(name.toString())}:${stateJson(each)}"
    }
    is List<*> -> value.joinToString(",", "[", "]") { stateJson(it) }
    else -> String(dump(value), Charsets.UTF_8)
}

private fun sizeOrder(array: TypedArray): Int = when (array) {
    is LongValues -> 0
    is FloatValues -> 1
    is ByteValues, is BooleanValues -> 2
}

private fun arrayOf(name: String, tensor: Tensor): TypedArray {
    val shape = IntArray(tensor.shape.size)
    for (i in shape.indices) {
        if (tensor.shape[i] > Int.MAX_VALUE) throw ValueError("${quoted(name)} has a size of ${tensor.shape[i]}")
        shape[i] = tensor.shape[i].toInt()
    }
    val data = tensor.data.duplicate().order(ByteOrder.LITTLE_ENDIAN)
    return when (tensor.dtype) {
        "F32" -> FloatValues(FloatArray(data.remaining() / 4).also { data.asFloatBuffer().get(it) }, shape)
        "I64" -> LongValues(LongArray(data.remaining() / 8).also { data.asLongBuffer().get(it) }, shape)
        "U8" -> ByteValues(ByteArray(data.remaining()).also { data.get(it) }, shape)
        else -> throw ValueError("${quoted(name)} has type ${quoted(tensor.dtype)}")
    }
}
