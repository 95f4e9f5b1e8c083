// The file of a session, format version 7: spec/09-session.md.

let sessionMagic: [UInt8] = [0x89, 0x4f, 0x44, 0x53, 0x4e, 0x0d, 0x0a, 0x1a]
let sessionVersion = 7
/// Bytes of a header: magic, version, reserved, bytes of the state and of the cache, CRC-32 of each.
let sessionHeaderBytes = 32
let maxSessionBytes = sessionHeaderBytes + maxStateBytes + maxSavedCacheBytes

private let maxStateBytes = 1 << 24
private let maxSavedCacheBytes = 1 << 28
private let maxTurns = 1 << 16
private let maxResults = 1 << 10
private let maxGraphFiles = 256
private let maxDecayed = 1e9  // of a decayed count
private let fingerprintDigits = 64

func sessionFileError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .sessionFile(Refusal(fault: fault, message: message, remedy: remedy))
}

/// The bytes of a session file: equal values give equal bytes.
///
/// - Throws: ``OmniDraftError/sessionFile(_:)`` `limits`.
func encodeSession(_ saved: SavedSession, _ cache: [UInt8]) throws -> [UInt8] {
    let state = try dumpJson(stateOf(saved))
    try checkSizes(state.count, cache.count)
    return sessionFile(state, cache)
}

func sessionFile(_ state: [UInt8], _ cache: [UInt8]) -> [UInt8] {
    let out = ByteWriter().put(sessionMagic).u32(sessionVersion).u32(0).u32(state.count).u32(cache.count)
    return out.u32(Int(crc32(state))).u32(Int(crc32(cache))).put(state).put(cache).bytes
}

/// The saved session and the bytes of the cache in a session file.
///
/// - Throws: ``OmniDraftError/sessionFile(_:)`` naming what is wrong with it.
func decodeSession(_ data: [UInt8]) throws -> (saved: SavedSession, cache: [UInt8]) {
    let (state, cache) = try sections(data)
    let value: JsonValue
    do {
        value = try parseJson(state)
    } catch {
        throw sessionFileError("state", "its state is not JSON (\(reason(error).prefix(80)))")
    }
    let saved: SavedSession
    let again: [UInt8]
    do {
        saved = try savedOf(value)
        again = try dumpJson(stateOf(saved))
    } catch {
        throw sessionFileError("state", "its state has an invalid field (\(reason(error).prefix(80)))")
    }
    if again != state { throw sessionFileError("state", "its state is not written in the one way that there is") }
    return (saved, cache)
}

private func sections(_ data: [UInt8]) throws -> (state: [UInt8], cache: [UInt8]) {
    if data.isEmpty || !data.prefix(sessionMagic.count).elementsEqual(sessionMagic.prefix(data.count)) {
        throw sessionFileError("not_a_session", "it is not a session file")
    }
    if data.count < sessionHeaderBytes {
        throw sessionFileError("truncated", "it has \(data.count) bytes and a header has \(sessionHeaderBytes)")
    }
    let bytes = Bytes(data)
    let version = bytes.u32(8)
    if version != sessionVersion {
        let message = "it has version \(version) and this omnidraft reads version \(sessionVersion)"
        throw sessionFileError("version", message)
    }
    if bytes.u32(12) != 0 {
        throw sessionFileError("reserved", "its reserved field is \(bytes.u32(12)) instead of 0")
    }
    let (stateBytes, cacheBytes) = (bytes.u32(16), bytes.u32(20))
    try checkSizes(stateBytes, cacheBytes)
    let expected = sessionHeaderBytes + stateBytes + cacheBytes
    if data.count < expected { throw sessionFileError("truncated", "it has \(data.count) bytes of \(expected)") }
    if data.count > expected {
        throw sessionFileError("trailing", "it has \(data.count - expected) bytes too many")
    }
    let end = sessionHeaderBytes + stateBytes
    let (state, cache) = (Array(data[sessionHeaderBytes..<end]), Array(data[end...]))
    if Int(crc32(state)) != bytes.u32(24) || Int(crc32(cache)) != bytes.u32(28) {
        throw sessionFileError("checksum", "its bytes were changed (a CRC-32 does not match)")
    }
    return (state, cache)
}

private func checkSizes(_ stateBytes: Int, _ cacheBytes: Int) throws {
    for (name, size, most) in [("state", stateBytes, maxStateBytes), ("cache", cacheBytes, maxSavedCacheBytes)]
    where size > most {
        throw sessionFileError("limits", "its \(name) has \(size) bytes, more than \(most)")
    }
}

