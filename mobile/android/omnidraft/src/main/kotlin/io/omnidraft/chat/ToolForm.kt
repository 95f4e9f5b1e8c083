package io.omnidraft.chat

import io.omnidraft.disk.ValueError
import io.omnidraft.disk.at
import io.omnidraft.disk.boolean
import io.omnidraft.disk.integer
import io.omnidraft.disk.mapping
import io.omnidraft.disk.quoted
import io.omnidraft.disk.text
import io.omnidraft.grammar.CallForm

/* How a model is told of tools and of their results, as strings (spec/03-bundle.md, Tools). */

internal const val MAX_PROMPT: Int = 1 shl 16 // bytes of each text of the field `prompt`
private const val MOST_INDENT = 8
private const val MOST_ID = 64
private val GENERIC_CALLS = CallForm("<tool_call>[", ", ", "]</tool_call>", "arguments")
private const val TOLD =
    "You can call these tools. Each line describes one, with the JSON Schema of its arguments.\n<tools>\n"
private const val ASKED = "\n</tools>\nTo call tools, write a list of calls and nothing behind it:\n" +
    "<tool_call>[{\"name\": \"the tool\", \"arguments\": {\"an argument\": \"its value\"}}]</tool_call>"
private const val BEFORE_RESULT = "The result of the call:\n<tool_response>\n"
private const val BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
private const val BEHIND_RESULT = "\n</tool_response>\nSay it in a sentence."

/** The text around a system prompt and the tools: before, between, and after both. */
internal data class ListingSlot(val before: String, val between: String, val after: String)

/** The text around results, up to where an answer begins. */
internal data class ResultForm(
    val before: String,
    val between: String, // two results
    val after: String,
    val isQuoted: Boolean, // whether a result is written as a JSON string
    val named: String? = null, // between a result and the id of its call; null where results have no ids
)

/**
 * The text around tools, calls and results; control tokens are read here, never in what is between.
 *
 * The list of the tools comes with a grammar: `omnidraft grammar` writes it as the template does.
 */
internal data class ToolForm(
    val before: String, // from the beginning of the text to the tools
    val after: String, // from the tools to the message
    val system: ListingSlot?, // the same with a system prompt before the tools; null where there is no place for one
    val calls: CallForm,
    val results: ResultForm,
    val later: String? = null, // from the end of an answer to the tools, where they stand before the last message
) {
    /** The strings before the first message, as `Tokenizer.encodePrompt` takes them. */
    fun opening(listing: String, system: String?): List<String> {
        if (system == null) return listOf(before, listing, after)
        val slot = checkNotNull(this.system) { "the template was asked for its place of a system prompt" }
        return listOf(slot.before, system, slot.between, listing, slot.after)
    }

    /** The strings before a later message, where the tools move to the last one. */
    fun moved(listing: String): List<String> = listOf(later.orEmpty(), listing, after)

    /** The strings from the end of the calls, which [called] has, to the answer to their results. */
    fun answered(given: List<String>, begin: String, called: String): List<String> {
        val ids = if (results.named == null) emptyList() else calls.read(called).map { it.id }
        val parts = arrayListOf(results.before)
        given.forEachIndexed { number, result ->
            val name = if (results.named == null) "" else results.named + ids.getOrElse(number) { "" }
            parts.add(if (results.isQuoted) quotedJson(result) else result)
            parts.add(name + if (number < given.size - 1) results.between else results.after + begin)
        }
        return parts
    }
}

/** The form for a model whose chat template has none; the strings of the template around a system prompt and a later message. */
internal fun genericForm(slot: SystemSlot, between: String, behind: String): ToolForm = ToolForm(
    slot.before + TOLD,
    ASKED + slot.after,
    ListingSlot(slot.before, "\n\n" + TOLD, ASKED + slot.after),
    GENERIC_CALLS,
    ResultForm(between + BEFORE_RESULT, BETWEEN_RESULTS, BEHIND_RESULT + behind, isQuoted = false),
)

internal fun readToolForm(data: Map<String, Any?>): ToolForm {
    val calls = mapping(data.at("calls"))
    val results = mapping(data.at("results"))
    val arguments = calls.at("arguments")
    if (arguments != "arguments" && arguments != "parameters") {
        throw ValueError("prompt.tools.calls.arguments is ${quoted(arguments)}")
    }
    data.at("indent")?.let { integer(it, 0, MOST_INDENT) }
    promptText(data, "between")
    return ToolForm(
        promptText(data, "before"),
        promptText(data, "after"),
        data.at("system")?.let { slot(mapping(it)) },
        CallForm(
            promptText(calls, "open"),
            optionalText(calls, "between"),
            promptText(calls, "close"),
            arguments as String,
            integer(calls.at("id_length"), 0, MOST_ID),
        ),
        ResultForm(
            promptText(results, "before"),
            promptText(results, "between"),
            promptText(results, "after"),
            boolean(results.at("is_quoted")),
            optionalText(results, "named"),
        ),
        optionalText(data, "later"),
    )
}

private fun slot(data: Map<String, Any?>) =
    ListingSlot(promptText(data, "before"), promptText(data, "between"), promptText(data, "after"))

internal fun promptText(data: Map<String, Any?>, name: String): String = text(data.at(name), MAX_PROMPT)

/** The same; null where it is null. */
internal fun optionalText(data: Map<String, Any?>, name: String): String? =
    data.at(name)?.let { text(it, MAX_PROMPT) }

/** A text as a JSON string, as Python's `json.dumps` writes it. */
private fun quotedJson(text: String): String = text.asIterable().joinToString("", "\"", "\"") { char ->
    when (char) {
        '"', '\\' -> "\\$char"
        '\n' -> "\\n"
        '\r' -> "\\r"
        '\t' -> "\\t"
        '\b' -> "\\b"
        '\u000C' -> "\\f"
        else -> if (char < ' ') "\\u" + char.code.toString(16).padStart(4, '0') else char.toString()
    }
}
