import OmniDraftORT

@testable import OmniDraft

/// The runtime's own random source, which counts the uniforms that it takes.
final class CountingSource: SplitMix64 {
    private(set) var taken = 0

    override func uniform() -> Double {
        taken += 1
        return super.uniform()
    }
}

private let nothing = RoundCounts(classes: [], evaluated: 0, accepted: 0, emitted: 0)

/// The runtime's own draft length, which records what a round asked and learned.
final class WatchedLength: MeasuredLength {
    private var plan: Plan?
    private var counts = nothing

    override func next(_ match: Int) -> Plan {
        let next = super.next(match)
        plan = next
        return next
    }

    override func record(_ counts: RoundCounts) {
        super.record(counts)
        self.counts = counts
    }

    /// The plan of a round (nil where none was asked for), and its counts.
    func take() -> (plan: Plan?, counts: RoundCounts) {
        defer { (plan, counts) = (nil, nothing) }
        return (plan, counts)
    }
}

/// The past and the number of tokens of a pass.
struct Pass {
    let past: Int
    let tokens: Int
}

/// The runtime's own model, which records its passes; keys and values that it does not hold are NaN.
final class WatchedModel: OrtModel {
    var passes: [Pass] = []

    init(_ file: String, vocabSize: Int, maxLength: Int) throws {
        let kv = KvShape(numLayers: 1, numKvHeads: 1, headDim: 1, maxLength: maxLength)
        let path = "\(vectorRoot)/generate/\(file)"
        try super.init(Graph(OrtEngine.shared(), path: path, kv: kv, vocabSize: vocabSize))
        spoil()
    }

    override func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        passes.append(Pass(past: length, tokens: tokens.count))
        return try super.score(tokens, numLogits: numLogits)
    }

    override func rewind(_ length: Int) {
        super.rewind(length)
        spoil()
    }

    private func spoil() {
        for buffer in buffers {
            let numbers = buffer.bytes.bindMemory(to: Float.self)
            for at in length..<numbers.count { numbers[at] = .nan }
        }
    }
}

/// Runs a vector of `generate` or `logprobs`: the real loop on tiny graphs in onnxruntime.
final class WatchedText {
    private let vector: Vector
    private let cache: NgramCache
    private let target: WatchedModel
    private let drafter: WatchedModel
    private let models: DecoderModels
    private let text = DecoderState()

    init(_ vector: Vector) throws {
        self.vector = vector
        let given = vector.input
        cache = try NgramCache(vectorMap(given["map"]!.string))
        for id in given["active"]!.int32s { try same("the n-gram of \(id)", cache.insert(id), true) }
        target = try WatchedModel(
            given["target"]!.string, vocabSize: cache.map.targetSize, maxLength: given["max_length"]!.int)
        drafter = try WatchedModel(
            given["drafter"]!.string, vocabSize: cache.map.draftSize, maxLength: given["draft_max_length"]!.int)
        models = DecoderModels(
            target: target, drafter: Drafter(drafter, start: given["draft_start"]!.int32s), cache: cache)
    }

    /// Runs all texts of the vector, and compares them with what is expected.
    func run() throws {
        try run(vector.input, vector.expected)
        let later = vector.input["then"]?.array ?? []
        let due = vector.expected["then"]?.array ?? []
        try same("the number of later texts", later.count, due.count)
        for (given, expect) in zip(later, due) {
            var input = vector.input
            for (name, value) in given.object.members { input[name] = value }
            try run(input, expect.object)
        }
    }

    private func run(_ given: JsonObject, _ expect: JsonObject) throws {
        let rows = expect["rounds"]!.array.map(\.object)
        let length = try lengthOf(given)
        let random = CountingSource(given["seed"]!.bits)
        let eos = Set(given["eos_ids"]!.int32s)
        let constraint = try constraintOf(given, draftAllowed: cache.map.draftAllowed)
        let prompt = given["prompt"]!.int32s
        let room = min(given["max_new_tokens"]!.int, given["max_length"]!.int - prompt.count + 1)
        text.restart(
            prompt, given["draft_prompt"]!.int32s, remaining: room, cut: cutAtEos(eos), constraint: constraint)
        try constraint?.checkRoom(room)
        let config = try configOf(given, logprobs: rows[0]["logprobs"] != nil)
        let decode = try Decode(models, text: text, config: config, draftLength: length, random: random)
        var emitted: [Int32] = []
        var number = 0
        while let round = try decode.next() {
            emitted += round.emitted
            let due = number < rows.count ? rows[number] : JsonObject()
            try compare(try row(round, length, isCopied: due["copied"] != nil), due, number)
            try compareLogprobs(due, round)
            number += 1
        }
        try same("the number of rounds", number, rows.count)
        try same("tokens", emitted, expect["tokens"]!.int32s)
        try same("uniforms", random.taken, expect["uniforms"]!.int)
        try same("context", text.context, expect["context"]!.int32s)
        try same("written", (length as? WatchedLength)?.state.written, expect["written"]?.int)
        try same("complete", constraint?.isComplete ?? false, expect["complete"]?.bool ?? false)
        let entries = cache.entries().map { [Int($0.targetId), $0.hits, $0.accepted, $0.tick] }
        let due = expect["entries"]!.array.map { entry in
            ["target_id", "hits", "accepted", "tick"].map { entry.object[$0]!.int }
        }
        try same("entries", entries, due)
    }

