package io.omnidraft.grammar

import io.omnidraft.Grammar
import io.omnidraft.GrammarException
import io.omnidraft.MOST_STACK
import io.omnidraft.MOST_STATES
import io.omnidraft.disk.Tensor
import io.omnidraft.disk.TensorFileError
import io.omnidraft.disk.readHeader
import io.omnidraft.disk.readTensors
import io.omnidraft.disk.readWhole
import io.omnidraft.reason
import java.io.File
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException

/* Reads a grammar file, strictly (spec/17-grammar.md). */

private const val FORMAT = "omnidraft.grammar"
private const val VERSION = "1"
private const val MOST_BYTES = 1L shl 25
private const val MOST_HEADER = 1 shl 14
private const val MOST_CLASSES = 256
private const val MOST_TOOLS = 1 shl 22 // bytes
private const val REMEDY = "give a file that `omnidraft grammar` wrote"
private val TYPES = mapOf(
    "classes" to "U8", "next" to "I32", "calls" to "I32", "accepting" to "U8", "closing" to "I32", "nesting" to "I32",
)

internal fun loadGrammar(file: File): Grammar {
    val data = try {
        readWhole(file, MOST_BYTES)
    } catch (error: IOException) {
        throw GrammarException("unreadable", "$file cannot be read (${reason(error)})", "check the path")
    }
    return readGrammar(data, file.toString())
}

internal fun readGrammar(data: ByteArray, name: String): Grammar {
    if (data.size > MOST_BYTES) {
        throw GrammarException("unreadable", "$name has more than $MOST_BYTES bytes", REMEDY)
    }
    val buffer = ByteBuffer.wrap(data)
    try {
        val header = readHeader(buffer, MOST_HEADER)
        val metadata = header.metadata
        if (metadata["format"] != FORMAT || metadata["version"] != VERSION) {
            throw GrammarException("format", "$name is no grammar file of version $VERSION", REMEDY)
        }
        val digits = metadata["depth"].orEmpty()
        val depth = if (digits.length in 1..2 && digits.all { it in '0'..'9' }) digits.toInt() else MOST_STACK + 1
        if (depth > MOST_STACK) throw GrammarException("format", "$name does not say how deep it nests", REMEDY)
        return checked(readTensors(buffer, header.entries, header.start), depth, name)
    } catch (error: TensorFileError) {
        throw GrammarException(error.fault, "$name is no grammar file: ${error.message}", REMEDY)
    }
}

/** The grammar of a file's tensors, whose numbers are in their ranges. */
private fun checked(tensors: Map<String, Tensor>, depth: Int, name: String): Grammar {
    fun check(isRight: Boolean, why: String) {
        if (!isRight) throw GrammarException("tables", "$name is no grammar: $why", "make it again")
    }
    val listed = tensors["tools"]
    check((tensors - "tools").mapValues { it.value.dtype } == TYPES, "it has the tensors ${tensors.keys.sorted().joinToString().take(200)}")
    val moves = tensors.getValue("next").shape
    check(moves.size == 2, "its moves are not by state and class")
    check(moves[0] in 1..MOST_STATES && moves[1] in 1..MOST_CLASSES, "it has ${moves[0]} states and ${moves[1]} classes")
    val (states, width) = moves[0].toInt() to moves[1].toInt()
    val calls = tensors.getValue("calls").shape
    val shapes = mapOf("classes" to 256, "accepting" to states, "closing" to states, "nesting" to states)
    val isSized = shapes.all { (key, size) -> tensors.getValue(key).shape.contentEquals(longArrayOf(size.toLong())) }
    check(isSized && calls.size == 2 && calls[1] == 3L, "the sizes of its tensors differ")
    val classes = bytes(tensors.getValue("classes"))
    val next = numbers(tensors.getValue("next"))
    check(classes.toSet().size == width && classes.all { it < width } && next.all { it in -1 until states }, "a move leads out of it")
    val called = numbers(tensors.getValue("calls"))
    val most = intArrayOf(states, width, states)
    check(called.indices.all { called[it] in 0 until most[it % 3] }, "a call leads out of it")
    val accepting = bytes(tensors.getValue("accepting"))
    val nesting = numbers(tensors.getValue("nesting"))
    check(accepting.all { it <= 1 } && nesting.all { it in 0..MOST_STACK }, "a state of it is none")
    val tools = if (listed == null) "" else toolsOf(listed)
    check(tools != null, "its tools are no text of 1 to $MOST_TOOLS bytes")
    val keys = IntArray(called.size / 3) { called[3 * it] * width + called[3 * it + 1] }
    check((1 until keys.size).all { keys[it - 1] < keys[it] }, "its calls are not sorted")
    check(keys.all { next[it] >= 0 }, "a call leads nowhere")
    val grammar = Grammar(
        classes,
        width,
        next,
        keys,
        IntArray(keys.size) { called[3 * it + 2] },
        BooleanArray(states) { accepting[it] == 1 },
        numbers(tensors.getValue("closing")),
        nesting,
        depth,
        tools.orEmpty(),
    )
    check(nesting[0] <= depth, "no text is shallow enough")
    for (state in 0 until states) {
        val ends = grammar.closing[state] == 0 && nesting[state] == 0
        val isRight = if (grammar.accepting[state]) ends else grammar.closing[state] >= 0 && nearest(grammar, state) >= 0
        check(isRight, "state $state does not lead to the end")
    }
    return grammar
}

/** The class of the move of a state that is nearer to the end, the lowest; -1 where none is. */
internal fun nearest(grammar: Grammar, state: Int): Int {
    val (closing, nesting) = grammar.closing to grammar.nesting
    for (ofByte in 0 until grammar.width) {
        val to = grammar.next[state * grammar.width + ofByte]
        if (to < 0) continue
        val back = grammar.back(state, ofByte)
        val left = closing[to] + if (back < 0) 0L else closing[back].toLong()
        val deep = if (back < 0) nesting[to] else maxOf(1 + nesting[to], nesting[back])
        if (left < closing[state] && deep <= nesting[state]) return ofByte
    }
    return -1
}

/** The tools that a file lists; null where the tensor has no such text. */
private fun toolsOf(tensor: Tensor): String? {
    val size = tensor.data.limit()
    if (tensor.dtype != "U8" || tensor.shape.size != 1 || size !in 1..MOST_TOOLS) return null
    return try {
        Charsets.UTF_8.newDecoder().decode(tensor.data.duplicate()).toString()
    } catch (_: CharacterCodingException) {
        null
    }
}

private fun bytes(tensor: Tensor): IntArray = IntArray(tensor.data.limit()) { tensor.data.get(it).toInt() and 0xff }

private fun numbers(tensor: Tensor): IntArray =
    IntArray(tensor.data.limit() / 4).also { tensor.data.asIntBuffer().get(it) }
