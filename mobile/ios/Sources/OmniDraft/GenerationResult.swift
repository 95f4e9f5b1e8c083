/// A generation that ended.
public struct GenerationResult: Sendable {
    /// The whole output, without stop string and end token.
    public let text: String
    /// What the model thought before its answer, without the tags; empty for most models.
    public let thought: String
    /// The text behind the thought and before calls of tools.
    public let answer: String
    /// Target ids of the output.
    public let tokenIds: [Int32]
    /// Why it ended.
    public let stopReason: StopReason
    /// Counts of this generation.
    public let stats: Stats
    /// Natural log-probability of each id, if they were asked for.
    public let logprobs: [Double]
    /// Oldest turns of the conversation that were left out for this answer; see ``SessionOptions/dropsOldest``.
    public let droppedTurns: Int
    /// Calls of tools that are whole, in their order; see ``TextSession/toolResults(_:_:grammar:)``.
    public let calls: [ToolCall]
}
