package io.omnidraft.models

import io.omnidraft.disk.Tensor
import io.omnidraft.disk.part
import java.nio.ByteBuffer
import java.nio.ByteOrder

/*
 * Tensors in onnxruntime's own adapter format, a flatbuffer with the identifier TORT. The Java interface of the engine
 * refuses inputs that a graph has a value for, so the tensors of such inputs are given as an adapter of the engine.
 *
 * A flatbuffer is tables, strings and vectors that point forward to each other. A table begins with the distance back
 * to its list of field places (vtable); both tables here have four fields of four bytes.
 */

private const val FLOAT = 1 // in onnx.proto
private const val FORMAT_VERSION = 1
private const val TABLE_BYTES = 20
private const val VTABLE_BYTES = 12
private const val ROOT_BYTES = 8
private const val ALIGNMENT = 8

/** The bytes of onnxruntime's own adapter file. */
internal fun engineAdapter(tensors: Map<String, Tensor>): ByteBuffer {
    val writer = EngineAdapterWriter(ByteBuffer.allocateDirect(size(tensors)).order(ByteOrder.LITTLE_ENDIAN))
    return writer.write(tensors)
}

private fun size(tensors: Map<String, Tensor>): Int {
    var bytes = ROOT_BYTES.toLong() + 2 * VTABLE_BYTES + TABLE_BYTES + ALIGNMENT + 4
    for ((name, tensor) in tensors) {
        val text = name.toByteArray(Charsets.UTF_8).size + 8
        bytes += 4L + TABLE_BYTES + text + 8L * tensor.shape.size + tensor.data.limit() + 3L * (ALIGNMENT + 4)
    }
    return bytes.toInt() // the tensors come from a file of at most 2^30 bytes
}

private class EngineAdapterWriter(private val out: ByteBuffer) {
    fun write(tensors: Map<String, Tensor>): ByteBuffer {
        out.position(4)
        out.put("TORT".toByteArray(Charsets.US_ASCII))
        val vtable = vtable()
        point(0)
        val fields = table(vtable)
        for (version in 0 until 3) out.putInt(fields + 4 * version, FORMAT_VERSION)
        point(fields + 12)
        parameters(tensors, vtable)
        out.flip()
        return out
    }

    private fun parameters(tensors: Map<String, Tensor>, vtable: Int) {
        out.putInt(tensors.size)
        val places = out.position()
        out.position(places + 4 * tensors.size)
        for ((number, entry) in tensors.entries.withIndex()) {
            point(places + 4 * number)
            parameter(entry.key, entry.value, table(vtable))
        }
    }

    private fun parameter(name: String, tensor: Tensor, fields: Int) {
        out.putInt(fields + 8, FLOAT)
        point(fields)
        val text = name.toByteArray(Charsets.UTF_8)
        out.putInt(text.size).put(text).put(0)
        vector(fields + 4, tensor.shape.size)
        for (size in tensor.shape) out.putLong(size)
        vector(fields + 12, tensor.data.limit())
        out.put(part(tensor.data, 0, tensor.data.limit()))
        align(4)
    }

    /** A list of field places: four fields of four bytes, behind the first four bytes of the table. */
    private fun vtable(): Int {
        val start = out.position()
        out.putShort(VTABLE_BYTES.toShort()).putShort(TABLE_BYTES.toShort())
        for (field in 1..4) out.putShort((4 * field).toShort())
        return start
    }

    /** A table without values; the place of its first field. */
    private fun table(vtable: Int): Int {
        val start = out.position()
        out.putInt(start - vtable)
        out.position(start + TABLE_BYTES)
        return start + 4
    }

    /** The length of a vector whose values are aligned, and a pointer to it. */
    private fun vector(field: Int, length: Int) {
        align(4)
        if (out.position() % ALIGNMENT == 0) out.position(out.position() + 4)
        point(field)
        out.putInt(length)
    }

    /** Writes the distance from a field to the present place, which is aligned. */
    private fun point(field: Int) {
        align(4)
        out.putInt(field, out.position() - field)
    }

    private fun align(to: Int) {
        while (out.position() % to != 0) out.put(0)
    }
}
