package io.omnidraft.bundle

/*
 * The adaptive head's tensors as a value, and the shape that a graph takes (spec/11-adapter.md).
 *
 * acceptance = sigmoid(x w + b), x the drafter's last hidden state after blocks x + SiLU(x W), at the position that
 * read a draft token. The head corrects the drafter's own confidence in that token: [chance] of both is the
 * probability that the token is accepted, if those before it are.
 */

import io.omnidraft.AdapterException
import io.omnidraft.disk.quoted

/** The names of a head's tensors begin with this. */
internal const val PREFIX = "head."
internal const val WEIGHT = "head.weight"
internal const val BIAS = "head.bias"

/** The name of the output of the graph. */
internal const val OUTPUT = "acceptance"
internal const val MAX_BLOCKS = 3

/** Bias of an untrained head: its sigmoid is 1 in float32, so the head stops no draft. */
internal const val NEVER_STOP = 20.0f

/** The name of the graph's input for W of block i. */
internal fun blockName(i: Int): String = "head.blocks.$i"

private val BLOCKS: List<String> = List(MAX_BLOCKS) { blockName(it) }

/**
 * The probability that a draft token is accepted: the odds of both are multiplied.
 *
 * @param acceptance output of the head; 1 for an untrained head, and then nothing is refused.
 * @param confidence probability of the token in the drafter's distribution at temperature 1.
 */
internal fun chance(acceptance: Double, confidence: Double): Double {
    if (acceptance >= 1.0) return 1.0
    val forIt = acceptance * confidence
    val against = (1.0 - acceptance) * (1.0 - confidence)
    return if (forIt + against > 0.0) forIt / (forIt + against) else 0.5
}

/** The head that a graph takes: width of the hidden state, and number of blocks. */
internal data class HeadShape(val hidden: Int, val blocks: Int) {
    /** The shape of each tensor, by the names of the graph's inputs. */
    fun sizes(): Map<String, IntArray> {
        val sizes = LinkedHashMap<String, IntArray>()
        for (i in 0 until blocks) sizes[blockName(i)] = intArrayOf(hidden, hidden)
        sizes[WEIGHT] = intArrayOf(hidden, 1)
        sizes[BIAS] = intArrayOf(1)
        return sizes
    }

    /** The tensors of a head that stops no draft. */
    fun untrained(): Map<String, FloatTensor> {
        val tensors = sizes().mapValues { FloatTensor(*it.value) }
        tensors.getValue(BIAS).values.fill(NEVER_STOP)
        return tensors
    }
}

/**
 * The number of blocks of a head with these tensors.
 *
 * @throws AdapterException `extra_tensor` or `missing_tensor`.
 */
internal fun checkNames(names: Collection<String>): Int {
    names.sorted().firstOrNull { it != WEIGHT && it != BIAS && it !in BLOCKS }?.let {
        throw AdapterException("extra_tensor", "it has a tensor ${quoted(it)}, which no head has")
    }
    val blocks = names.count { it in BLOCKS }
    for (name in List(maxOf(1, blocks)) { blockName(it) } + WEIGHT + BIAS) {
        if (name !in names) throw AdapterException("missing_tensor", "its head has no '$name'")
    }
    return blocks
}

/**
 * A trained head.
 *
 * @property tensors by the names of the graph's inputs: W of each block [hidden, hidden], w [hidden, 1] and b [1].
 * @throws AdapterException `missing_tensor`, `extra_tensor`, `shape` or `non_finite`.
 */
internal class Head(val tensors: Map<String, FloatTensor>) {
    /** The width and the number of blocks. */
    val shape: HeadShape

    init {
        val blocks = checkNames(tensors.keys)
        val hidden = tensors.getValue(WEIGHT).shape.firstOrNull() ?: 0
        shape = HeadShape(hidden, blocks)
        for ((name, size) in shape.sizes().toSortedMap()) checkTensor(name, size, hidden)
    }

    private fun checkTensor(name: String, size: IntArray, hidden: Int) {
        val tensor = tensors.getValue(name)
        if (!tensor.shape.contentEquals(size) || hidden == 0) {
            val message = "$name has shape ${tensor.shape.toList()} in a head of width $hidden"
            throw AdapterException("shape", message)
        }
        if (!tensor.values.all { it.isFinite() }) {
            throw AdapterException("non_finite", "$name holds a value that is not finite")
        }
    }

    /**
     * Refuse a graph that takes another head.
     *
     * @throws AdapterException `shape`.
     */
    fun checkFits(shape: HeadShape) {
        if (this.shape == shape) return
        val own = this.shape
        val message = "its head has ${own.blocks} blocks of width ${own.hidden} and the model's graph takes " +
            "${shape.blocks} of width ${shape.hidden}"
        throw AdapterException("shape", message)
    }

    override fun equals(other: Any?): Boolean = other is Head && tensors == other.tensors

    override fun hashCode(): Int = tensors.hashCode()
}
