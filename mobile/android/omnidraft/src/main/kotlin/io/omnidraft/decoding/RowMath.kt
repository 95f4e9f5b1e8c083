package io.omnidraft.decoding

import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import java.nio.IntBuffer

/*
 * The loops over whole rows: largest number, exponentials, sums. They decide the host's work of a round.
 *
 * Each loop does one kind of operation on arrays of one type and has no branch, because compilers turn such loops
 * into vector instructions. Python needs no file like this one: numpy has these loops.
 */

/** Numbers of a block: what the loops work on stays in the nearest cache. */
internal const val BLOCK: Int = 2048

/** Loops over rows, with their scratch memory; for one thread. */
internal class RowMath {
    private val lanes = FloatArray(BLOCK)
    private val numbers = FloatArray(BLOCK)
    private val bits = IntArray(BLOCK)
    private val shared = ByteBuffer.allocateDirect(4 * BLOCK).order(ByteOrder.nativeOrder())
    private val asFloats: FloatBuffer = shared.asFloatBuffer()
    private val asInts: IntBuffer = shared.asIntBuffer()

    /** The lowest id of the largest logit of a row; of a NaN, where there is one. */
    fun argmax(logits: Logits, row: Int): Int {
        val width = logits.width
        val whole = width - width % BLOCK
        lanes.fill(Float.NEGATIVE_INFINITY)
        for (base in 0 until whole step BLOCK) {
            logits.read(row, base, BLOCK, numbers)
            raise(lanes, numbers, 0, BLOCK)
        }
        if (whole < width) {
            logits.read(row, whole, width - whole, numbers)
            raise(lanes, numbers, 0, width - whole)
        }
        return lowest(width) { logits[row, it] }
    }

    /** The lowest id of the largest of the first [size] numbers; of a NaN, where there is one. */
    fun argmax(row: FloatArray, size: Int): Int {
        lanes.fill(Float.NEGATIVE_INFINITY)
        for (base in 0 until size step BLOCK) raise(lanes, row, base, minOf(BLOCK, size - base))
        return lowest(size) { row[it] }
    }

    /** The lowest id whose number is the largest of [lanes]: lane i holds the largest of ids i, i + BLOCK, ... */
    private inline fun lowest(size: Int, number: (Int) -> Float): Int {
        var largest = Float.NEGATIVE_INFINITY
        for (each in lanes) largest = Math.max(largest, each) // NaN where one of them is
        var best = size
        for (lane in 0 until minOf(BLOCK, size)) {
            if (!isSame(lanes[lane], largest)) continue
            var id = lane
            while (!isSame(number(id), largest)) id += BLOCK
            best = minOf(best, id)
        }
        return best
    }

    /**
     * Turn logits into weights, in place: `exp((logit - largest) / temperature)`; weights below 2^-126 become 0.
     *
     * @param largest the largest of the logits, finite.
     */
    fun exponentials(row: FloatArray, size: Int, largest: Float, temperature: Float) {
        for (base in 0 until size step BLOCK) {
            val count = minOf(BLOCK, size - base)
            lower(row, base, count, largest)
            if (temperature != 1f) divide(row, base, count, temperature)
            exponentials(row, base, count)
        }
    }

    /** exp of [count] numbers that are 0 or less, in place: 2^n by its exponent times a polynomial. */
    private fun exponentials(row: FloatArray, base: Int, count: Int) {
        reduce(row, numbers, base, count)
        asFloats.clear()
        asFloats.put(numbers, 0, count)
        asInts.clear()
        asInts.get(bits, 0, count)
        powers(bits, count)
        asInts.clear()
        asInts.put(bits, 0, count)
        asFloats.clear()
        asFloats.get(numbers, 0, count)
        multiply(row, numbers, base, count)
    }

    /** The sum of each block of a row; the last block may be shorter. */
    fun blockSums(row: FloatArray, size: Int, sums: DoubleArray) {
        for (base in 0 until size step BLOCK) {
            val count = minOf(BLOCK, size - base)
            System.arraycopy(row, base, numbers, 0, count)
            sums[base / BLOCK] = sum(count)
        }
    }

    /** The sum of the weights of a row where a mask of zeros and ones has a one. */
    fun maskedSum(row: FloatArray, mask: FloatArray, size: Int): Double {
        var sum = 0.0
        for (base in 0 until size step BLOCK) {
            val count = minOf(BLOCK, size - base)
            product(row, mask, numbers, base, count)
            sum += sum(count)
        }
        return sum
    }

    /** The sum of the first [count] of [numbers], which are overwritten: halves are added until few are left. */
    private fun sum(count: Int): Double {
        var left = count
        if (count == BLOCK) {
            while (left > FEW) {
                left /= 2
                addBehind(numbers, left)
            }
        }
        var sum = 0.0
        for (i in 0 until left) sum += numbers[i].toDouble()
        return sum
    }
}

private const val FEW = 128 // numbers that are added one by one
private const val LOWEST = -140f // exp of less is 0 here
private const val LOG2_E = 1.44269504088896341f
private const val LN2_HIGH = 0.693359375f // few bits, so that its product with an exponent is exact
private const val LN2_LOW = -2.12194440e-4f
private const val ROUND = 12582912f // 1.5 x 2^23: a number that it is added to is rounded to an integer
private const val ROUND_BITS = 0x4b400000 // the bits of ROUND
private const val BIAS = 127
private const val MANTISSA = 23

private fun isSame(a: Float, b: Float): Boolean = a == b || (a.isNaN() && b.isNaN())

private fun raise(lanes: FloatArray, row: FloatArray, base: Int, count: Int) {
    for (i in 0 until count) lanes[i] = Math.max(lanes[i], row[base + i])
}

private fun lower(row: FloatArray, base: Int, count: Int, largest: Float) {
    for (i in base until base + count) row[i] = row[i] - largest
}

private fun divide(row: FloatArray, base: Int, count: Int, divisor: Float) {
    for (i in base until base + count) row[i] = row[i] / divisor
}

/**
 * x = n ln 2 + r: the polynomial of exp(r) takes the place of x, and ROUND + n goes into [rounded].
 *
 * The polynomial is that of Cephes' expf; its error is below one unit of the last place.
 */
private fun reduce(row: FloatArray, rounded: FloatArray, base: Int, count: Int) {
    for (i in 0 until count) {
        val x = Math.max(row[base + i], LOWEST)
        val shifted = x * LOG2_E + ROUND
        val n = shifted - ROUND
        val r = (x - n * LN2_HIGH) - n * LN2_LOW
        val high = ((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f
        val low = ((high * r + 1.6666665459e-1f) * r + 5.0000001201e-1f) * (r * r)
        rounded[i] = shifted
        row[base + i] = (low + r) + 1f
    }
}

/** The bits of ROUND + n become those of 2^n; of 0, where n is below -126. */
private fun powers(bits: IntArray, count: Int) {
    for (i in 0 until count) bits[i] = Math.max(bits[i] - (ROUND_BITS - BIAS), 0) shl MANTISSA
}

private fun multiply(row: FloatArray, factors: FloatArray, base: Int, count: Int) {
    for (i in 0 until count) row[base + i] = row[base + i] * factors[i]
}

private fun product(row: FloatArray, mask: FloatArray, into: FloatArray, base: Int, count: Int) {
    for (i in 0 until count) into[i] = row[base + i] * mask[base + i]
}

private fun addBehind(numbers: FloatArray, count: Int) {
    for (i in 0 until count) numbers[i] = numbers[i] + numbers[i + count]
}
