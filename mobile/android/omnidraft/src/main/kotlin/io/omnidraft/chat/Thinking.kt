package io.omnidraft.chat

/* The thought of an answer: where it ends, and how a stream tells it apart (spec/01-tokens.md, Thoughts). */

private const val WHITE = " \t\n\r" // before the open tag

/** The byte of an output at which its answer begins: 0 without a thought, its length if one is not closed. */
internal fun answerStart(output: ByteArray, tags: ThinkTags, inside: Boolean): Int {
    val begun = output.indices.firstOrNull { output[it].toInt().toChar() !in WHITE } ?: output.size
    if (!inside && !beginsAt(output, begun, tags.open.toByteArray(Charsets.UTF_8))) return 0
    val close = tags.close.toByteArray(Charsets.UTF_8)
    val at = (0..output.size - close.size).firstOrNull { beginsAt(output, it, close) }
    return if (at == null) output.size else at + close.size
}

/**
 * The byte of an output at which the part begins that a conversation keeps of it (`ThinkTags.earlier`).
 *
 * The parameters are those of [answerStart].
 */
internal fun keptStart(output: ByteArray, tags: ThinkTags, inside: Boolean): Int {
    if (tags.earlier == EarlierThoughts.KEEP) return 0
    var start = answerStart(output, tags, inside)
    if (start > 0 && tags.earlier == EarlierThoughts.TRIM) {
        while (start < output.size && output[start] == '\n'.code.toByte()) start++
    }
    return start
}

private fun beginsAt(data: ByteArray, at: Int, part: ByteArray): Boolean =
    at + part.size <= data.size && part.indices.all { data[at + it] == part[it] }

/** A text in two parts. */
internal data class SplitText(val thought: String, val answer: String)

/** The thought and the answer of an output, without tags and without the white space around the tags. */
internal fun splitThought(output: String, tags: ThinkTags?, inside: Boolean = false): SplitText {
    if (tags == null) return SplitText("", output)
    val data = output.toByteArray(Charsets.UTF_8)
    val start = answerStart(data, tags, inside)
    val answer = String(data, start, data.size - start, Charsets.UTF_8)
    if (start == 0) return SplitText("", answer)
    val thought = stripped(String(data, 0, start, Charsets.UTF_8)).removePrefix(tags.open).removeSuffix(tags.close)
    return SplitText(stripped(thought), answer.trimStart { isSpace(it) })
}

/** The answer in a text that a program gives as an earlier answer: no thought, no white space behind it. */
internal fun givenAnswer(text: String, tags: ThinkTags?, ends: Ends = Ends(start = true, end = true)): String =
    trimmed(splitThought(text, tags, inside = tags != null && tags.close in text).answer, ends)

internal data class StreamPart(val text: String, val isThought: Boolean)

/**
 * Tells thought from answer while an output streams. The tags belong to the thought.
 *
 * Text that may be the beginning of a tag is held back.
 */
internal class ThoughtStream(private val tags: ThinkTags, inside: Boolean) {
    private enum class State { START, THOUGHT, ANSWER }

    private var held = ""
    private var state = if (inside) State.THOUGHT else State.START

    /** Whether the text so far ends inside a thought. */
    val isThinking: Boolean get() = state == State.THOUGHT

    fun push(text: String): List<StreamPart> {
        if (state == State.ANSWER) return parts(text, false)
        held += text
        if (state == State.START) {
            val begun = held.trimStart { it in WHITE }
            if (begun.startsWith(tags.open)) {
                state = State.THOUGHT
            } else if (tags.open.startsWith(begun)) {
                return emptyList()
            } else {
                state = State.ANSWER
                return end()
            }
        }
        return thought()
    }

    /** The text that was held back, at the end of the output. */
    fun end(): List<StreamPart> {
        val text = held
        held = ""
        return parts(text, isThinking)
    }

    private fun thought(): List<StreamPart> {
        val all = held
        val at = all.indexOf(tags.close)
        if (at >= 0) {
            state = State.ANSWER
            held = ""
            val end = at + tags.close.length
            return parts(all.substring(0, end), true) + parts(all.substring(end), false)
        }
        val keep = (tags.close.length - 1 downTo 1).firstOrNull { all.endsWith(tags.close.substring(0, it)) } ?: 0
        held = all.substring(all.length - keep)
        return parts(all.substring(0, all.length - keep), true)
    }

    private fun parts(text: String, isThought: Boolean): List<StreamPart> =
        if (text.isEmpty()) emptyList() else listOf(StreamPart(text, isThought))
}
