package io.omnidraft

/**
 * A message of a conversation.
 *
 * @property role `system`, `user` or `assistant`.
 * @property content its text.
 */
public class ChatMessage(public val role: String, public val content: String)
