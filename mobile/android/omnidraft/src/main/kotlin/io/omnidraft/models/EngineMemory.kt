package io.omnidraft.models

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtException
import io.omnidraft.BundleException
import io.omnidraft.LARGER_HEAP
import io.omnidraft.bundle.KvShape
import io.omnidraft.bundle.KvType
import io.omnidraft.reason
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import java.nio.LongBuffer

/*
 * Memory that the engine reads and writes. A direct buffer counts in the app's heap on Android, which is much smaller
 * than the device's memory. A tensor that the engine made does not; only graphs read and write it.
 */

private const val MEGABYTE = 1_000_000

/** How the engine says that it got no memory: the C++ library, and its arena. */
private val NO_MEMORY = listOf("bad_alloc", "bad allocation", "Failed to allocate memory")

/** An error of the engine as a refusal, which is `memory` where the engine got none. */
internal fun engineRefused(fault: String, work: String, error: OrtException): BundleException {
    val hasNoMemory = NO_MEMORY.any { it in error.message.orEmpty() }
    val remedy = if (hasNoMemory) SMALLER else "run `omnidraft export` again"
    val message = "onnxruntime cannot $work (${reason(error)})"
    return BundleException(if (hasNoMemory) "memory" else fault, message, remedy, error)
}

private const val SMALLER = "close other sessions and apps, or export again with a smaller --max-length"

/** Keys and values of every layer by name, [1, KV heads, positions, width]: tensors of zeros in the engine's memory. */
internal fun kvTensors(kv: KvShape): Map<String, OnnxTensor> {
    val made = LinkedHashMap<String, OnnxTensor>()
    val shape = LongBuffer.wrap(kvShape(kv))
    try {
        // Without an arena each tensor has memory of its own, which goes back to the system with it.
        val maker = sessionOptions(1).use { options ->
            options.setCPUArenaAllocator(false)
            Engine.environment.createSession(zerosGraph(kv.type), options)
        }
        maker.use {
            OnnxTensor.createTensor(Engine.environment, shape, longArrayOf(4)).use { sizes ->
                val inputs = mapOf(SIZES to sizes)
                for (name in kvNames(kv.numLayers)) made[name] = maker.run(inputs).get(0) as OnnxTensor
            }
        }
        return made
    } catch (refused: OrtException) {
        made.values.forEach { it.close() }
        throw noRoom(kv, SMALLER, refused)
    }
}

/** The same as direct buffers of float32, for a host that reads and writes them. */
internal fun kvBuffers(kv: KvShape): Map<String, FloatBuffer> {
    val bytes = 4L * kv.numKvHeads * kv.maxLength * kv.headDim
    try {
        if (bytes > Int.MAX_VALUE) throw OutOfMemoryError()
        return kvNames(kv.numLayers).associateWith { direct(bytes.toInt()).asFloatBuffer() }
    } catch (refused: OutOfMemoryError) {
        throw noRoom(kv, LARGER_HEAP, refused)
    }
}

internal fun kvShape(kv: KvShape): LongArray =
    longArrayOf(1, kv.numKvHeads.toLong(), kv.maxLength.toLong(), kv.headDim.toLong())

private fun noRoom(kv: KvShape, remedy: String, cause: Throwable): BundleException {
    val need = "the keys and values of ${kv.maxLength} positions take ${kv.bytes / MEGABYTE} MB"
    return BundleException("memory", "$need, which this device does not give", remedy, cause)
}

/** A direct buffer of zeros in the machine's byte order, as the engine needs it. */
internal fun direct(bytes: Int): ByteBuffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())

internal fun floats(count: Int): FloatBuffer = floats(count.toLong())

/** A direct buffer of zeros. */
internal fun floats(count: Long): FloatBuffer {
    if (4 * count > Int.MAX_VALUE) {
        throw BundleException("memory", "a pass takes $count numbers, which are more than one buffer holds")
    }
    try {
        return direct((4 * count).toInt()).asFloatBuffer()
    } catch (refused: OutOfMemoryError) {
        throw BundleException("memory", "a pass takes $count numbers, which the heap does not hold", LARGER_HEAP, refused)
    }
}

internal fun tensor(values: FloatBuffer, shape: LongArray): OnnxTensor =
    OnnxTensor.createTensor(Engine.environment, values, shape)

/** Some values of a buffer, in place. */
internal fun part(buffer: FloatBuffer, begin: Int, end: Int): FloatBuffer {
    val view = buffer.duplicate()
    (view as java.nio.Buffer).limit(end).position(begin)
    return view.slice()
}

private const val SIZES = "sizes"
private const val ZEROS = "zeros"

/** A graph of one operator, which gives zeros of the four sizes that it is fed. Field numbers are those of onnx.proto. */
private fun zerosGraph(type: KvType): ByteArray {
    val kind = if (type == KvType.FLOAT16) FLOAT16 else FLOAT32
    val zero = number(1, 1) + number(2, kind) + bytes(9, ByteArray(type.bytes)) // a tensor of one number
    val value = bytes(1, "value") + bytes(5, zero) + TENSOR
    val node = bytes(1, SIZES) + bytes(2, ZEROS) + bytes(4, "ConstantOfShape") + bytes(5, value)
    val input = bytes(1, SIZES) + bytes(2, bytes(1, number(1, INT64) + bytes(2, bytes(1, number(1, 4)))))
    val output = bytes(1, ZEROS) + bytes(2, bytes(1, number(1, kind)))
    val graph = bytes(1, node) + bytes(2, ZEROS) + bytes(11, input) + bytes(12, output)
    return number(1, IR_VERSION) + bytes(7, graph) + bytes(8, number(2, OPSET))
}

private const val FLOAT32 = 1
private const val FLOAT16 = 10
private const val INT64 = 7
private const val IR_VERSION = 8
private const val OPSET = 13

/** The type of an attribute that is a tensor: field 20, whose tag has two bytes, is 4. */
private val TENSOR: ByteArray = byteArrayOf(0xA0.toByte(), 1, 4)

/** A field of a protobuf message that is a number below 128. */
private fun number(field: Int, value: Int): ByteArray = byteArrayOf((field shl 3).toByte(), value.toByte())

/** A field that is a text or a message of less than 128 bytes. */
private fun bytes(field: Int, value: ByteArray): ByteArray =
    byteArrayOf((field shl 3 or 2).toByte(), value.size.toByte()) + value

private fun bytes(field: Int, value: String): ByteArray = bytes(field, value.toByteArray(Charsets.US_ASCII))
