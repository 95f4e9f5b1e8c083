/// A message of a conversation.
public struct ChatMessage: Sendable, Hashable {
    /// `system`, `user` or `assistant`.
    public let role: String
    /// Its text.
    public let content: String

    /// A message with a role, which is `system`, `user` or `assistant`, and its text.
    public init(role: String, content: String) {
        self.role = role
        self.content = content
    }
}
