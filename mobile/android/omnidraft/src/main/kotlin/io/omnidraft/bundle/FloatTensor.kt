package io.omnidraft.bundle

/** A float32 tensor: its sizes, and its values in row-major order. What numpy arrays are in Python. */
internal class FloatTensor(val shape: IntArray, val values: FloatArray) {
    init {
        require(shape.fold(1L) { product, size -> product * size } == values.size.toLong()) { "the shape does not fit" }
    }

    constructor(vararg shape: Int) : this(shape, FloatArray(shape.fold(1) { product, size -> product * size }))

    override fun equals(other: Any?): Boolean =
        other is FloatTensor && shape.contentEquals(other.shape) && values.contentEquals(other.values)

    override fun hashCode(): Int = 31 * shape.contentHashCode() + values.contentHashCode()
}
