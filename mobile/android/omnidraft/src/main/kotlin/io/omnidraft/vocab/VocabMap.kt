package io.omnidraft.vocab

import io.omnidraft.VocabMapException
import io.omnidraft.disk.Tensor
import io.omnidraft.disk.TensorFileError
import io.omnidraft.disk.isHexadecimal
import io.omnidraft.disk.mapFile
import io.omnidraft.disk.quoted
import io.omnidraft.disk.readHeader
import io.omnidraft.disk.readTensors
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer

/* The vocabulary map of one drafter and one target: bytes, direct pairs, spellings, expansions (spec/03-bundle.md). */

private const val FORMAT = "omnidraft.vocab_map"
private const val FORMAT_VERSION = "1"
private const val MAX_FILE_BYTES = 1L shl 28
private const val MAX_HEADER_BYTES = 1 shl 16
private const val REMEDY = "run `omnidraft export` again"
private val BYTES = setOf("target_bytes", "draft_allowed") // the tensors of u8; the others are i32
private val NAMES = listOf(
    "target_bytes", "target_byte_offsets", "direct", "spellings", "spelling_offsets", "expansions",
    "expansion_offsets", "leaves", "draft_allowed",
)

/**
 * How the tokens of a drafter write the tokens of a target. It does not change, so any threads share it.
 *
 * @property direct target id of each draft token with equal bytes or a paired role, else -1; one for each draft id.
 */
internal class VocabMap(
    val targetBytes: Ragged, // bytes of every target token, none for control and unused ids
    val direct: IntArray,
    val spellings: Ragged, // the draft tokens that write each target token; none if none can
    val expansions: Ragged, // for a draft token longer than a target token, the target tokens that write it; else none
    val leaves: IntArray, // target ids in the trie, sorted by their spelling; aliases and unspellable ids are left out
    val draftAllowed: BooleanArray, // whether the drafter may propose each draft id
    val draftFingerprint: String, // SHA-256 of the drafter's tokenizer, 64 hexadecimal digits
    val targetFingerprint: String, // the same of the target's tokenizer
) {
    /** Width of the drafter's logits. */
    val draftSize: Int get() = direct.size

    /** Width of the target's logits. */
    val targetSize: Int get() = spellings.size

    /** Trie position of each target id, -1 outside the trie. */
    val leafOf: IntArray by lazy {
        IntArray(targetSize).also { positions ->
            positions.fill(-1)
            for (leaf in leaves.indices) positions[leaves[leaf]] = leaf
        }
    }

    /** Where each leaf's spelling begins in `spellings.values`. */
    val leafStarts: IntArray by lazy { IntArray(leaves.size) { spellings.start(leaves[it]) } }

    /** Draft tokens in each leaf's spelling. */
    val leafLengths: IntArray by lazy { IntArray(leaves.size) { spellings.length(leaves[it]) } }

    /** First draft token of each leaf's spelling, ascending. */
    val leafFirsts: IntArray by lazy { IntArray(leaves.size) { spellings.values[leafStarts[it]] } }

    /** Leaves that begin with draft token d are `firstOffsets[d] until firstOffsets[d + 1]`. */
    val firstOffsets: IntArray by lazy {
        val offsets = IntArray(draftSize + 1)
        for (first in leafFirsts) offsets[first + 1]++
        for (draft in 0 until draftSize) offsets[draft + 1] += offsets[draft]
        offsets
    }

    /** Draft ids with a direct partner, ascending. */
    val directDrafts: IntArray by lazy {
        val drafts = IntList(draftSize)
        for (draft in direct.indices) if (direct[draft] >= 0) drafts.add(draft)
        drafts.toArray()
    }

    val directTargets: IntArray by lazy { IntArray(directDrafts.size) { direct[directDrafts[it]] } }

    /** Draft token number [depth] of a leaf's spelling, which has more draft tokens than that. */
    fun piece(leaf: Int, depth: Int): Int = spellings.values[leafStarts[leaf] + depth]

    /** Draft tokens that write a target token; none if none can. */
    fun spell(targetId: Int): IntArray = spellings.row(targetId)

    /** Bytes of a target token; none for control tokens. */
    fun bytesOf(targetId: Int): ByteArray {
        val start = targetBytes.start(targetId)
        return ByteArray(targetBytes.length(targetId)) { targetBytes.values[start + it].toByte() }
    }

    /** Refuses other vocabularies than the map was built for. */
    fun checkFits(draftFingerprint: String, targetFingerprint: String, draftSize: Int, targetSize: Int) {
        checkEqual("draft vocabulary size", "$draftSize", "${this.draftSize}")
        checkEqual("target vocabulary size", "$targetSize", "${this.targetSize}")
        checkEqual("draft tokenizer", draftFingerprint, this.draftFingerprint)
        checkEqual("target tokenizer", targetFingerprint, this.targetFingerprint)
    }

    private fun checkEqual(who: String, ours: String, theirs: String) {
        if (ours == theirs) return
        val sentence = "$who ${ours.take(12)} does not match the map's ${theirs.take(12)}"
        throw VocabMapException("foreign_vocabulary", sentence, REMEDY)
    }
}

