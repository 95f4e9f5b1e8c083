package io.omnidraft.learning.step

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtSession
import ai.onnxruntime.TensorInfo
import io.omnidraft.BundleException
import io.omnidraft.SettingException
import io.omnidraft.models.Engine
import io.omnidraft.models.engineRefused
import java.nio.Buffer
import java.nio.ByteBuffer
import java.nio.ByteOrder

/*
 * Run a training graph of a bundle on a vector of parameters with AdamW's moments (spec/14-train-step.md).
 */

private val VECTORS = listOf("parameters", "exp_avg", "exp_avg_sq")
private const val UPDATES = "updates"
private const val NEXT = "next_"

/**
 * What a step gave.
 *
 * @property values single numbers of the last call, by the names of the graph's outputs.
 * @property applied whether the parameters changed.
 */
internal class StepOutcome(val values: Map<String, Float>, val applied: Boolean)

/** A training graph and its parameters. */
internal class StepRun(private val session: OrtSession, begin: FloatArray, private val name: String) : AutoCloseable {
    private var vectors: Map<String, FloatArray> =
        mapOf("parameters" to begin, "exp_avg" to FloatArray(begin.size), "exp_avg_sq" to FloatArray(begin.size))
    private val carried: Map<String, IntArray> = carriedOf(session)

    private var updates: Long = 0 // steps that changed the parameters

    val parameters: FloatArray get() = vectors.getValue("parameters")

    /**
     * Do one step on a batch in parts. Each call adds to the gradient, the last call applies it.
     *
     * @param parts gives the inputs of each call, at least one; a part is made when its call begins, so that memory
     *   holds one at a time.
     * @return null where [budget] ended the step; nothing changed then.
     * @throws BundleException `run`; onnxruntime cannot run the graph.
     */
    fun run(parts: List<() -> Arrays>, settings: Arrays, budget: StepBudget): StepOutcome? {
        var carry: Arrays = carried.mapValues { (_, shape) -> FloatValues(FloatArray(product(shape)), shape) }
        for ((number, part) in parts.withIndex()) {
            if (!budget.goesOn()) return null
            val isLast = number == parts.size - 1
            val outputs = call(settings + stateInputs() + carry + part() + ("last" to oneBoolean(isLast)), isLast)
            if (isLast) return finished(outputs)
            carry = carried.mapValues { (name, shape) -> FloatValues(floats(outputs, NEXT + name), shape) }
        }
        throw IllegalArgumentException("a step has no parts")
    }

    /** Copies of the vectors and the count, by name. */
    fun state(): Arrays {
        val state = LinkedHashMap<String, TypedArray>()
        for ((name, vector) in vectors) state[name] = FloatValues(vector.copyOf())
        state[UPDATES] = LongValues(longArrayOf(updates))
        return state
    }

    /** @throws SettingException the state is of another graph. */
    fun check(state: Arrays) {
        for (name in VECTORS) checkForm(state, name, "F32 [${parameters.size}]")
        checkForm(state, UPDATES, "I64 [1]")
    }

    /** Take over a state that [check] accepted. */
    fun restore(state: Arrays) {
        vectors = VECTORS.associateWith { (state.getValue(it) as FloatValues).values.copyOf() }
        updates = (state.getValue(UPDATES) as LongValues).values[0]
    }

    override fun close() = session.close()

    private fun checkForm(state: Arrays, name: String, expected: String) {
        val actual = state[name]?.form ?: "nothing"
        if (actual == expected) return
        throw SettingException(
            "the state of a learner has $actual as $name and this learner needs $expected",
            "go on with the bundle and settings that it was begun with",
        )
    }

    private fun stateInputs(): Arrays =
        vectors.mapValues { FloatValues(it.value) } + (UPDATES to oneLong(updates))

    /** Take over what a last call gave, if it applied the gradient. */
    private fun finished(outputs: Map<String, Any>): StepOutcome {
        val applied = outputs["applied"] == true
        if (applied) {
            vectors = VECTORS.associateWith { floats(outputs, NEXT + it) }
            updates = outputs[NEXT + UPDATES] as? Long ?: throw refused("its output $NEXT$UPDATES is no count")
        }
        val values = outputs.filterValues { it is Float }.mapValues { it.value as Float }
        return StepOutcome(values, applied)
    }

    private fun floats(outputs: Map<String, Any>, name: String): FloatArray = when (val value = outputs[name]) {
        is FloatArray -> value
        is Float -> floatArrayOf(value)
        else -> throw refused("it has no output $name")
    }

    private fun call(inputs: Arrays, isLast: Boolean): Map<String, Any> {
        val tensors = LinkedHashMap<String, OnnxTensor>()
        try {
            for (name in session.inputNames) {
                val value = inputs[name] ?: throw refused("it has an input $name, which a training step does not have")
                tensors[name] = tensorOf(value)
            }
            session.run(tensors, wanted(isLast)).use { result ->
                return result.associate { it.key to valueOf(it.value as OnnxTensor) }
            }
        } catch (error: OrtException) {
            throw engineRefused("run", "run $name", error)
        } finally {
            for (tensor in tensors.values) tensor.close()
        }
    }

    /** The outputs of a call: the vectors only of the last one, since each of them is as large as the parameters. */
    private fun wanted(isLast: Boolean): Set<String> {
        val vectors = VECTORS.map { NEXT + it }
        return if (isLast) session.outputNames else session.outputNames.filter { it !in vectors }.toSet()
    }

    private fun refused(why: String) =
        BundleException("run", "onnxruntime cannot run $name ($why)", "run `omnidraft export` again")
}

/** Inputs that are the outputs of the call before, with their sizes: all that have one, but for the state. */
private fun carriedOf(session: OrtSession): Map<String, IntArray> = session.inputInfo
    .filterKeys { NEXT + it in session.outputNames && it !in VECTORS && it != UPDATES }
    .mapValues { (_, info) -> (info.info as TensorInfo).shape.map { it.toInt() }.toIntArray() }

private fun product(shape: IntArray): Int = shape.fold(1L) { product, size -> product * size }.let { inArray(it) }

/** A size that an array has; a graph that asks for more is no training step. */
private fun inArray(size: Long): Int {
    if (size !in 0..MOST_BYTES) throw BundleException("graph", "a training graph takes $size bytes", "export again")
    return size.toInt()
}

private const val MOST_BYTES = (1L shl 31) - 9

/** A tensor with its own copy of the values, in memory of the machine's byte order. */
private fun tensorOf(array: TypedArray): OnnxTensor {
    val bytes = ByteBuffer.allocateDirect(inArray(array.bytes)).order(ByteOrder.nativeOrder())
    array.put(bytes)
    (bytes as Buffer).flip()
    val shape = LongArray(array.shape.size) { array.shape[it].toLong() }
    val kind = when (array) {
        is FloatValues -> OnnxJavaType.FLOAT
        is LongValues -> OnnxJavaType.INT64
        is BooleanValues -> OnnxJavaType.BOOL
        is ByteValues -> OnnxJavaType.UINT8
    }
    return OnnxTensor.createTensor(Engine.environment, bytes, shape, kind)
}

/** The values of an output: a FloatArray, or a Float, Long or Boolean of an output without sizes. */
private fun valueOf(tensor: OnnxTensor): Any {
    if (tensor.info.shape.isEmpty()) return tensor.value
    val floats = tensor.floatBuffer
    return FloatArray(floats.remaining()).also { floats.get(it) }
}
