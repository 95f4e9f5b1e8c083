package io.omnidraft.models

import io.omnidraft.BundleException
import io.omnidraft.bundle.KvShape
import io.omnidraft.disk.Tensor
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.mapFile
import io.omnidraft.disk.readHeader
import io.omnidraft.disk.readTensors
import io.omnidraft.reason
import io.omnidraft.traces.floatOf
import java.io.File
import java.io.IOException
import java.nio.FloatBuffer

private const val MAX_HEADER_BYTES = 1 shl 16
private const val HALF = "F16"
private const val FLOAT = "F32"

/**
 * The tables that the host of static graphs reads: embeddings, whose rows stay in the file until they are read, and the
 * rotary tables (spec/03-bundle.md, npu).
 *
 * @property hidden width of the embeddings.
 * @property cos float32 [max_length, head_dim].
 * @property sin float32 [max_length, head_dim].
 */
internal class HostTables private constructor(private val embeddings: Tensor, val cos: FloatBuffer, val sin: FloatBuffer) {
    val hidden: Int = embeddings.shape[1].toInt()

    private val isHalf = embeddings.dtype == HALF

    /** Writes the embedding of a token into a buffer from [at] on. */
    fun embed(token: Int, into: FloatBuffer, at: Int) {
        val from = token * hidden
        if (isHalf) {
            val data = embeddings.data
            for (i in 0 until hidden) into.put(at + i, floatOf(data.getShort(2 * (from + i))))
        } else {
            copy(embeddings.data.asFloatBuffer(), from, into, at, hidden)
        }
    }

    companion object {
        fun read(host: File, kv: KvShape, vocabSize: Int): HostTables = try {
            val data = mapFile(host)
            val header = readHeader(data, MAX_HEADER_BYTES)
            val tensors = readTensors(data, header.entries, header.start)
            val embeddings = named(tensors, "embeddings")
            val isRight = embeddings.shape.size == 2 && embeddings.shape[0] == vocabSize.toLong() &&
                embeddings.dtype in setOf(HALF, FLOAT)
            if (!isRight) throw ValueError("its embeddings have shape ${embeddings.shape.asList()}")
            val (cos, sin) = listOf("cos", "sin").map { table(named(tensors, it), kv) }
            HostTables(embeddings, cos, sin)
        } catch (error: IOException) {
            throw refused(host, error)
        } catch (error: ValueError) {
            throw refused(host, error)
        }

        private fun named(tensors: Map<String, Tensor>, name: String): Tensor =
            tensors[name] ?: throw ValueError("it has no tensor '$name'")

        private fun table(tensor: Tensor, kv: KvShape): FloatBuffer {
            val wanted = longArrayOf(kv.maxLength.toLong(), kv.headDim.toLong())
            if (tensor.dtype != FLOAT || !tensor.shape.contentEquals(wanted)) {
                throw ValueError("its rotary tables have shape ${tensor.shape.asList()}")
            }
            return tensor.data.asFloatBuffer()
        }

        private fun refused(host: File, error: Exception) =
            BundleException("graph", "$host cannot be read (${reason(error)})", "run `omnidraft export` again")
    }
}

/** Copies [count] numbers between buffers, whatever their positions are. */
internal fun copy(from: FloatBuffer, begin: Int, into: FloatBuffer, at: Int, count: Int) {
    val source = view(from)
    (source as java.nio.Buffer).limit(begin + count).position(begin)
    val target = view(into)
    (target as java.nio.Buffer).position(at)
    target.put(source)
}

/** All of a buffer, with a position of its own. */
internal fun view(buffer: FloatBuffer): FloatBuffer = buffer.duplicate().also { (it as java.nio.Buffer).clear() }
