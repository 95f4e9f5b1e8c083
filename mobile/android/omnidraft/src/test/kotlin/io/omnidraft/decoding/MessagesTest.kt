package io.omnidraft.decoding

import io.omnidraft.PromptException
import io.omnidraft.chat.GivenTurn
import io.omnidraft.chat.MAX_CONTENT
import io.omnidraft.chat.MAX_MESSAGES
import io.omnidraft.chat.MessageList
import io.omnidraft.chat.checkedText
import io.omnidraft.chat.readMessages
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Lists of messages as programs give them. */
class MessagesTest {
    private fun said(text: String) = "user" to text

    private fun answered(text: String) = "assistant" to text

    @Test
    fun aConversationIsRead() {
        val turns = listOf(said("a"), answered("b"), said("c"), answered(""), said("d"))
        val due = listOf(GivenTurn("a", "b"), GivenTurn("c", ""))
        assertEquals(MessageList(null, due, "d"), readMessages(turns))
        assertEquals(MessageList("s", due, "d"), readMessages(listOf("system" to "s") + turns))
        assertEquals(MessageList(null, emptyList(), "a"), readMessages(listOf(said("a"))))
    }

    @Test
    fun anotherOrderIsRefused() {
        val refused = listOf(
            emptyList(), listOf("system" to "s"), listOf(answered("a")), listOf(said("a"), said("b")),
            listOf(said("a"), answered("b")), listOf(said("a"), "system" to "s", said("b")),
            listOf("system" to "s", "system" to "s", said("a")), listOf("tool" to "a"),
        )
        for (messages in refused) assertThrows(PromptException::class.java, { readMessages(messages) }, "$messages")
    }

    @Test
    fun theMessageNamesTheFirstWrongRole() {
        val error = assertThrows(PromptException::class.java) { readMessages(listOf("system" to "s", answered("a"))) }
        assertTrue("message 2 has the role assistant" in error.message!!, error.message)
    }

    @Test
    fun textsWithoutLettersAreRefused() {
        for (text in listOf("", " \n", "\u00a0\u3000\u2003", "\u001c\u0085", "a\ud800", "\udc00b")) {
            assertThrows(PromptException::class.java, { checkedText(text) }, "checked")
            assertThrows(PromptException::class.java, { readMessages(listOf(said(text))) }, "read")
        }
        assertEquals(" a ", checkedText(" a "))
        assertEquals("\u200b", checkedText("\u200b"), "a zero-width space is no white space")
    }

    @Test
    fun tooMuchIsRefused() {
        checkedText("a".repeat(MAX_CONTENT))
        assertThrows(PromptException::class.java) { checkedText("a".repeat(MAX_CONTENT + 1)) }
        assertThrows(PromptException::class.java) { checkedText("\u00e9".repeat(MAX_CONTENT / 2 + 1)) }
        val many = List(MAX_MESSAGES + 1) { if (it % 2 == 0) said("a") else answered("b") }
        assertThrows(PromptException::class.java) { readMessages(many) }
    }
}
