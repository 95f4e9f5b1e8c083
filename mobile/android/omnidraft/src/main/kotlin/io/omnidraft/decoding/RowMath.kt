package io.omnidraft.decoding

import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import java.nio.IntBuffer

/*
 * The loops over whole rows: largest number, exponentials, sums. They decide the host's work of a round.
 *
 * A row is worked on in blocks that stay in the nearest cache. Each loop is over whole scratch arrays from index 0 on,
 * does a few operations of one type, and has no branch: of such loops, and hardly of others, compilers make vector
 * instructions. Python needs no file like this one: numpy has these loops.
 */

internal const val BLOCK: Int = 2048

/** Loops over rows, with their scratch memory; for one thread. */
internal class RowMath {
    private val lanes = FloatArray(BLOCK)
    private val numbers = FloatArray(BLOCK)
    private val factors = FloatArray(BLOCK)
    private val bits = IntArray(BLOCK)
    private val shared = ByteBuffer.allocateDirect(4 * BLOCK).order(ByteOrder.nativeOrder())
    private val asFloats: FloatBuffer = shared.asFloatBuffer()
    private val asInts: IntBuffer = shared.asIntBuffer()

    /** What [exponentials] makes of the smallest number that it tells apart from minus infinity. */
    private val least: Float

    init {
        numbers[0] = LOWEST
        factorise(1)
        least = numbers[0] * factors[0]
    }

    /** The lowest id of the largest logit of a row; of a NaN, where there is one. */
    fun argmax(logits: Logits, row: Int): Int =
        argmax(logits.width, { base, count -> logits.read(row, base, count, numbers) }) { logits[row, it] }

    /** The lowest id of the largest of the first [size] numbers; of a NaN, where there is one. */
    fun argmax(row: FloatArray, size: Int): Int =
        argmax(size, { base, count -> System.arraycopy(row, base, numbers, 0, count) }) { row[it] }

    private inline fun argmax(size: Int, read: (Int, Int) -> Unit, number: (Int) -> Float): Int {
        lanes.fill(Float.NEGATIVE_INFINITY)
        for (base in 0 until size step BLOCK) {
            val count = minOf(BLOCK, size - base)
            read(base, count)
            raise(lanes, numbers, count)
        }
        return lowest(size, number)
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

    /** The weights of a row: `exp((logit - largest) / temperature)`; a weight of less than 2e-38 may become 0. */
    fun exponentials(
        logits: Logits,
        row: Int,
        largest: Float, // the largest of the logits, finite
        temperature: Float,
        weights: FloatArray,
        sums: DoubleArray, // takes the sum of each block
    ) = exponentials(logits.width, largest, temperature, weights, sums) { base, count ->
        logits.read(row, base, count, numbers)
    }

    /** The same of the first [size] numbers of an array, in place. */
    fun exponentials(row: FloatArray, size: Int, largest: Float, temperature: Float, sums: DoubleArray) =
        exponentials(size, largest, temperature, row, sums) { base, count ->
            System.arraycopy(row, base, numbers, 0, count)
        }

    private inline fun exponentials(
        size: Int,
        largest: Float,
        temperature: Float,
        weights: FloatArray,
        sums: DoubleArray,
        read: (Int, Int) -> Unit,
    ) {
        for (base in 0 until size step BLOCK) {
            val count = minOf(BLOCK, size - base)
            read(base, count)
            if (temperature == 1f) lower(numbers, count, largest) else scale(numbers, count, largest, temperature)
            factorise(count)
            multiply(numbers, factors, count, least)
            System.arraycopy(numbers, 0, weights, base, count)
            sums[base / BLOCK] = sum(count)
        }
    }

    /** exp of [count] of [numbers] that are [LOWEST] to 0, as [numbers] times [factors]: a polynomial, and 2^n. */
    private fun factorise(count: Int) {
        round(numbers, factors, count)
        reduce(numbers, factors, count)
        evaluate(numbers, count)
        asFloats.clear()
        asFloats.put(factors, 0, count)
        asInts.clear()
        asInts.get(bits, 0, count)
        powers(bits, count)
        asInts.clear()
        asInts.put(bits, 0, count)
        asFloats.clear()
        asFloats.get(factors, 0, count)
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
            System.arraycopy(row, base, numbers, 0, count)
            System.arraycopy(mask, base, factors, 0, count)
            multiply(numbers, factors, count)
            sum += sum(count)
        }
        return sum
    }

