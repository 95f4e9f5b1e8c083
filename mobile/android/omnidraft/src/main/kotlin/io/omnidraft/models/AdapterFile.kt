package io.omnidraft.models

import io.omnidraft.AdapterException
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.bundle.aName
import io.omnidraft.bundle.bName
import io.omnidraft.disk.ByteWriter
import io.omnidraft.disk.Tensor
import io.omnidraft.disk.TensorFileError
import io.omnidraft.disk.dump
import io.omnidraft.disk.isHexadecimal
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readFile
import io.omnidraft.disk.readHeader
import io.omnidraft.disk.readTensors
import io.omnidraft.disk.readWhole
import io.omnidraft.disk.writeAtomically
import io.omnidraft.reason
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.ByteOrder

/* The file of an adapter, format version 1: safetensors with metadata. See spec/11-adapter.md. */

private const val FORMAT = "omnidraft.adapter"
private const val VERSION = "1"
private const val MAX_HEADER_BYTES = 1 shl 22
private const val MAX_FILE_BYTES = 1L shl 30
private const val LENGTH_BYTES = 8
private val REMEDIES = mapOf(
    "unreadable" to "check the path and its permissions",
    "not_an_adapter" to "give a file that `omnidraft adapter convert` or training wrote",
    "version" to "update omnidraft",
)

internal fun encodeAdapter(adapter: Adapter): ByteArray {
    val named = adapter.named.toSortedMap()
    val header = LinkedHashMap<String, Any?>()
    header["__metadata__"] = metadataOf(adapter).toSortedMap()
    var end = 0L
    for ((name, tensor) in named) {
        val start = end
        end += 4L * tensor.values.size
        val shape = tensor.shape.map { it.toLong() }
        header[name] = linkedMapOf("data_offsets" to listOf(start, end), "dtype" to "F32", "shape" to shape)
    }
    val text = dump(header)
    val filled = (text.size + 7) / 8 * 8
    val out = ByteWriter(LENGTH_BYTES + filled + end.toInt())
    out.i64(filled.toLong()).put(text)
    repeat(filled - text.size) { out.u8(' '.code) }
    for (tensor in named.values) for (value in tensor.values) out.f32(value)
    return out.bytes()
}

internal fun metadataOf(adapter: Adapter): Map<String, String> = linkedMapOf(
    "format" to FORMAT,
    "version" to VERSION,
    "base" to adapter.base,
    "draft_tokenizer" to adapter.draftTokenizer,
    "target_tokenizer" to adapter.targetTokenizer,
    "rank" to adapter.rank.toString(),
    "alpha" to "folded",
    "targets" to adapter.tensors.keys.map { it.substringAfterLast('.') }.toSortedSet().joinToString(","),
    "created" to adapter.created,
)

internal fun decodeAdapter(data: ByteArray): Adapter {
    val buffer = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN)
    val metadata: Map<String, String>
    val tensors: Map<String, Tensor>
    try {
        val header = readHeader(buffer, MAX_HEADER_BYTES)
        metadata = header.metadata
        checkFormat(metadata)
        tensors = readTensors(buffer, header.entries, header.start)
    } catch (error: TensorFileError) {
        throw AdapterException(if (error.fault == "header") "not_an_adapter" else error.fault, error.message.orEmpty())
    }
    return adapter(metadata, pairs(tensors.mapValuesTo(LinkedHashMap()) { floats(it.key, it.value) }))
}

private fun checkFormat(metadata: Map<String, String>) {
    if (metadata["format"] != FORMAT) {
        throw AdapterException("not_an_adapter", "its metadata does not say that it is an $FORMAT")
    }
    val version = metadata["version"]
    if (version != VERSION) {
        val message = "it has version ${version.toString().take(20)} and this omnidraft reads version $VERSION"
        throw AdapterException("version", message)
    }
}

private fun floats(name: String, tensor: Tensor): FloatTensor {
    if (tensor.dtype != "F32") throw AdapterException("dtype", "${quoted(name)} is ${tensor.dtype}, not F32")
    val values = FloatArray(tensor.data.limit() / 4)
    tensor.data.asFloatBuffer().get(values)
    // A size beyond 2^31 stands beside a size 0; no site has either.
    return FloatTensor(IntArray(tensor.shape.size) { minOf(tensor.shape[it], MOST_SIZE).toInt() }, values)
}

private const val MOST_SIZE = Int.MAX_VALUE.toLong()

private fun pairs(arrays: MutableMap<String, FloatTensor>): Map<String, SitePair> {
    val pairs = LinkedHashMap<String, SitePair>()
    for (site in arrays.keys.map { it.substringBeforeLast('.', "") }.toSortedSet()) {
        for (name in listOf(aName(site), bName(site))) {
            if (name !in arrays) throw AdapterException("missing_tensor", "it has no ${quoted(name)}")
        }
        pairs[site] = SitePair(arrays.remove(aName(site))!!, arrays.remove(bName(site))!!)
    }
    if (arrays.isNotEmpty()) {
        val name = quoted(arrays.keys.minOrNull())
        throw AdapterException("extra_tensor", "it has a tensor $name, which no adapter has")
    }
    return pairs
}

private fun adapter(metadata: Map<String, String>, tensors: Map<String, SitePair>): Adapter {
    for (name in listOf("base", "draft_tokenizer", "target_tokenizer", "created")) {
        val value = metadata[name]
        val isRight = value != null && if (name == "created") isTime(value) else isHexadecimal(value, 64)
        if (!isRight) throw AdapterException("metadata", "its $name is ${quoted(value)}")
    }
    val adapter = Adapter(
        metadata.getValue("base"),
        metadata.getValue("draft_tokenizer"),
        metadata.getValue("target_tokenizer"),
        tensors,
        metadata.getValue("created"),
    )
    for ((name, expected) in metadataOf(adapter)) {
        if (metadata[name] != expected) {
            val message = "its $name is ${quoted(metadata[name])} and its tensors give ${quoted(expected)}"
            throw AdapterException("metadata", message)
        }
    }
    return adapter
}

/** Whether a text is written as `2026-01-02T03:04:05Z`. */
internal fun isTime(text: String): Boolean {
    val form = "dddd-dd-ddTdd:dd:ddZ"
    return text.length == form.length && text.indices.all {
        if (form[it] == 'd') text[it] in '0'..'9' else text[it] == form[it]
    }
}

internal fun readAdapter(file: File): Adapter = try {
    decodeAdapter(bytesOf(file))
} catch (error: AdapterException) {
    val remedy = REMEDIES[error.fault] ?: "restore a copy, or convert or train it again"
    throw AdapterException(error.fault, "$file is refused: ${error.message}", remedy)
}

/** The bytes of a file; a file that does not begin like safetensors is not read to its end. */
private fun bytesOf(file: File): ByteArray = try {
    val head = readFile(file, LENGTH_BYTES + 1)
    if (head.size > LENGTH_BYTES && head[LENGTH_BYTES] != '{'.code.toByte()) {
        throw AdapterException("not_an_adapter", "it is not a safetensors file")
    }
    if (head.size > LENGTH_BYTES) readWhole(file, MAX_FILE_BYTES) else head
} catch (error: IOException) {
    throw AdapterException("unreadable", "it cannot be read (${reason(error)})")
}

/** Saves an adapter. Killed at any point, the old file or the new one is there, whole. */
internal fun writeAdapter(file: File, adapter: Adapter) {
    try {
        writeAtomically(file, encodeAdapter(adapter))
    } catch (error: IOException) {
        val message = "the adapter cannot be written to $file (${reason(error)})"
        throw AdapterException("unwritable", message, "choose another place")
    }
}
