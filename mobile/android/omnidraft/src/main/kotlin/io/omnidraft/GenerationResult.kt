package io.omnidraft

/**
 * A generation that ended.
 *
 * @property text the whole output, without stop string and end token.
 * @property thought what the model thought before its answer, without the tags; empty for most models.
 * @property answer the text behind the thought and before calls of tools.
 * @property tokenIds target ids of the output.
 * @property stopReason why it ended.
 * @property stats counts of this generation.
 * @property logprobs natural log-probability of each id, if they were asked for.
 * @property droppedTurns oldest turns of the conversation that were left out for this answer; see [SessionOptions].
 * @property calls calls of tools that are whole, in their order; see [TextSession.toolResults].
 */
public class GenerationResult(
    public val text: String,
    public val thought: String,
    public val answer: String,
    public val tokenIds: IntArray,
    public val stopReason: StopReason,
    public val stats: Stats,
    public val logprobs: DoubleArray = DoubleArray(0),
    public val droppedTurns: Int = 0,
    public val calls: List<ToolCall> = emptyList(),
)
