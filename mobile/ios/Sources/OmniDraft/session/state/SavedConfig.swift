// The settings of a generation in the state of a session file, and words and numbers as the state has them.

private let auto = JsonValue.string("auto")

func configObject(_ config: GenerationConfig) -> JsonValue {
    guard let seed = config.seed else { preconditionFailure("a generation that began has a seed") }
    return [
        "max_new_tokens": .int(config.maxNewTokens), "temperature": .string(bitsOf(config.temperature)),
        "seed": .string(hex64(seed)), "mode": .string(config.mode.rawValue),
        "num_draft_tokens": config.numDraftTokens.map { .int($0) } ?? auto,
        "stop": .array(config.stop.map { .string($0) }), "ignore_eos": .bool(config.ignoreEos),
        "top_k": .int(config.topK), "top_p": .string(bitsOf(config.topP)), "min_p": .string(bitsOf(config.minP)),
        "repetition_penalty": .string(bitsOf(config.repetitionPenalty)),
        "verification": .string(config.verification.rawValue), "logprobs": .bool(config.logprobs),
    ]
}

/// The settings of a state.
func configOf(_ value: JsonObject) throws -> GenerationConfig {
    let lengths = try value.at("num_draft_tokens")
    let config = GenerationConfig(
        maxNewTokens: try integer(value.at("max_new_tokens"), from: 1),
        temperature: try positive(value.at("temperature")),
        seed: try word(value.at("seed")),
        mode: try named(value.at("mode")),
        numDraftTokens: lengths == auto ? nil : try integer(lengths, from: 0),
        stop: try array(value.at("stop")).map { try text($0) },
        ignoreEos: try boolean(value.at("ignore_eos")),
        topK: try integer(value.at("top_k"), from: 0),
        topP: try positive(value.at("top_p")),
        minP: try positive(value.at("min_p")),
        repetitionPenalty: try positive(value.at("repetition_penalty")),
        verification: try named(value.at("verification")),
        logprobs: try boolean(value.at("logprobs")))
    try config.check()
    return config
}

/// The value of a word; a word that none of them has is refused.
func named<T: RawRepresentable>(_ value: JsonValue) throws -> T where T.RawValue == String {
    guard case .string(let word) = value, let found = T(rawValue: word), isSame(found.rawValue, word) else {
        throw ValueError("\(quoted(value)) is unknown")
    }
    return found
}

/// A real of at least 0.
func positive(_ value: JsonValue) throws -> Double { try real(value, in: 0 ... .greatestFiniteMagnitude) }

/// 64 bits as 16 hexadecimal digits: not every language has a number of JSON for them.
func word(_ value: JsonValue) throws -> UInt64 {
    let digits = try hexadecimal(value, 16)
    guard let bits = UInt64(digits, radix: 16) else { throw ValueError("\(quoted(value)) is not 64 bits") }
    return bits
}
