package io.omnidraft.chat

import io.omnidraft.PromptException
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.mapping
import io.omnidraft.disk.quoted
import io.omnidraft.disk.text

/* The compiled form of a chat template: strings around messages, which need no template engine (spec/03-bundle.md). */

internal const val MAX_TAG: Int = 64 // bytes of a think tag

/** What a conversation keeps of the thought of an earlier answer. */
internal enum class EarlierThoughts(val word: String) {
    /** All of it. */
    KEEP("keep"),

    /** The answer's text up to the end of the close tag is removed. */
    CUT("cut"),

    /** Also the line feeds behind it. */
    TRIM("trim"),
}

/** An end of a message at which a template leaves out white space. */
internal enum class TrimmedEnd(val word: String) {
    /** Of the system prompt. */
    SYSTEM_START("system_start"),
    SYSTEM_END("system_end"),

    /** Of the first message of the user, where a system prompt stands before it. */
    BEHIND_START("behind_start"),

    /** Of the first message of the user; the start where no system prompt stands before it. */
    FIRST_START("first_start"),
    FIRST_END("first_end"),

    /** Of each later message of the user. */
    LATER_START("later_start"),
    LATER_END("later_end"),

    /** Of an answer that a program gives. */
    ANSWER_START("answer_start"),
    ANSWER_END("answer_end"),
}

internal val TRIMMED_ANSWERS: List<TrimmedEnd> = listOf(TrimmedEnd.ANSWER_START, TrimmedEnd.ANSWER_END)

internal data class Ends(val start: Boolean, val end: Boolean)

/** The text around a system prompt; with it, this takes the place of the template's prefix. */
internal data class SystemSlot(val before: String, val after: String)

/** The tags around what a model thinks before it answers. */
internal data class ThinkTags(val open: String, val close: String, val earlier: EarlierThoughts)

/**
 * The text around messages; control tokens are read only here, never in a message.
 *
 * @property after between that message and its answer. Both are null if strings cannot express the model's chat
 *   template in several turns.
 * @property begin what follows [suffix] or [after] before the answer that is to be written, and not before an earlier
 *   answer.
 * @property lead white space that the model writes at the beginning of an answer; an answer that a program gives gets
 *   it.
 * @property system the place of a system prompt; null where the template has none, or strings cannot express it.
 */
internal data class PromptTemplate(
    val prefix: String,
    val suffix: String,
    val between: String? = null, // from the end of an answer to the next message
    val after: String? = null,
    val begin: String = "",
    val lead: String = "",
    val system: SystemSlot? = null,
    val think: ThinkTags? = null, // the tags of thoughts; null for a model that writes none
    val trim: List<TrimmedEnd> = TRIMMED_ANSWERS, // the ends of messages at which the template leaves out white space
    val tools: ToolForm? = null, // how tools are listed, called and answered; null where the template has no text for them
) {
    /**
     * How tools are listed, called and answered: as the template has it, else in the generic form; null for a model
     * without a chat template, or without a place for a system prompt or later turns.
     */
    val toolForm: ToolForm?
        get() = if (tools != null || system == null || between == null || after == null) tools
        else genericForm(system, between, after)

    /** Whether no text stands around messages: the model has no template, and continues what it reads. */
    val isBare: Boolean
        get() = suffix.isEmpty() && begin.isEmpty() && system == null && between == "" && after == ""

    /** At which ends white space is left out of an answer that a program gives. */
    val trimmedAnswer: Ends get() = ends(TrimmedEnd.ANSWER_START, TrimmedEnd.ANSWER_END)

    /**
     * The strings around the messages of a conversation: before, between and after all of them.
     *
     * They are 2 x [turns] strings: before and after the message of each turn. The string before a later message begins
     * right after the answer to the message before it. With a system prompt there is one more, at the beginning: the
     * strings before and after the system prompt take the place of the first.
     */
    fun parts(turns: Int, system: Boolean = false): List<String> {
        if (turns > 1 && (between == null || after == null)) {
            throw PromptException("this bundle's chat template serves a single turn", "begin a new conversation")
        }
        if (system && this.system == null) {
            val remedy = "put the instructions into the first message"
            val nothing = "this model has no chat template, and so no place for a system prompt"
            val noPlace = "this bundle's chat template has no place for a system prompt"
            throw PromptException(if (isBare) nothing else noPlace, remedy)
        }
        val parts = ArrayList<String>()
        if (system && this.system != null) {
            parts.add(this.system.before)
            parts.add(this.system.after)
        } else {
            parts.add(prefix)
        }
        parts.add(suffix)
        for (turn in 1 until turns) {
            parts.add(between.orEmpty())
            parts.add(after.orEmpty())
        }
        parts.add(parts.removeAt(parts.size - 1) + begin)
        return parts
    }

    /** At which ends the template leaves out the white space of the system prompt, if there is one, and of each message. */
    fun trimmed(turns: Int, system: Boolean = false): List<Ends> {
        val first = ends(if (system) TrimmedEnd.BEHIND_START else TrimmedEnd.FIRST_START, TrimmedEnd.FIRST_END)
        val before = if (system) listOf(ends(TrimmedEnd.SYSTEM_START, TrimmedEnd.SYSTEM_END)) else emptyList()
        return before + first + List(turns - 1) { ends(TrimmedEnd.LATER_START, TrimmedEnd.LATER_END) }
    }

    private fun ends(start: TrimmedEnd, end: TrimmedEnd): Ends = Ends(start in trim, end in trim)
}

/** A text without the white space at these ends, as jinja2's `trim` leaves it out. */
internal fun trimmed(text: String, ends: Ends): String {
    val begun = if (ends.start) text.trimStart { isSpace(it) } else text
    return if (ends.end) begun.trimEnd { isSpace(it) } else begun
}

/** The compiled template in the field `prompt` of a manifest. */
internal fun readPrompt(data: Map<String, Any?>): PromptTemplate {
    val between = optionalText(data, "between")
    val after = optionalText(data, "after")
    if ((between == null) != (after == null)) throw ValueError("one of prompt.between and prompt.after is null")
    return PromptTemplate(
        promptText(data, "prefix"),
        promptText(data, "suffix"),
        between,
        after,
        promptText(data, "begin"),
        promptText(data, "lead"),
        data.at("system")?.let { system(mapping(it)) },
        data.at("think")?.let { think(mapping(it)) },
        data["trim"]?.let { trim(it) } ?: TRIMMED_ANSWERS,
        data["tools"]?.let { readToolForm(mapping(it)) },
    )
}

private fun system(data: Map<String, Any?>): SystemSlot =
    SystemSlot(promptText(data, "before"), promptText(data, "after"))

private fun trim(data: Any): List<TrimmedEnd> {
    val known = TrimmedEnd.values()
    val names = array(data, known.size)
    val ends = names.mapNotNull { each -> known.firstOrNull { it.word == each } }
    if (ends.size < names.size || ends.toSet().size < ends.size) {
        throw ValueError("prompt.trim ${quoted(data)} does not name different ends of messages")
    }
    return ends
}

private fun think(data: Map<String, Any?>): ThinkTags {
    val word = data.at("earlier")
    val earlier = EarlierThoughts.values().firstOrNull { it.word == word }
        ?: throw ValueError("prompt.think.earlier ${quoted(word)} is not keep, cut or trim")
    val open = text(data.at("open"), MAX_TAG)
    val close = text(data.at("close"), MAX_TAG)
    if (open.isEmpty() || close.isEmpty() || open == close) {
        throw ValueError("prompt.think has the tags ${quoted(open)} and ${quoted(close)}")
    }
    return ThinkTags(open, close, earlier)
}