// The state as values of JSON, in the order of the tables of spec/09-session.md, and back.

private func stateOf(_ saved: SavedSession) -> JsonValue {
    let identity = saved.identity
    let graphs = identity.graphs.sorted.map { ($0.name, JsonValue.string($0.value)) }
    let turns: [JsonValue] = saved.turns.map {
        ["message": .string($0.message), "results": texts($0.results), "answer": idsOf($0.answer)]
    }
    return [
        "omnidraft": .string(saved.omnidraft),
        "identity": [
            "draft_fingerprint": .string(identity.draftFingerprint),
            "target_fingerprint": .string(identity.targetFingerprint), "graphs": .object(JsonObject(graphs)),
            "drafter_adapter": optional(identity.adapters[.drafter]),
            "target_adapter": optional(identity.adapters[.target]),
        ],
        "costs": costsObject(saved.costs), "draft_length": lengthsObject(saved.lengths),
        "system": optional(saved.system), "tools": optional(saved.tools), "turns": .array(turns),
        "message": optional(saved.asked?.message), "results": texts(saved.asked?.results ?? []),
        "answer": saved.answer.map(answerObject) ?? .null,
    ]
}

private func texts(_ texts: [String]) -> JsonValue { .array(texts.map { .string($0) }) }

private func optional(_ text: String?) -> JsonValue { text.map { .string($0) } ?? .null }

private func idsOf(_ ids: [Int32]) -> JsonValue { .array(ids.map { .integer(Int64($0)) }) }

private func savedOf(_ value: JsonValue) throws -> SavedSession {
    let state = try mapping(value)
    let results = try resultsOf(state.at("results"))
    let saved = SavedSession(
        omnidraft: try text(state.at("omnidraft"), most: 64),
        identity: try identityOf(mapping(state.at("identity"))),
        costs: try costsOf(mapping(state.at("costs"))),
        lengths: try lengthsOf(mapping(state.at("draft_length"))),
        turns: try array(state.at("turns"), most: maxTurns).map { try turnOf(mapping($0)) },
        asked: try state.orNull("message").map { Turn(message: try text($0), results: results) },
        answer: try state.orNull("answer").map { try answerOf(mapping($0)) },
        system: try state.orNull("system").map { try text($0) },
        tools: try state.orNull("tools").map { try text($0) })
    try checkTurns(saved, results)
    return saved
}

/// The rules between the fields of a conversation.
private func checkTurns(_ saved: SavedSession, _ results: [String]) throws {
    if saved.asked == nil && !saved.turns.isEmpty && saved.answer != nil {
        throw ValueError("the last answer of a conversation has no message")
    }
    if (saved.asked != nil && saved.answer == nil) || saved.system?.isEmpty == true {
        throw ValueError("a message has no answer, or the system prompt is empty")
    }
    let asked = saved.turns + (saved.asked.map { [$0] } ?? [])
    let isLost = saved.asked == nil && !results.isEmpty
    if isLost || saved.tools?.isEmpty == true || asked.first?.results.isEmpty == false {
        throw ValueError("results answer nothing, or the tools are empty")
    }
    if asked.contains(where: { !$0.message.isEmpty && !$0.results.isEmpty }) {
        throw ValueError("a turn has a message and results")
    }
}

private func identityOf(_ value: JsonObject) throws -> Identity {
    var adapters: [Role: String] = [:]
    for role in Role.allCases {
        if let digest = try value.orNull("\(role.rawValue)_adapter") {
            adapters[role] = try hexadecimal(digest, fingerprintDigits)
        }
    }
    let graphs = try mapping(value.at("graphs"), most: maxGraphFiles).members.map {
        (try text(.string($0.name), most: 512), try hexadecimal($0.value, fingerprintDigits))
    }
    return Identity(
        draftFingerprint: try hexadecimal(value.at("draft_fingerprint"), fingerprintDigits),
        targetFingerprint: try hexadecimal(value.at("target_fingerprint"), fingerprintDigits),
        graphs: ByName(graphs), adapters: adapters)
}

private func reals(_ numbers: [Double]) -> JsonValue { .array(numbers.map { .string(bitsOf($0)) }) }

private func costsObject(_ costs: Costs) -> JsonValue {
    [
        "target": reals(costs.target), "draft": .string(bitsOf(costs.draft)), "host": .string(bitsOf(costs.host)),
        "acceptance": .string(bitsOf(costs.acceptance)),
    ]
}