/** Maps a file, and checks every index before its use. */
internal fun loadVocabMap(file: File): VocabMap = try {
    val size = file.length()
    if (size > MAX_FILE_BYTES) throw IOException("it has more than $MAX_FILE_BYTES bytes")
    decodeVocabMap(mapFile(file))
} catch (error: IOException) {
    throw VocabMapException("unreadable", "$file is not readable (${error.message})", REMEDY, error)
} catch (error: VocabMapException) {
    throw VocabMapException(error.fault, "$file: ${error.message}", REMEDY, error)
} catch (error: OutOfMemoryError) { // the index of leaves takes about as much as the file
    throw VocabMapException("unreadable", "$file has ${file.length()} bytes, more than memory holds", REMEDY, error)
}

/** The vocabulary map in the bytes of a file, from 0 to the buffer's limit; they are used in place. */
internal fun decodeVocabMap(data: ByteBuffer): VocabMap {
    val tensors: Map<String, Tensor>
    val metadata: Map<String, String>
    try {
        val header = readHeader(data, MAX_HEADER_BYTES)
        metadata = header.metadata
        demand(metadata["format"] == FORMAT, "not_a_map") { "it is ${quoted(metadata["format"])}, not $FORMAT" }
        demand(metadata["version"] == FORMAT_VERSION, "version") {
            "it has version ${quoted(metadata["version"])}, not $FORMAT_VERSION"
        }
        tensors = readTensors(data, header.entries, header.start)
    } catch (error: TensorFileError) {
        val fault = if (error.fault == "header") "not_a_map" else error.fault
        throw VocabMapException(fault, error.message.orEmpty(), cause = error)
    }
    val tables = tablesOf(tensors)
    val fingerprints = listOf("draft_fingerprint", "target_fingerprint").map { fingerprintIn(metadata, it) }
    return checkedMap(tables, fingerprints[0], fingerprints[1])
}

private fun fingerprintIn(metadata: Map<String, String>, name: String): String {
    val value = metadata[name].orEmpty()
    demand(isHexadecimal(value, 64), "metadata") {
        "its $name is not 64 hexadecimal digits"
    }
    return value
}

/** The tables of a file, after all checks of single tables and between them. */
private fun tablesOf(tensors: Map<String, Tensor>): Map<String, IntTable> {
    for (name in NAMES) demand(name in tensors, "missing_tensor") { "it has no '$name'" }
    for ((name, tensor) in tensors) {
        demand(name in NAMES, "extra_tensor") { "it has a tensor ${quoted(name)}" }
        demand(tensor.shape.size == 1 && tensor.dtype == if (name in BYTES) "U8" else "I32", "dtype") {
            "$name is ${tensor.dtype} with ${tensor.shape.size} dimensions"
        }
    }
    return tensors.mapValues { packed(it.value.data, if (it.key in BYTES) 1 else 4) }
}

