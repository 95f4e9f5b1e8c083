package io.omnidraft.decoding

/*
 * Probability distributions over token ids: drawing, verification and correction use nothing else.
 *
 * Pure values; nothing here depends on drafts or on models.
 */

/** A probability distribution over token ids 0 until [size]. */
internal interface Distribution {
    val size: Int

    val isCertain: Boolean

    /** The largest probability. */
    val confidence: Double

    fun probability(id: Int): Double

    /** The sum of the probabilities of distinct ids. */
    fun mass(ids: IntArray): Double

    /** The sum of the probabilities of all other ids; 0 only if each is 0, in spite of rounding. */
    fun massOutside(ids: IdSet): Double

    /** The sum of the probabilities of all ids but one; 0 only if each is 0, in spite of rounding. */
    fun massOutside(id: Int): Double

    /** The sum of the probabilities of the ids where a mask of zeros and ones, shape size, has a one. */
    fun massUnder(mask: FloatArray): Double

    /** The token at [uniform], from 0 until 1, of the cumulative distribution, restricted to [among] if given. */
    fun draw(uniform: Double, among: IntArray? = null): Int

    /** The distribution given that the token is none of the ids. */
    fun without(ids: IdSet): Distribution

    /** The distribution given that the token is another one than [id]. */
    fun without(id: Int): Distribution
}

/**
 * All mass on one token: what temperature 0 makes of a row (ties: lowest id).
 *
 * @property confidence of a drafter, the token's probability in the softmax of its row.
 * @param draws whether a draw uses a random number, as from other rows of a text that is sampled.
 */
internal class OneHot(
    val token: Int,
    override val size: Int,
    override val confidence: Double = 1.0,
    draws: Boolean = false,
) : Distribution {
    override val isCertain: Boolean = !draws

    override fun probability(id: Int): Double = if (id == token) 1.0 else 0.0

    override fun mass(ids: IntArray): Double = if (token in ids) 1.0 else 0.0

    override fun massOutside(ids: IdSet): Double = if (token in ids) 0.0 else 1.0

    override fun massOutside(id: Int): Double = if (token == id) 0.0 else 1.0

    override fun massUnder(mask: FloatArray): Double = mask[token].toDouble()

    override fun draw(uniform: Double, among: IntArray?): Int = token

    override fun without(ids: IdSet): Distribution = this

    override fun without(id: Int): Distribution = this
}

/**
 * A distribution with unnormalised weights in float32.
 *
 * Sums are taken over blocks in float32 and from there in float64: a probability is right to about 1e-7.
 */
internal class Categorical(
    private val weights: FloatArray, // in proportion to the probabilities, the first size of them; not copied
    override val size: Int = weights.size,
    private val workspace: Workspace = Workspace(), // lends memory of the size of a row
    private val blocks: DoubleArray = blockSums(weights, size, workspace), // the sum of each BLOCK weights
) : Distribution {
    private val total = blocks.sum()

    override val isCertain: Boolean get() = false

    override val confidence: Double get() = probability(workspace.math.argmax(weights, size))

    override fun probability(id: Int): Double = weights[id] / total

    override fun mass(ids: IntArray): Double {
        var sum = 0.0
        for (id in ids) sum += weights[id].toDouble()
        return sum / total
    }

    override fun massOutside(ids: IdSet): Double {
        var sum = 0.0
        for (id in 0 until size) if (id !in ids) sum += weights[id].toDouble()
        return sum / total
    }

    override fun massOutside(id: Int): Double {
        val own = id / BLOCK
        var sum = 0.0
        for (other in own * BLOCK until minOf(size, (own + 1) * BLOCK)) {
            if (other != id) sum += weights[other].toDouble()
        }
        for (block in blocks.indices) if (block != own) sum += blocks[block]
        return sum / total
    }

    override fun massUnder(mask: FloatArray): Double = workspace.math.maskedSum(weights, mask, size) / total

    override fun draw(uniform: Double, among: IntArray?): Int {
        if (among != null) return among[inverse(among.size, uniform) { weights[among[it]].toDouble() }]
        val level = uniform * total
        var block = 0
        var before = 0.0
        while (block < blocks.size - 1 && before + blocks[block] <= level) before += blocks[block++]
        val share = (level - before) / maxOf(blocks[block], 1e-300)
        val first = block * BLOCK
        val inside = inverse(minOf(BLOCK, size - first), share.coerceIn(0.0, 1.0)) { weights[first + it].toDouble() }
        return weighted(first + inside)
    }

    override fun without(ids: IdSet): Distribution = without { for (id in 0 until size) if (id in ids) it[id] = 0f }

    override fun without(id: Int): Distribution = without { it[id] = 0f }

    private inline fun without(clear: (FloatArray) -> Unit): Distribution {
        val others = workspace.row(size)
        System.arraycopy(weights, 0, others, 0, size)
        clear(others)
        return Categorical(others, size, workspace)
    }

    /** The id, or the nearest one before it that has weight, where rounding led to one that has none. */
    private fun weighted(id: Int): Int {
        var at = id
        while (at > 0 && weights[at] <= 0f) at--
        return at
    }
}

internal fun emptyBlocks(size: Int): DoubleArray = DoubleArray((size + BLOCK - 1) / BLOCK)

private fun blockSums(weights: FloatArray, size: Int, workspace: Workspace): DoubleArray =
    emptyBlocks(size).also { workspace.math.blockSums(weights, size, it) }

/** Index at [uniform] of the cumulative weights; never one of weight zero unless all before it are. */
internal inline fun inverse(count: Int, uniform: Double, weight: (Int) -> Double): Int {
    var sum = 0.0
    for (i in 0 until count) sum += weight(i)
    val level = uniform * sum
    var index = 0
    var cumulative = weight(0)
    while (index < count - 1 && cumulative <= level) cumulative += weight(++index)
    while (index > 0 && weight(index) <= 0.0) index--
    return index
}

/**
 * Memory of the size of a vocabulary, which a round borrows and the next round borrows again; for one thread.
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

    fun isEmpty(): Boolean = bits.all { it == 0L }

    fun and(other: IdSet): IdSet = IdSet(size).also { for (i in bits.indices) it.bits[i] = bits[i] and other.bits[i] }

    /** Gives all other ids of a row of logits no weight. */
    fun restrict(row: FloatArray) {
        for (i in bits.indices) {
            val first = 64 * i
            when (val word = bits[i]) {
                -1L -> Unit
                0L -> row.fill(Float.NEGATIVE_INFINITY, first, minOf(size, first + 64))
                else -> for (id in first until minOf(size, first + 64)) {
                    if ((word ushr (id and 63)) and 1L == 0L) row[id] = Float.NEGATIVE_INFINITY
                }
            }
        }
    }

    operator fun contains(id: Int): Boolean = (bits[id ushr 6] ushr (id and 63)) and 1L != 0L
}
