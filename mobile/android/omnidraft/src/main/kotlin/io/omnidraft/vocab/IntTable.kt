package io.omnidraft.vocab

import io.omnidraft.disk.bytes
import java.nio.ByteBuffer

/*
 * Tables of integers that are read by index, and lists of integers that grow: Python has numpy for both.
 *
 * A table of a file is read in place, so a vocabulary of 150,000 tokens makes no objects.
 */

/** A table of integers of at most 32 bits. */
internal abstract class IntTable {
    abstract val size: Int

    /** The entry at an index; one that needs all 32 bits unsigned looks negative, see [unsigned]. */
    abstract operator fun get(index: Int): Int

    /** The entry at an index as an unsigned number. */
    fun unsigned(index: Int): Long = get(index).toLong() and 0xffffffffL

    /** Copies entries from [from] on into the beginning of an array; faster than one at a time. */
    open fun read(from: Int, into: IntArray, count: Int) {
        for (i in 0 until count) into[i] = get(from + i)
    }

    fun copy(from: Int = 0, until: Int = size): IntArray =
        IntArray(until - from).also { read(from, it, until - from) }

    /** Calls [action] with each entry in order; a table of a file is read in blocks. */
    inline fun forEach(action: (Int) -> Unit) {
        val block = IntArray(minOf(size, BLOCK))
        for (from in 0 until size step BLOCK) {
            val count = minOf(BLOCK, size - from)
            read(from, block, count)
            for (i in 0 until count) action(block[i])
        }
    }
}

/** Entries that are read at once. */
internal const val BLOCK: Int = 4_096

/** A table in an array; the table owns the first [size] entries, which do not change. */
internal class ArrayTable(private val values: IntArray, override val size: Int = values.size) : IntTable() {
    override fun get(index: Int): Int = values[index]
}

/** A table of bytes, 0 to 255. */
internal class ByteTable(private val bytes: ByteBuffer) : IntTable() {
    override val size: Int = bytes.limit()

    override fun get(index: Int): Int = bytes.get(index).toInt() and 0xff

    override fun read(from: Int, into: IntArray, count: Int) {
        val block = bytes(bytes, from, from + count)
        for (i in 0 until count) into[i] = block[i].toInt() and 0xff
    }
}

/** A table of unsigned integers of 2 bytes in a little-endian buffer. */
internal class ShortTable(private val bytes: ByteBuffer) : IntTable() {
    override val size: Int = bytes.limit() / 2

    override fun get(index: Int): Int = bytes.getShort(2 * index).toInt() and 0xffff
}

/** A table of integers of 4 bytes in a little-endian buffer. */
internal class WordTable(private val bytes: ByteBuffer) : IntTable() {
    private val words = bytes.asIntBuffer()

    override val size: Int = bytes.limit() / 4

    override fun get(index: Int): Int = bytes.getInt(4 * index)

    override fun read(from: Int, into: IntArray, count: Int) {
        val view = words.duplicate() // a place of its own, since threads share the table
        (view as java.nio.Buffer).position(from)
        view.get(into, 0, count)
    }
}

/** A table of integers of 8 bytes in a little-endian buffer; compare them unsigned where the format says so. */
internal class LongTable(private val bytes: ByteBuffer) {
    val size: Int = bytes.limit() / 8

    operator fun get(index: Int): Long = bytes.getLong(8 * index)
}

/** The table of a little-endian buffer whose entries are 1, 2 or 4 bytes wide. */
internal fun packed(bytes: ByteBuffer, width: Int): IntTable = when (width) {
    1 -> ByteTable(bytes)
    2 -> ShortTable(bytes)
    else -> WordTable(bytes)
}

/** Rows of unequal length in one table: row i is `values[offsets[i] until offsets[i + 1]]`. */
internal class Ragged(val values: IntTable, val offsets: IntTable) {
    val size: Int get() = offsets.size - 1

    /** Where a row begins in [values]. */
    fun start(row: Int): Int = offsets[row]

    fun length(row: Int): Int = offsets[row + 1] - offsets[row]

    fun row(row: Int): IntArray = values.copy(offsets[row], offsets[row + 1])

    companion object {
        /** [count] rows, each of which is asked for twice: no more than one of them is beside the table. */
        inline fun of(count: Int, row: (Int) -> IntArray): Ragged {
            val offsets = IntArray(count + 1)
            for (i in 0 until count) offsets[i + 1] = offsets[i] + row(i).size
            val values = IntArray(offsets[count])
            for (i in 0 until count) row(i).copyInto(values, offsets[i])
            return Ragged(ArrayTable(values), ArrayTable(offsets))
        }
    }
}

internal class IntList(room: Int = 16) {
    private var values = IntArray(room)

    var size: Int = 0
        private set

    operator fun get(index: Int): Int = values[index]

    fun add(value: Int) {
        if (size == values.size) values = values.copyOf(size + size / 2 + 16)
        values[size++] = value
    }

    fun addAll(added: IntArray, from: Int = 0, until: Int = added.size) {
        val count = until - from
        if (size + count > values.size) values = values.copyOf(size + count + size / 2)
        added.copyInto(values, size, from, until)
        size += count
    }

    /** Takes the last integer away, and returns it. */
    fun pop(): Int = values[--size]

    fun clear() {
        size = 0
    }

    fun truncate(length: Int) {
        check(length in 0..size) { "$length of $size integers" }
        size = length
    }

    fun removeFirst(count: Int) {
        values.copyInto(values, 0, count, size)
        size -= count
    }

    fun toArray(from: Int = 0, until: Int = size): IntArray = values.copyOfRange(from, until)
}

/** The first index from [from] to before [until] that is not below what is looked for; those that are come first. */
internal inline fun firstNot(from: Int, until: Int, isBelow: (Int) -> Boolean): Int {
    var low = from
    var high = until
    while (low < high) {
        val middle = (low + high) ushr 1
        if (isBelow(middle)) low = middle + 1 else high = middle
    }
    return low
}
