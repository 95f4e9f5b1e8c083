/// Counts of a generation, or of all generations of a session (spec/08-phones.md, The interface).
public struct Stats: Sendable, Equatable {
    /// Seconds of rounds, by their parts. Reading a prompt is not part of a round.
    public struct RoundSeconds: Sendable, Equatable {
        /// The drafter's passes.
        public var draft = 0.0
        /// From the drafter's tokens to the target's.
        public var translate = 0.0
        /// The target's passes.
        public var target = 0.0
        /// What is accepted.
        public var verify = 0.0
        /// N-grams into the cache.
        public var learn = 0.0

        /// No time.
        public init() {}
    }

    /// Number of generations.
    public var answers = 0
    /// Target passes after the prompt.
    public var rounds = 0
    /// Rounds in which the drafter gave NaN or infinity, so that its draft ended there.
    public var unsound = 0
    /// Draft tokens drawn.
    public var drafted = 0
    /// Draft tokens verified.
    public var evaluated = 0
    /// Draft tokens accepted.
    public var acceptedDrafts = 0
    /// Target tokens proposed.
    public var proposed = 0
    /// Target tokens accepted into the output.
    public var accepted = 0
    /// Target tokens of the output.
    public var emitted = 0
    /// N-grams that are new in the cache.
    public var learned = 0
    /// By part of a round.
    public var seconds = RoundSeconds()
    /// Tokens of prompts that the target read, without those in its KV buffers.
    public var read = 0
    /// Seconds of that.
    public var readSeconds = 0.0
    /// From the first request for a piece to the first token; of several answers, that of the last one.
    public var firstTokenSeconds = 0.0
    /// The most bytes that this process had resident; nil where the system does not count them.
    public var peakMemory: Int?

    /// Counts of nothing.
    public init() {}

    /// Output tokens for each target pass; 1 is plain decoding, 0 before the first pass.
    public var tokensPerTargetPass: Double { rounds == 0 ? 0 : Double(emitted) / Double(rounds) }

    /// Share of the verified draft tokens that were accepted; 0 where none was verified.
    public var acceptance: Double { evaluated == 0 ? 0 : Double(acceptedDrafts) / Double(evaluated) }
}
