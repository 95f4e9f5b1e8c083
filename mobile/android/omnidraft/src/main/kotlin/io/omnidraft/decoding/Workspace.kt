package io.omnidraft.decoding

/**
 * Memory of the size of a vocabulary, which a round borrows and the next round borrows again; for one thread.
 *
 * In Python this is the class of the same name in distribution.py.
 */
internal class Workspace {
    val math: RowMath = RowMath()

    private val rows = ArrayList<FloatArray>()
    private var taken = 0
    private var keys = LongArray(0)

    /** Give all rows back; what holds one of them must not be used any more. */
    fun reset() {
        taken = 0
    }

    /** A row of at least [size] numbers, of any values, until the next [reset]. */
    fun row(size: Int): FloatArray {
        if (taken == rows.size) rows.add(FloatArray(size))
        if (rows[taken].size < size) rows[taken] = FloatArray(size)
        return rows[taken++]
    }

    /** At least [size] sortable numbers, of any values, until the next call. */
    fun keys(size: Int): LongArray {
        if (keys.size < size) keys = LongArray(size)
        return keys
    }
}

/** A set of ids below [size], as bits. */
internal class IdSet(val size: Int) {
    private val bits = LongArray((size + 63) / 64)

    fun add(id: Int) {
        bits[id ushr 6] = bits[id ushr 6] or (1L shl (id and 63))
    }

    fun clear() = bits.fill(0L)

    operator fun contains(id: Int): Boolean = (bits[id ushr 6] ushr (id and 63)) and 1L != 0L
}
