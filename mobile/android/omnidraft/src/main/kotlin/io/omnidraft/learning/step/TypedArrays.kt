package io.omnidraft.learning.step

import java.nio.ByteBuffer

/*
 * Arrays with a type and sizes: what numpy's arrays are to the Python runtime. They are inputs and outputs of the
 * training graphs, and the values of a state file.
 */

internal typealias Arrays = Map<String, TypedArray>

/**
 * One array; [shape] has its sizes, none for a single value, and [type] is the name that safetensors gives its values.
 */
internal sealed class TypedArray(val type: String, val shape: IntArray) {
    abstract val bytes: Long

    /** Writes the values, row by row. */
    internal abstract fun put(into: ByteBuffer)

    val form: String get() = "$type ${shape.joinToString(", ", "[", "]")}"
}

internal class FloatValues(val values: FloatArray, shape: IntArray = intArrayOf(values.size)) :
    TypedArray("F32", shape) {
    override val bytes: Long get() = 4L * values.size

    override fun put(into: ByteBuffer) {
        for (value in values) into.putFloat(value)
    }
}

internal class LongValues(val values: LongArray, shape: IntArray = intArrayOf(values.size)) :
    TypedArray("I64", shape) {
    override val bytes: Long get() = 8L * values.size

    override fun put(into: ByteBuffer) {
        for (value in values) into.putLong(value)
    }
}

/** Bytes, such as a file inside a state. */
internal class ByteValues(val values: ByteArray, shape: IntArray = intArrayOf(values.size)) :
    TypedArray("U8", shape) {
    override val bytes: Long get() = values.size.toLong()

    override fun put(into: ByteBuffer) {
        into.put(values)
    }
}

/** Truth values, a byte each. */
internal class BooleanValues(val values: BooleanArray, shape: IntArray = intArrayOf(values.size)) :
    TypedArray("BOOL", shape) {
    override val bytes: Long get() = values.size.toLong()

    override fun put(into: ByteBuffer) {
        for (value in values) into.put(if (value) 1.toByte() else 0.toByte())
    }
}

/** One float32, as an input without sizes. */
internal fun oneFloat(value: Double): TypedArray = FloatValues(floatArrayOf(value.toFloat()), IntArray(0))

/** One int64, as an input without sizes. */
internal fun oneLong(value: Long): TypedArray = LongValues(longArrayOf(value), IntArray(0))

/** One truth value, as an input without sizes. */
internal fun oneBoolean(value: Boolean): TypedArray = BooleanValues(booleanArrayOf(value), IntArray(0))
