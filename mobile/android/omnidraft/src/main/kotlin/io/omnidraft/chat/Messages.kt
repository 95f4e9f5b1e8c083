package io.omnidraft.chat

import io.omnidraft.PromptException
import io.omnidraft.disk.hasHalfPair
import io.omnidraft.vocab.tokenizer.isWhiteSpace

/*
 * A conversation as programs keep it: a list of messages with a role and a content (spec/01-tokens.md, Conversations).
 */

internal const val MAX_MESSAGES: Int = 1 shl 17
internal const val MAX_CONTENT: Int = 1 shl 22 // bytes; a session file holds no longer message
internal val ROLES: List<String> = listOf("system", "user", "assistant")

/** A message of the user with the answer to it, both as texts. */
internal data class GivenTurn(val message: String, val answer: String)

internal data class MessageList(val system: String?, val turns: List<GivenTurn>, val message: String)

/**
 * The messages that a program gives, each as its role and its content.
 *
 * A system prompt stands first or is absent; then user and assistant take turns; the last message is the user's.
 */
internal fun readMessages(messages: List<Pair<String, String>>): MessageList {
    if (messages.size > MAX_MESSAGES) {
        throw PromptException("there are ${messages.size} messages, more than $MAX_MESSAGES", "leave old ones out")
    }
    messages.forEachIndexed { index, (role, content) -> checkMessage(index + 1, role, content) }
    val system = messages.firstOrNull()?.takeIf { it.first == "system" }?.second
    val shift = if (system == null) 0 else 1
    for (index in shift until messages.size) checkTurn(index + 1, messages[index].first, (index - shift) % 2 == 1)
    if ((messages.size - shift) % 2 == 0) {
        throw PromptException("the last message is not the user's", "end with the message to answer")
    }
    val turns = List((messages.size - shift) / 2) {
        GivenTurn(messages[shift + 2 * it].second, messages[shift + 2 * it + 1].second)
    }
    return MessageList(system, turns, messages.last().second)
}

/** A prompt's text, unchanged. */
internal fun checkedText(text: String, name: String = "the prompt"): String {
    if (text.isEmpty()) throw PromptException("$name is empty", "give some text")
    if (text.all { isSpace(it) }) throw PromptException("$name is white space alone", "give some text")
    checkUtf8(text, name)
    return text
}

/** A text without the white space at both ends. */
internal fun stripped(text: String): String = text.trim { isSpace(it) }

/** Unicode's white space, and the four separators of ASCII. */
internal fun isSpace(letter: Char): Boolean = isWhiteSpace(letter.code) || letter.code in 0x1C..0x1F

private fun checkTurn(number: Int, role: String, isAnswer: Boolean) {
    val expected = if (isAnswer) "assistant" else "user"
    if (role == expected) return
    throw PromptException(
        "message $number has the role $role where one of the $expected is due",
        "give at most one system message, first, and then user and assistant in turn",
    )
}

private fun checkMessage(number: Int, role: String, content: String) {
    val name = "message $number"
    if (role !in ROLES) {
        throw PromptException("$name has the role '${role.take(38)}'", "the roles are system, user and assistant")
    }
    if (role != "assistant" && content.all { isSpace(it) }) {
        throw PromptException("$name, of the $role, has no text", "leave it out, or give it a text")
    }
    checkUtf8(content, name)
}

internal fun checkUtf8(text: String, name: String) {
    if (hasHalfPair(text)) throw PromptException("$name holds half a surrogate pair", "give whole text")
    if (text.length > MAX_CONTENT || text.toByteArray(Charsets.UTF_8).size > MAX_CONTENT) {
        throw PromptException("$name has more than $MAX_CONTENT bytes", "shorten it")
    }
}