/** Checks in the order of the specification; the copies of tables are made when their ids are known to be right. */
private fun checkedMap(tables: Map<String, IntTable>, draftFingerprint: String, targetFingerprint: String): VocabMap {
    val targetBytes = ragged(tables, "target_bytes", "target_byte_offsets")
    val spellings = ragged(tables, "spellings", "spelling_offsets")
    val expansions = ragged(tables, "expansions", "expansion_offsets")
    val (direct, leaves, allowed) = listOf("direct", "leaves", "draft_allowed").map(tables::getValue)
    checkSizes(listOf(targetBytes.size, spellings.size))
    checkSizes(listOf(direct.size, expansions.size, allowed.size))
    checkIds("direct", direct, spellings.size, least = -1)
    checkIds("spellings", spellings.values, direct.size)
    checkIds("expansions", expansions.values, spellings.size)
    checkIds("leaves", leaves, spellings.size)
    checkIds("draft_allowed", allowed, 2)
    val draftAllowed = BooleanArray(allowed.size) { allowed[it] == 1 }
    val map = VocabMap(
        targetBytes, direct.copy(), spellings, expansions, leaves.copy(), draftAllowed, draftFingerprint,
        targetFingerprint,
    )
    checkLeaves(map)
    checkDirect(map)
    return map
}

private fun ragged(tables: Map<String, IntTable>, name: String, offsetsName: String): Ragged {
    val ragged = Ragged(tables.getValue(name), tables.getValue(offsetsName))
    demand(offsetsFit(ragged.offsets, ragged.values.size), "offsets") {
        "the offsets of $name do not fit its ${ragged.values.size} values"
    }
    return ragged
}

/** Whether offsets go from 0 to [size] and never descend. */
internal fun offsetsFit(offsets: IntTable, size: Int): Boolean {
    if (offsets.size == 0 || offsets[0] != 0 || offsets[offsets.size - 1] != size) return false
    var last = 0
    offsets.forEach {
        if (it < last) return false
        last = it
    }
    return true
}

private fun checkSizes(sizes: List<Int>) {
    demand(sizes.all { it == sizes[0] && it in 1..MAX_IDS }, "sizes") {
        "table sizes $sizes disagree, or are not from 1 to $MAX_IDS"
    }
}

private const val MAX_IDS = 1 shl 24

private fun checkIds(name: String, ids: IntTable, size: Int, least: Int = 0) {
    ids.forEach { demand(it in least until size, "id_range") { "$name holds an id outside 0..${size - 1}" } }
}

private fun checkLeaves(map: VocabMap) {
    // The index of a target token that occurs twice is that of its last leaf.
    for (leaf in map.leaves.indices) {
        demand(map.leafOf[map.leaves[leaf]] == leaf && map.leafLengths[leaf] > 0, "leaves") {
            "leaves repeat a target token or name one without a spelling"
        }
    }
    for (leaf in 1 until map.leaves.size) {
        demand(isLess(map, leaf - 1, leaf), "leaves") { "leaves are not sorted by spelling" }
    }
}

/** Whether the spelling of a leaf comes before that of another; a beginning of it does. */
private fun isLess(map: VocabMap, a: Int, b: Int): Boolean {
    val lengths = map.leafLengths
    for (depth in 0 until minOf(lengths[a], lengths[b])) {
        val difference = map.piece(a, depth) - map.piece(b, depth)
        if (difference != 0) return difference < 0
    }
    return lengths[a] < lengths[b]
}

private fun checkDirect(map: VocabMap) {
    for (draft in map.directDrafts) {
        val leaf = map.leafOf[map.direct[draft]]
        demand(leaf >= 0 && map.leafLengths[leaf] == 1 && map.leafFirsts[leaf] == draft, "direct") {
            "direct pairs and leaves disagree"
        }
    }
    demand(map.leafLengths.count { it == 1 } == map.directDrafts.size, "direct") {
        "a leaf that is spelled by one draft token is no direct pair"
    }
}

private inline fun demand(holds: Boolean, fault: String, sentence: () -> String) {
    if (!holds) throw VocabMapException(fault, sentence())
}
