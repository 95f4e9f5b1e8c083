// The settings of a generation: what they mean, and which are refused (spec/09-session.md, `config`).

private let maxStops = 64
private let maxStopBytes = 1024
let tooLongRemedy = "shorten it, or export with a larger --max-length where the target has more positions"

/// Settings of a generation. A value outside its range is refused when the generation begins.
public struct GenerationConfig: Sendable, Equatable {
    /// Where proposals come from. The output has the target's distribution in each mode.
    public enum Mode: String, Sendable {
        /// The drafter, and copies of the context where the length is auto.
        case trie
        /// Copies of the context, without the drafter.
        case lookup
        /// Nothing is proposed.
        case plain
    }

    /// How drafts are verified above temperature 0.
    public enum Verification: String, Sendable {
        /// Token by token.
        case token
        /// As a block.
        case block
        /// Block where a round takes long enough by the bundle's costs.
        case auto
    }

    /// Output tokens at most.
    public var maxNewTokens: Int
    /// 0 for greedy decoding.
    public var temperature: Double
    /// Repeats a text where the drafts are equal: with the same settings, adapters, learned n-grams and text before it,
    /// and for auto ``numDraftTokens`` the same costs. In a session that learned in between it gives another text of the
    /// same distribution. Modes plain and lookup repeat it whatever was learned. All 64 bits count. Nil: drawn by the
    /// system.
    public var seed: UInt64?
    /// Where proposals come from.
    public var mode: Mode
    /// Of each round; nil (auto) proposes as many tokens as pay, in mode trie also copies of the context instead of
    /// drafts. A number drafts that many tokens and copies only in mode lookup.
    public var numDraftTokens: Int?
    /// Strings that end the output; none of them is part of it.
    public var stop: [String]
    /// Continue after the end of the text.
    public var ignoreEos: Bool
    /// Keep the most probable tokens; 0 keeps all.
    public var topK: Int
    /// Of those, keep each token before which less than this share of their mass comes; 1 keeps all.
    public var topP: Double
    /// Of those, keep each token with at least this share of the largest probability; 0 keeps all.
    public var minP: Double
    /// Divides the positive and multiplies the negative logits of every id in the context; 1 changes nothing.
    public var repetitionPenalty: Double
    /// Of mode trie above temperature 0.
    public var verification: Verification
    /// Also give each token's natural log-probability.
    public var logprobs: Bool

    /// Settings of a generation; what is left out is the usual.
    public init(
        maxNewTokens: Int = 128, temperature: Double = 0, seed: UInt64? = nil, mode: Mode = .trie,
        numDraftTokens: Int? = nil, stop: [String] = [], ignoreEos: Bool = false, topK: Int = 0, topP: Double = 1,
        minP: Double = 0, repetitionPenalty: Double = 1, verification: Verification = .auto, logprobs: Bool = false
    ) {
        self.maxNewTokens = maxNewTokens
        self.temperature = temperature
        self.seed = seed
        self.mode = mode
        self.numDraftTokens = numDraftTokens
        self.stop = stop
        self.ignoreEos = ignoreEos
        self.topK = topK
        self.topP = topP
        self.minP = minP
        self.repetitionPenalty = repetitionPenalty
        self.verification = verification
        self.logprobs = logprobs
    }

    /// Texts are compared by their bytes.
    public static func == (a: GenerationConfig, b: GenerationConfig) -> Bool {
        a.maxNewTokens == b.maxNewTokens && a.temperature == b.temperature && a.seed == b.seed && a.mode == b.mode
            && a.numDraftTokens == b.numDraftTokens && a.ignoreEos == b.ignoreEos && a.topK == b.topK
            && a.topP == b.topP && a.minP == b.minP && a.repetitionPenalty == b.repetitionPenalty
            && a.verification == b.verification && a.logprobs == b.logprobs
            && a.stop.map { Array($0.utf8) } == b.stop.map { Array($0.utf8) }
    }
}

extension GenerationConfig {
    /// How the target's logits become a distribution.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: a value outside its range.
    func sampling() throws -> SamplingConfig {
        try SamplingConfig(
            temperature: temperature, topK: topK, topP: topP, minP: minP, repetitionPenalty: repetitionPenalty)
    }

    var asksDrafter: Bool { mode == .trie }

    /// Whether proposals may be copied from the context.
    var copies: Bool { mode == .lookup || (mode == .trie && numDraftTokens == nil) }

    /// Refuses settings outside their ranges.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)`` naming the value.
    func check() throws {
        _ = try sampling()
        if maxNewTokens < 1 {
            throw settingError("maxNewTokens \(maxNewTokens) is less than 1", "ask for at least one token")
        }
        // A session file holds no larger number.
        for (name, count) in [("maxNewTokens", maxNewTokens), ("topK", topK)] where count > mostInteger {
            throw settingError("\(name) \(count) is more than \(mostInteger)", "use a smaller number")
        }
        if let numDraftTokens { _ = try FixedLength(numDraftTokens) }
        _ = try StopText(stop)
        let longest = stop.map(\.utf8.count).max() ?? 0
        if stop.count > maxStops || longest > maxStopBytes {
            let message = "stop has \(stop.count) strings of up to \(longest) bytes"
            throw settingError(message, "give at most \(maxStops) of at most \(maxStopBytes) bytes")
        }
    }
}

/// Refuses a prompt that the target cannot read.
func checkPrompt(_ ids: [Int32], target: ModelEntry, tooLong: String = tooLongRemedy) throws {
    let limit = target.kv.maxLength
    if ids.isEmpty { throw promptError("the prompt has no tokens", "give at least one") }
    if let wrong = ids.first(where: { $0 < 0 || Int($0) >= target.vocabSize }) {
        throw promptError("token id \(wrong) is outside the target's 0..\(target.vocabSize - 1)")
    }
    if ids.count > limit {
        throw promptError("the prompt has \(ids.count) tokens and the context holds \(limit)", tooLong)
    }
}
