package io.omnidraft.grammar

import io.omnidraft.Grammar
import io.omnidraft.START
import io.omnidraft.ToolCall
import io.omnidraft.chat.isSpace
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.mapping
import io.omnidraft.disk.parse
import io.omnidraft.disk.text

/* How a model writes calls of tools, and how they are read from its output (spec/17-grammar.md, Tools). */

private const val BEGUN = "{\"name\": \""

/** The text of calls: [open], objects such as `{"name": "f", "arguments": {}}`, and [close]. */
internal data class CallForm(
    val open: String,
    val between: String?, // two calls; null for a model that writes one call in an answer
    val close: String,
    val arguments: String, // the name of the property with the arguments
    val idLength: Int = 0, // letters and digits of the property `id` behind them; 0 for a model that writes none
) {
    private val begun = open.trimStart { isSpace(it) }

    /** The text at which calls begin: the first tag of [open], else all of it, else that of an object. */
    val marker: String = tagOf(begun) ?: begun.ifEmpty { BEGUN }

    /** Whether nothing marks calls, so that they are calls only at the beginning of an answer. */
    val isWholeAnswer: Boolean get() = begun.isEmpty()

    /** Whether a grammar calls tools in this form: what begins a call is no free text in it. */
    fun fits(grammar: Grammar): Boolean = listOf(open + BEGUN, begun + BEGUN).any { text ->
        grammar.read(START, text.toByteArray(Charsets.UTF_8))?.let { !grammar.isFree(it) } ?: false
    }

    /** The character of an output at which its calls begin; its length where there are none. */
    fun start(output: String): Int {
        if (isWholeAnswer) return if (output.startsWith(marker)) 0 else output.length
        val at = output.indexOf(marker)
        return if (at < 0) output.length else at
    }

    /** The calls of an output, up to one that is not whole. */
    fun read(output: String): List<ToolCall> {
        val text = output.substring(start(output)).removePrefix(begun)
        val calls = ArrayList<ToolCall>()
        var at = 0
        while (text.startsWith("{", at)) {
            val end = objectEnd(text, at) ?: break
            calls.add(callOf(text.substring(at, end)) ?: break)
            if (between == null || !text.startsWith(between, end)) break
            at = end + between.length
        }
        return calls
    }

    private fun callOf(json: String): ToolCall? {
        try {
            val value = mapping(parse(json.toByteArray(Charsets.UTF_8)))
            val id = if (idLength == 0) "" else value["id"] as? String ?: return null
            if (id.length != idLength || !id.all { it in '0'..'9' || it in 'a'..'z' || it in 'A'..'Z' }) return null
            return ToolCall(text(value["name"]), mapping(value[arguments]), id)
        } catch (_: ValueError) {
            return null
        }
    }
}

/** The tag that a text begins with; null where it begins with none. */
private fun tagOf(text: String): String? {
    val end = when (text.firstOrNull()) {
        '<' -> text.indexOf('>')
        '[' -> text.indexOf(']')
        else -> -1
    }
    return if (end < 0) null else text.substring(0, end + 1)
}

/** Where the object that begins at [start] ends; null where it does not. */
private fun objectEnd(text: String, start: Int): Int? {
    var (depth, isText) = 0 to false
    var at = start
    while (at < text.length) {
        val char = text[at++]
        when {
            isText && char == '\\' -> at++
            char == '"' -> isText = !isText
            !isText && (char == '{' || char == '[') -> depth++
            !isText && (char == '}' || char == ']') -> if (--depth == 0) return at
        }
    }
    return null
}

/** Tells calls from the text before them while an output streams; what may begin a marker is held back. */
internal class CallStream(private val form: CallForm) {
    private enum class State { START, TEXT, CALL }

    private var held = ""
    private var state = State.START

    /** The text before calls, and the text of calls, that became certain. */
    fun push(text: String): Pair<String, String> {
        if (state == State.CALL) return "" to text
        if (state == State.TEXT && form.isWholeAnswer) return text to ""
        held += text
        val start = form.start(held)
        if (start < held.length) {
            state = State.CALL
            return take(start) to take(held.length)
        }
        val keep = if (form.isWholeAnswer) {
            if (form.marker.startsWith(held)) held.length else 0
        } else {
            (form.marker.length - 1 downTo 1).firstOrNull { held.endsWith(form.marker.substring(0, it)) } ?: 0
        }
        if (keep < held.length) state = State.TEXT
        return take(held.length - keep) to ""
    }

    /** The text that was held back, at the end of the output. */
    fun end(): String = take(held.length)

    private fun take(size: Int): String {
        val text = held.substring(0, size)
        held = held.substring(size)
        return text
    }
}