private func costsOf(_ value: JsonObject) throws -> Costs {
    let costs = Costs(
        target: try array(value.at("target")).map(positive), draft: try positive(value.at("draft")),
        host: try positive(value.at("host")), acceptance: try positive(value.at("acceptance")))
    try checkCosts(costs)
    return costs
}

private func lengthsObject(_ lengths: LengthState) -> JsonValue {
    [
        "seen": reals(lengths.seen), "evaluated": reals(lengths.evaluated), "accepted": reals(lengths.accepted),
        "drafts": .string(bitsOf(lengths.drafts)), "targets": .string(bitsOf(lengths.targets)),
        "compared": reals(lengths.compared), "agreed": reals(lengths.agreed), "idle": .int(lengths.idle),
        "unread": .int(lengths.unread), "written": .int(lengths.written), "share": .string(bitsOf(lengths.share)),
    ]
}

private func lengthsOf(_ value: JsonObject) throws -> LengthState {
    var state = LengthState()
    state.seen = try counts(value.at("seen"), state.seen.count)
    (state.evaluated, state.accepted) = try trials(
        value.at("evaluated"), value.at("accepted"), state.evaluated.count)
    (state.compared, state.agreed) = try trials(value.at("compared"), value.at("agreed"), state.compared.count)
    state.drafts = try real(value.at("drafts"), in: 0...maxDecayed)
    state.targets = try real(value.at("targets"), in: 0...maxDecayed)
    state.idle = try integer(value.at("idle"), from: 0)
    state.unread = try integer(value.at("unread"), from: 0)
    state.written = try integer(value.at("written"), from: 0)
    state.share = try real(value.at("share"), in: Defaults.draftLengthLastShare...Defaults.draftLengthFirstShare)
    return state
}

private func counts(_ values: JsonValue, _ count: Int) throws -> [Double] {
    let counts = try array(values, most: count).map { try real($0, in: 0...maxDecayed) }
    if counts.count != count { throw ValueError("\(counts.count) counts of the draft length, not \(count)") }
    return counts
}

/// Two lists of `count` decayed counts, of trials and of those that succeeded.
private func trials(_ trials: JsonValue, _ successes: JsonValue, _ count: Int) throws -> ([Double], [Double]) {
    let (a, b) = (try counts(trials, count), try counts(successes, count))
    if zip(a, b).contains(where: { $1 > $0 }) { throw ValueError("more successes than trials") }
    return (a, b)
}

private func turnOf(_ value: JsonObject) throws -> Turn {
    Turn(
        message: try text(value.at("message")), answer: try ids(value.at("answer")),
        results: try resultsOf(value.at("results")))
}

private func resultsOf(_ value: JsonValue) throws -> [String] {
    try array(value, most: maxResults).map { try text($0) }
}

private func answerObject(_ answer: SavedAnswer) -> JsonValue {
    [
        "config": configObject(answer.config), "prompt": idsOf(answer.prompt), "output": idsOf(answer.output),
        "logprobs": reals(answer.logprobs), "context": answer.context.map(idsOf) ?? .null,
        "random": .string(hex64(answer.random)), "stop_reason": optional(answer.stopReason?.rawValue),
    ]
}

private func answerOf(_ value: JsonObject) throws -> SavedAnswer {
    let answer = SavedAnswer(
        config: try configOf(mapping(value.at("config"))),
        prompt: try ids(value.at("prompt")),
        output: try ids(value.at("output")),
        context: try value.orNull("context").map { try ids($0) },
        random: try word(value.at("random")),
        stopReason: try value.orNull("stop_reason").map { try named($0) },
        logprobs: try array(value.at("logprobs")).map { try real($0, in: -1e9...(1e-6)) })
    if answer.stopReason == .complete { throw ValueError("stop_reason") }
    if answer.logprobs.count != (answer.config.logprobs ? answer.output.count : 0) { throw ValueError("logprobs") }
    if answer.prompt.isEmpty || answer.output.count > answer.config.maxNewTokens {
        throw ValueError("prompt or output")
    }
    if answer.stopReason == nil && answer.output.count == answer.config.maxNewTokens {
        throw ValueError("output is complete")
    }
    if answer.context?.isEmpty == false && !answer.config.asksDrafter { throw ValueError("a drafter's context") }
    return answer
}
