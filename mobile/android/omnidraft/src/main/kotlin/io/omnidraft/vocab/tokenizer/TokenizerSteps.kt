package io.omnidraft.vocab.tokenizer

import io.omnidraft.TokenizerException
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.bytes
import io.omnidraft.vocab.AddedFlag
import io.omnidraft.vocab.IntTable
import io.omnidraft.vocab.MOST_CODE
import io.omnidraft.vocab.MOST_GROWTH
import io.omnidraft.vocab.MOST_PROGRAM
import io.omnidraft.vocab.MOST_PROGRAMS
import io.omnidraft.vocab.MOST_STEPS
import io.omnidraft.vocab.MOST_STRING
import io.omnidraft.vocab.MOST_STRINGS
import io.omnidraft.vocab.MOST_WORK
import io.omnidraft.vocab.SplitBehaviour
import io.omnidraft.vocab.StepOp
import io.omnidraft.vocab.offsetsFit
import java.nio.ByteBuffer

/* The rest of reading a compiled tokenizer: strings, added tokens, programs and steps (spec/02-tokenizer.md). */

/** The strings of a file; each is decoded when it is asked for. */
internal class Strings(sections: Map<String, ByteBuffer>) {
    private val data = sections.getValue("strings")
    private val offsets = words(sections, "string_offsets")
    private val texts: Array<String?>

    val size: Int get() = texts.size

    init {
        requireSound(offsetsFit(offsets, data.limit()) && offsets.size <= MOST_STRINGS + 1, "strings") {
            "the offsets of its strings do not ascend"
        }
        texts = arrayOfNulls(offsets.size - 1)
        for (i in texts.indices) {
            val length = offsets[i + 1] - offsets[i]
            requireSound(length <= MOST_STRING, "strings") { "a string has over $MOST_STRING bytes" }
        }
        for (i in texts.indices) requireSound(isUtf8(bytesAt(i)), "strings") { "a string is not UTF-8" }
    }

    operator fun get(index: Int): String =
        texts[index] ?: String(bytesAt(index), Charsets.UTF_8).also { texts[index] = it }

    private fun bytesAt(index: Int): ByteArray = bytes(data, offsets[index], offsets[index + 1])

    private fun isUtf8(text: ByteArray): Boolean {
        var at = 0
        while (at < text.size) {
            val length = characterLength(text, at)
            if (length == 0) return false
            at += length
        }
        return true
    }
}

/**
 * The added tokens: control tokens, those read before the normaliser, those read behind it; the last of each content.
 */
internal fun addedOf(records: IntTable, strings: Strings, ids: Int, wordClass: Int): List<AddedToken> {
    val sorts = List(3) { LinkedHashMap<String, AddedToken>() }
    for (i in 0 until records.size step 3) {
        val token = records.unsigned(i)
        val flags = records.unsigned(i + 1)
        val index = records.unsigned(i + 2)
        requireSound(token < ids, "id") { "an added token has the id $token of $ids" }
        requireSound(index < strings.size && flags < 32, "added") { "added token $token has unknown fields" }
        val content = strings[index.toInt()]
        val isControl = flags.toInt() and AddedFlag.CONTROL != 0
        val isWord = flags.toInt() and AddedFlag.SINGLE_WORD != 0 && !isControl
        requireSound(content.isNotEmpty(), "added") { "added token $token has no content" }
        requireSound(!isWord || wordClass != NONE, "added") { "added token $token needs a class of words" }
        val sort = if (isControl) 0 else if (flags.toInt() and AddedFlag.NORMALIZED == 0) 1 else 2
        sorts[sort][content] = AddedToken(token.toInt(), content, flags.toInt())
    }
    return sorts.flatMap { it.values }
}

private fun programsOf(sections: Map<String, ByteBuffer>, classes: Int): List<Program> {
    val code = words(sections, "code")
    val places = words(sections, "programs")
    val fits = code.size <= 3 * MOST_CODE && places.size <= 2 * MOST_PROGRAMS
    requireSound(fits, "program") { "its programs are too large" }
    return List(places.size / 2) {
        val start = places.unsigned(2 * it)
        val size = places.unsigned(2 * it + 1)
        requireSound(start + size <= code.size / 3 && size <= MOST_PROGRAM, "program") { "a program is out of bounds" }
        try {
            makeProgram(code, start.toInt(), size.toInt(), classes)
        } catch (error: ValueError) {
            throw TokenizerException("program", "a program is refused, since ${error.message}", cause = error)
        }
    }
}