    private func compare(_ row: [String: JsonValue], _ due: JsonObject, _ number: Int) throws {
        for (name, value) in due.members where name != "logprobs" {
            try same("\(name) of round \(number)", row[name] ?? .null, value)
        }
        try same("the fields of round \(number)", Set(row.keys), Set(due.names).subtracting(["logprobs"]))
    }

    private func row(_ round: Round, _ length: any DraftLength, isCopied: Bool) throws -> [String: JsonValue] {
        var row: [String: JsonValue] = [
            "draft": list(round.draft), "proposed": list(round.proposed), "accepted": .int(round.accepted),
            "emitted": list(round.emitted), "evaluated": .int(round.evaluated),
            "accepted_drafts": .int(round.acceptedDrafts), "learned": .int(round.learned),
        ]
        if isCopied { row["copied"] = .bool(round.copied) }
        row["target_passes"] = try joined(target.passes, 1)
        target.passes = []
        var seen = round.draft.count
        if let length = length as? WatchedLength {
            let (plan, counts) = length.take()
            seen = max(seen, counts.classes.count)  // one more where a token was not worth proposing
            row["plan"] = plan.map { .array([.string($0.source.rawValue), .int($0.count), .bool($0.fresh)]) } ?? .null
            row["match"] = .int(counts.match)
            row["agreed"] = .int(counts.agreed)
        }
        row["draft_passes"] = try joined(drafter.passes, seen)
        drafter.passes = []
        return row
    }

    /// Logits are float32.
    private func compareLogprobs(_ row: JsonObject, _ round: Round) throws {
        guard let expected = row["logprobs"]?.nums else { return }
        let isSame =
            expected.count == round.logprobs.count
            && zip(expected, round.logprobs).allSatisfy { abs($0 - $1) <= 1e-6 }
        if !isSame { throw VectorFailure(description: "logprobs \(round.logprobs), due \(expected)") }
    }

    private func lengthOf(_ given: JsonObject) throws -> any DraftLength {
        let mode = given["mode"]!.string
        let count = given["num_draft_tokens"]!
        if count != .string("auto") { return try FixedLength(mode == "plain" ? 0 : count.int) }
        let draftPrompt = given["draft_prompt"]!.ints.count
        let costs = costsOf(given["costs"]!.object)
        let copies = mode == "trie" || mode == "lookup"
        var state = LengthState()
        state.beginText(mode == "lookup" ? 0 : draftPrompt, shared: 0)
        return WatchedLength(costs, state, drafts: mode != "lookup", copies: copies)
    }

    private func configOf(_ given: JsonObject, logprobs: Bool) throws -> GenerationConfig {
        var settings = given["sampling"]!.object
        for name in ["max_new_tokens", "mode", "num_draft_tokens", "verification"] { settings[name] = given[name] }
        settings["logprobs"] = .bool(logprobs)
        return try StarterBundles.config(settings, seed: nil)
    }

    private func list(_ ids: [Int32]) -> JsonValue { .array(ids.map { .integer(Int64($0)) }) }

    /// The passes of a round as vectors have them: the past of the first, then the tokens that each reads.
    ///
    /// A runtime may read a text in passes of any lengths, so all but the last `wanted` are joined with the next.
    private func joined(_ passes: [Pass], _ wanted: Int) throws -> JsonValue {
        if wanted == 0 {
            try same("passes that nothing was drawn from", passes.count, 0)
            return .array([])
        }
        for (pass, following) in zip(passes, passes.dropFirst()) {
            try same("where a pass begins", following.past, pass.past + pass.tokens)
        }
        let fed = passes.map(\.tokens)
        let first = fed.count + 1 - wanted
        if first < 1 { throw VectorFailure(description: "\(fed.count) passes where \(wanted) tokens were drawn") }
        return .array(([passes[0].past, fed[..<first].reduce(0, +)] + fed[first...]).map { .int($0) })
    }
}
