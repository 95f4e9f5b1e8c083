package io.omnidraft.session

import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.chat.MessageList
import io.omnidraft.chat.PromptTemplate
import io.omnidraft.chat.ToolForm
import io.omnidraft.chat.givenAnswer
import io.omnidraft.chat.trimmed
import io.omnidraft.decoding.Utf8Stream
import io.omnidraft.decoding.wholeTokens
import io.omnidraft.session.state.Turn
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.tokenizer.Tokenizer

/*
 * A conversation as target ids: messages inside a template, answers as the ids that were generated
 * (spec/04-speculation.md).
 */

internal class ToolText(
    val form: ToolForm,
    val listing: String, // empty without tools
    val begin: String, // of the template, before an answer that is to be written
    val textOf: (IntArray) -> ByteArray, // the text of an answer, with the tags around calls
)

/** The target ids of a conversation, up to the position at which the answer to [asked] begins, which has none. */
internal fun conversationIds(
    tokenizer: Tokenizer,
    template: PromptTemplate,
    turns: List<Turn>,
    asked: Turn,
    system: String? = null, // the system prompt; null without one
    tools: ToolText? = null, // that are listed before the first message or the last; needed where turns have results
): IntArray {
    val parts = template.parts(turns.size + 1, system != null).toMutableList()
    val ends = template.trimmed(turns.size + 1, system != null).toMutableList()
    val all = turns + asked
    val told = tools?.takeIf { it.listing.isNotEmpty() }
    val listed = if (told?.form?.later == null) 0 else all.indexOfLast { it.results.isEmpty() }
    val ids = IntList()
    val opening = parts.removeAt(0)
    val prompt = system?.let { trimmed(it, ends.removeAt(0)) }
    val begun = if (prompt == null) listOf(opening) else listOf(opening, prompt, parts.removeAt(0))
    for ((number, turn) in all.withIndex()) {
        if (turn.results.isEmpty()) {
            val before = when {
                told != null && number == listed && number == 0 -> told.form.opening(told.listing, prompt)
                told != null && number == listed -> told.form.moved(told.listing)
                else -> if (number == 0) begun else listOf(parts[2 * number - 1])
            }
            val around = before + trimmed(turn.message, ends[number]) + parts[2 * number]
            ids.addAll(tokenizer.encodePrompt(around, goesOn = number > 0))
        } else {
            val text = checkNotNull(tools) { "a session knows the form of results" }
            val called = utf8Text(text.textOf(all[number - 1].answer))
            val begin = if (number == turns.size) text.begin else ""
            ids.addAll(tokenizer.encodePrompt(text.form.answered(turn.results, begin, called), goesOn = true))
        }
        ids.addAll(turn.answer)
    }
    return ids.toArray()
}

/**
 * How many of the oldest turns are left out of a conversation so that an answer has room (spec/09-session.md).
 *
 * @param sizes tokens of the conversation up to the answer, without its first 0, 1, ... turns.
 * @param new tokens of the answer, at most.
 */
internal fun firstKept(sizes: List<Int>, limit: Int, new: Int): Int {
    val room = minOf(new, limit / 4)
    if (sizes[0] + room <= limit) return 0
    val fits = sizes.indexOfFirst { it + room <= limit / 2 }
    return if (fits < 0) sizes.size - 1 else fits
}

/**
 * A turn whose answer a program gives as text.
 *
 * The answer is encoded after the white space that the model would have begun it with. Its thought is left out, and the
 * white space at those of its ends where the template leaves it out.
 */
internal fun givenTurn(tokenizer: Tokenizer, prompt: PromptTemplate, message: String, text: String): Turn {
    val answer = prompt.lead + givenAnswer(text, prompt.think, prompt.trimmedAnswer)
    return Turn(message, tokenizer.encodePrompt(listOf("", answer, ""), goesOn = true))
}

/** The earlier turns of a list of messages; an answer that this session generated keeps its ids. */
internal fun listedTurns(loaded: LoadedBundle, messages: MessageList, known: List<Turn>): List<Turn> {
    val prompt = loaded.bundle.prompt
    val turns = ArrayList<Turn>()
    var isOwn = true
    for ((number, given) in messages.turns.withIndex()) {
        val (message, text) = given
        isOwn = isOwn && number < known.size && known[number].message == message && known[number].results.isEmpty()
        if (isOwn) {
            val written = utf8Text(loaded.outputText.text(known[number].answer))
            isOwn = givenAnswer(written, prompt.think) == givenAnswer(text, prompt.think)
        }
        turns.add(if (isOwn) known[number] else givenTurn(loaded.targetTokenizer, prompt, message, text))
    }
    return turns
}

/**
 * The ids of an answer as a conversation keeps them: they spell the answer's text, or the end of it.
 *
 * The end token is left out, because the template has its own. A thought is left out where the template leaves it out.
 * Where a stop string begins inside a token, the bytes of that token before it are spelled again; all other ids stay as
 * they were generated.
 */
internal fun answerIds(loaded: LoadedBundle, answer: Generation): IntArray {
    var ids = answer.tokenIds
    val start = answer.stopStart
    if (start != null) {
        val data = ids.map { loaded.outputText.bytesOf(it) }
        val (whole, head) = wholeTokens(IntArray(data.size) { data[it].size }, start)
        val rest = if (head > 0) loaded.targetTokenizer.spell(data[whole].copyOf(head)) else null
        ids = ids.copyOf(whole) + (rest ?: IntArray(0))
    } else if (ids.isNotEmpty() && ids.last() in loaded.bundle.target.eosIds) {
        ids = ids.copyOf(ids.size - 1)
    }
    return loaded.outputText.kept(ids, answer.beginsInside)
}

/** The text of the generation before, in both vocabularies. */
internal class EarlierText(val mode: Mode, val tokens: IntArray, val context: IntArray)

/** Bytes as text; each invalid part becomes U+FFFD, as in the output. */
internal fun utf8Text(data: ByteArray): String {
    val stream = Utf8Stream()
    return stream.push(data) + stream.flush()
}

/** The visible text of target ids, encoded by the drafter's tokenizer; control tokens have no text. */
internal fun draftText(target: Tokenizer, drafter: Tokenizer, ids: IntArray): IntArray =
    drafter.encode(utf8Text(target.textOf(ids)))

/** A prompt in draft ids; where it continues the text before, only the new part is encoded. */
internal fun draftContext(target: Tokenizer, drafter: Tokenizer, ids: IntArray, before: EarlierText?): IntArray {
    // After an answer without the drafter the context is empty, or lacks the prompt.
    if (before == null || before.mode != Mode.TRIE || before.context.isEmpty()) return draftText(target, drafter, ids)
    val known = before.tokens.size
    if (known > ids.size || !ids.copyOf(known).contentEquals(before.tokens)) return draftText(target, drafter, ids)
    val added = ids.copyOfRange(known, ids.size)
    return before.context + (drafter.spell(target.textOf(added)) ?: draftText(target, drafter, added))
}