/** The steps: those of the normaliser first, and BYTES once in a byte-level tokenizer and in no other. */
internal fun stepsOf(sections: Map<String, ByteBuffer>, strings: Strings, classes: Int, kind: Kind): List<TextStep> {
    val programs = programsOf(sections, classes)
    val records = words(sections, "steps")
    requireSound(records.size <= 4 * MOST_STEPS, "step") { "it has ${records.size / 4} steps" }
    val steps = List(records.size / 4) { i ->
        stepOf(List(4) { records.unsigned(4 * i + it) }, strings, programs, classes)
    }
    val lastNormaliser = steps.indexOfLast { it.op.isNormaliser }
    requireSound(steps.take(lastNormaliser + 1).all { it.op.isNormaliser }, "step") { "the normaliser is not in front" }
    requireSound(steps.count { it.op == StepOp.BYTES } == if (kind == Kind.BYTE_LEVEL) 1 else 0, "step") {
        "a step BYTES is missing or one too many"
    }
    return steps
}

/** Refuses steps that lengthen a text too much, or work on it too long, whatever the text is. */
internal fun checkWork(steps: List<TextStep>, added: List<AddedToken>) {
    val longest = added.maxOfOrNull { sizeOf(codePoints(it.content)) } ?: 0
    val normalisers = steps.count { it.op.isNormaliser }
    var growth = 1L
    var work = 0L // for each byte of a text
    for (number in 0..steps.size) {
        if (number == normalisers) work += growth * longest
        val step = steps.getOrNull(number) ?: break
        work += growth * workOf(step)
        growth *= growthOf(step)
        requireSound(growth <= MOST_GROWTH, "step") { "its steps make a text over $MOST_GROWTH times longer" }
    }
    requireSound(work <= MOST_WORK, "step") { "it takes $work units of work for a byte of text, of $MOST_WORK" }
}

private fun workOf(step: TextStep): Int = when (step.op) {
    StepOp.SPLIT, StepOp.REPLACE_MATCHES -> checkNotNull(step.program) { "the step has no program" }.cost
    StepOp.REPLACE, StepOp.SUBSTITUTE, StepOp.PREFIX, StepOp.PREFIX_FIRST -> sizeOf(step.strings[0])
    else -> 1
}

/** How many times longer a step may make a text, in bytes. */
private fun growthOf(step: TextStep): Int {
    val sizes = step.strings.map { sizeOf(it) }
    return when (step.op) {
        StepOp.REPLACE, StepOp.SUBSTITUTE -> maxOf(1, (sizes[1] + sizes[0] - 1) / sizes[0])
        StepOp.REPLACE_MATCHES -> maxOf(1, sizes[0])
        StepOp.PREPEND, StepOp.PREFIX, StepOp.PREFIX_FIRST -> 1 + sizes[0]
        StepOp.NFC -> 3
        StepOp.BYTES -> 2
        StepOp.SPLIT -> 1
    }
}

/** Bytes of a string in UTF-8. */
private fun sizeOf(points: IntArray): Int = utf8(points, 0, points.size).size

private fun stepOf(record: List<Long>, strings: Strings, programs: List<Program>, classes: Int): TextStep {
    val (number, a, b, c) = record
    val op = StepOp.entries.firstOrNull { it.number == number }
    requireSound(op != null, "step") { "$number is not a step" }
    if (op == StepOp.NFC) {
        requireSound(a < classes, "step") { "a step names a class that does not exist" }
        return TextStep(op, codeClass = a.toInt())
    }
    val hasProgram = op == StepOp.REPLACE_MATCHES || op == StepOp.SPLIT
    requireSound(!hasProgram || a < programs.size, "step") { "a step names a program that does not exist" }
    val program = if (hasProgram) programs[a.toInt()] else null
    if (op == StepOp.SPLIT) {
        requireSound(b < SplitBehaviour.entries.size && c < 2, "step") { "a split has an unknown behaviour" }
        return TextStep(op, program = program, behaviour = SplitBehaviour.entries[b.toInt()], invert = c == 1L)
    }
    val used = when (op) {
        StepOp.PREPEND, StepOp.PREFIX, StepOp.PREFIX_FIRST -> listOf(a)
        StepOp.REPLACE_MATCHES -> listOf(b)
        StepOp.BYTES -> emptyList()
        else -> listOf(a, b)
    }
    requireSound(used.all { it < strings.size }, "step") { "a step names a string that does not exist" }
    val texts = used.map { codePoints(strings[it.toInt()]) }
    val isSearched = op in listOf(StepOp.REPLACE, StepOp.SUBSTITUTE, StepOp.PREFIX, StepOp.PREFIX_FIRST)
    requireSound(!isSearched || texts[0].isNotEmpty(), "step") { "a step looks for an empty string" }
    return TextStep(op, texts, program)
}