    /** The sum of the first [count] of [numbers], which are overwritten: 16 parts of a whole block are added first. */
    private fun sum(count: Int): Double {
        var left = count
        if (count == BLOCK) {
            addQuarters(numbers, BLOCK / 4)
            addQuarters(numbers, BLOCK / 16)
            left = BLOCK / 16
        }
        var sum = 0.0
        for (i in 0 until left) sum += numbers[i].toDouble()
        return sum
    }
}

private const val LOWEST = -87f // exp of less is no normal number
private const val LOG2_E = 1.44269504088896341f
private const val LN2_HIGH = 0.693359375f // few bits, so that its product with an exponent is exact
private const val LN2_LOW = -2.12194440e-4f
private const val ROUND = 12582912f // 1.5 x 2^23: a number that it is added to is rounded to an integer
private const val ROUND_BITS = 0x4b400000 // the bits of ROUND
private const val BIAS = 127
private const val MANTISSA = 23

private fun isSame(a: Float, b: Float): Boolean = a == b || (a.isNaN() && b.isNaN())

private fun raise(lanes: FloatArray, numbers: FloatArray, count: Int) {
    for (i in 0 until count) lanes[i] = Math.max(lanes[i], numbers[i])
}

private fun lower(numbers: FloatArray, count: Int, largest: Float) {
    for (i in 0 until count) numbers[i] = Math.max(numbers[i] - largest, LOWEST)
}

private fun scale(numbers: FloatArray, count: Int, largest: Float, divisor: Float) {
    for (i in 0 until count) numbers[i] = Math.max((numbers[i] - largest) / divisor, LOWEST)
}

// x = n ln 2 + r, and exp(x) = 2^n exp(r): three loops are faster than one that needs more registers than there are.

/** ROUND + n of each number. */
private fun round(numbers: FloatArray, rounded: FloatArray, count: Int) {
    for (i in 0 until count) rounded[i] = numbers[i] * LOG2_E + ROUND
}

/** r of each number. */
private fun reduce(numbers: FloatArray, rounded: FloatArray, count: Int) {
    for (i in 0 until count) {
        val n = rounded[i] - ROUND
        numbers[i] = (numbers[i] - n * LN2_HIGH) - n * LN2_LOW
    }
}

/** exp(r) by the polynomial of Cephes' expf; its error is below one unit of the last place. */
private fun evaluate(numbers: FloatArray, count: Int) {
    for (i in 0 until count) {
        val r = numbers[i]
        val high = ((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f
        val low = ((high * r + 1.6666665459e-1f) * r + 5.0000001201e-1f) * (r * r)
        numbers[i] = (low + r) + 1f
    }
}

/** The bits of ROUND + n become those of 2^n. */
private fun powers(bits: IntArray, count: Int) {
    for (i in 0 until count) bits[i] = (bits[i] - (ROUND_BITS - BIAS)) shl MANTISSA
}

private fun multiply(numbers: FloatArray, factors: FloatArray, count: Int) {
    for (i in 0 until count) numbers[i] = numbers[i] * factors[i]
}

/** What each product is above [least]: so the exp of minus infinity is 0. Larger products do not change. */
private fun multiply(numbers: FloatArray, factors: FloatArray, count: Int, least: Float) {
    for (i in 0 until count) numbers[i] = Math.max(numbers[i] * factors[i] - least, 0f)
}

private fun addQuarters(numbers: FloatArray, count: Int) {
    for (i in 0 until count) {
        numbers[i] = (numbers[i] + numbers[i + count]) + (numbers[i + 2 * count] + numbers[i + 3 * count])
    }
}
