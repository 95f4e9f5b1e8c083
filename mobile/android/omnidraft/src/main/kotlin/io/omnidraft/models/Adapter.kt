package io.omnidraft.models

import io.omnidraft.AdapterException
import io.omnidraft.bundle.BundleLimits
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.aName
import io.omnidraft.bundle.bName
import io.omnidraft.disk.encodeUtf8
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.newSha256
import io.omnidraft.disk.quoted
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest

/* An adapter as a value, and whether it fits the sites of a graph (spec/11-adapter.md). */

/** A [in, rank] and B [rank, out] of a site. */
internal class SitePair(val a: FloatTensor, val b: FloatTensor)

/** Learned changes of a model: low-rank additions to its products. */
internal class Adapter(
    val base: String, // fingerprint of the checkpoint that was trained
    val draftTokenizer: String, // fingerprint of the drafter's tokenizer
    val targetTokenizer: String, // fingerprint of the target's tokenizer
    val tensors: Map<String, SitePair>, // A and B of each site; sites may differ in rank
    val created: String, // time in ISO 8601, UTC
) {
    init {
        if (tensors.isEmpty()) throw AdapterException("missing_tensor", "it has no tensors")
        for ((site, pair) in tensors) {
            if (!isSite(site)) throw AdapterException("extra_tensor", "${quoted(site)} is not a site of a layer")
            checkPair(site, pair)
        }
    }

    val rank: Int get() = tensors.values.maxOf { it.b.shape[0] }

    /** All tensors by the names of the graph's inputs: the sites by name, A first. */
    val named: Map<String, FloatTensor> get() {
        val named = LinkedHashMap<String, FloatTensor>()
        for (site in tensors.keys.sorted()) {
            named[aName(site)] = tensors.getValue(site).a
            named[bName(site)] = tensors.getValue(site).b
        }
        return named
    }

    /** SHA-256 over the base and every tensor: equal if two adapters compute the same. */
    val digest: String by lazy {
        val digest = newSha256()
        digest.update(encodeUtf8(base))
        for ((name, tensor) in named) {
            digest.update(encodeUtf8("\u0000$name\u0000${tensor.shape.joinToString("\u0000")}\u0000"))
            update(digest, tensor.values)
        }
        hexOf(digest.digest())
    }

    /** Checks that a graph with these sites can take the adapter. */
    fun checkFits(lora: LoraSites) {
        for ((name, pair) in tensors) {
            val site = lora.sites[name]
                ?: throw AdapterException("extra_tensor", "the model has no site $name for it")
            if (pair.a.shape[0] != site.inputs || pair.b.shape[1] != site.outputs) {
                val own = "from ${pair.a.shape[0]} to ${pair.b.shape[1]} values"
                val message = "$name goes $own and the model's from ${site.inputs} to ${site.outputs}"
                throw AdapterException("shape", message)
            }
            if (lora.rank != null && pair.a.shape[1] > lora.rankOf(name)) {
                val most = lora.rankOf(name)
                val message = "$name has rank ${pair.a.shape[1]} and the model's graph takes $most at most"
                throw AdapterException("rank", message)
            }
        }
    }

    /** The tensors to feed a graph, by input name; a fixed rank is filled up with zeros. */
    fun inputs(lora: LoraSites): Map<String, FloatTensor> {
        checkFits(lora)
        val fed = LinkedHashMap(noAdapter(lora))
        for ((site, pair) in tensors) {
            val rank = if (lora.rank == null) pair.a.shape[1] else lora.rankOf(site)
            fed[aName(site)] = widened(pair.a, pair.a.shape[0], rank)
            fed[bName(site)] = widened(pair.b, rank, pair.b.shape[1])
        }
        return fed
    }
}

/** The tensors to feed a graph without an adapter: zeros if the rank is fixed, else none. */
internal fun noAdapter(lora: LoraSites): Map<String, FloatTensor> {
    val tensors = LinkedHashMap<String, FloatTensor>()
    if (lora.rank == null) return tensors
    for ((name, site) in lora.sites) {
        tensors[aName(name)] = FloatTensor(site.inputs, lora.rankOf(name))
        tensors[bName(name)] = FloatTensor(lora.rankOf(name), site.outputs)
    }
    return tensors
}

/** A matrix at the upper left of a matrix of zeros. */
private fun widened(tensor: FloatTensor, rows: Int, columns: Int): FloatTensor {
    if (tensor.shape[0] == rows && tensor.shape[1] == columns) return tensor
    val wide = FloatTensor(rows, columns)
    for (row in 0 until tensor.shape[0]) {
        tensor.values.copyInto(wide.values, row * columns, row * tensor.shape[1], (row + 1) * tensor.shape[1])
    }
    return wide
}

/** Whether a name is `layers.` NUMBER `.` PRODUCT: a number of at most six digits, and 1 to 32 of `a-z_`. */
internal fun isSite(name: String): Boolean {
    val parts = name.split('.')
    if (parts.size != 3 || parts[0] != "layers") return false
    val (_, number, product) = parts
    val isNumber = number.length in 1..6 && number.all { it in '0'..'9' } && (number == "0" || number[0] != '0')
    val isProduct = product.length in 1..32 && product[0] in 'a'..'z' && product.all { it in 'a'..'z' || it == '_' }
    return isNumber && isProduct
}

private fun checkPair(site: String, pair: SitePair) {
    for ((name, tensor) in listOf(aName(site) to pair.a, bName(site) to pair.b)) {
        if (tensor.shape.size != 2 || 0 in tensor.shape) {
            val message = "$name has shape ${tensor.shape.asList()}, not two sizes above 0"
            throw AdapterException("shape", message)
        }
        if (!tensor.values.all { it.isFinite() }) {
            throw AdapterException("non_finite", "$name holds a value that is not finite")
        }
    }
    if (pair.a.shape[1] != pair.b.shape[0]) {
        throw AdapterException("shape", "$site has rank ${pair.a.shape[1]} in A and ${pair.b.shape[0]} in B")
    }
    if (pair.a.shape[1] > BundleLimits.MAX_RANK) {
        throw AdapterException("rank", "$site has rank ${pair.a.shape[1]}, more than ${BundleLimits.MAX_RANK}")
    }
}

private const val PIECE = 1 shl 12 // values that are hashed at once

private fun update(digest: MessageDigest, values: FloatArray) {
    val bytes = ByteBuffer.allocate(4 * minOf(PIECE, values.size)).order(ByteOrder.LITTLE_ENDIAN)
    var at = 0
    while (at < values.size) {
        val end = minOf(values.size, at + PIECE)
        bytes.asFloatBuffer().put(values, at, end - at)
        digest.update(bytes.array(), 0, 4 * (end - at))
        at = end
    }
}
