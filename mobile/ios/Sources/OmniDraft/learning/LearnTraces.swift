// Learn an adapter from recorded generations, in a seeded order, resumable from a file.

/// The checkpoints of learning from traces.
let learnerCheckpoint = StateFormat(name: "omnidraft.learner_state", version: "1", task: "learning")

/// Options of learning from traces.
struct LearnOptions: Sendable {
    /// Of the learner; its learning rate is the highest of the schedule.
    var step = StepOptions()
    /// In total; one pass when nil.
    var steps: Int?
    /// Responses in a step.
    var batchSize = 8
    /// See ``rateAt(_:_:step:total:)``.
    var schedule = decayingSchedule
    /// Draft tokens of a response with its prompt; the drafter's context when nil.
    var maxLength: Int?
    /// Digest of the target's adapter; nil for no adapter.
    var targetAdapter: String?

    /// - Throws: ``OmniDraftError/setting(_:)``: a value outside its range.
    func check() throws {
        try step.check()
        if let steps, steps < 1 {
            throw settingError("steps \(steps) is less than 1", "give 1 or more, or leave it out for one pass")
        }
        if batchSize < 1 { throw settingError("batchSize \(batchSize) is less than 1", "8 is usual") }
        if let maxLength, maxLength < 2 {
            throw settingError(
                "maxLength \(maxLength) leaves no room",
                "give 2 or more, or leave it out for all that the drafter's context holds")
        }
        try checkSchedule(schedule)
    }
}

/// The result of learning.
struct LearnedFromTraces: Sendable {
    /// For a session.
    let adapter: Adapter
    /// Responses that were learned from.
    let responses: Int
    /// In total.
    let steps: Int
    /// Steps of this run.
    let done: Int
    /// Whether all steps were done; else the budget ended the run.
    let isFinished: Bool
    /// Of all steps, those that were not finite and changed nothing.
    let skipped: Int
    /// Of the steps of this run.
    let losses: [Double]
}

/// The responses in traces, all in memory; a trace on a device is bounded (spec/12-trace.md).
///
/// - Throws: ``OmniDraftError/traceFile(_:)``, ``OmniDraftError/setting(_:)``.
func responsesOf(_ traces: [String], _ bundle: Bundle, _ map: VocabMap, _ options: LearnOptions) throws -> [Aligned] {
    try options.check()
    let longest = bundle.drafter.kv.maxLength
    let maxLength = options.maxLength ?? longest
    if maxLength > longest {
        let message = "maxLength \(maxLength) is more than the \(longest) that the drafter's context holds"
        throw settingError(message, "give \(longest) or less")
    }
    let aligner = TraceAligner(
        aligner: Aligner(trie: fullTrie(map), maxLength: maxLength),
        start: bundle.drafter.bosId.map { [Int32($0)] } ?? [],
        targetAdapter: options.targetAdapter)
    var responses: [Aligned] = []
    let source: TraceSource = { try readTraces(traces, Vocabularies(map), $0) }
    try fromTraces(source, aligner) { responses.append($0) }
    if responses.isEmpty { throw settingError("the traces hold nothing to learn from", "record some text first") }
    return responses
}

/// Where a run keeps the state of its learner.
struct Checkpoint: Sendable {
    /// Read if it exists, written after every ``every`` steps, at the end, and where the budget ends the run.
    let file: String
    /// Steps between two writes.
    var every = 20
}

/// Learn, and continue from the checkpoint with the steps that would have followed it.
///
/// - Parameters:
///   - responses: at least one.
///   - checkpoint: nil for none.
///   - budget: asked between two calls of the graph; a step that it ends changes nothing.
/// - Throws: ``OmniDraftError/setting(_:)``.
func learn(
    _ learner: OrtLearner, _ responses: [Aligned], _ options: LearnOptions, checkpoint: Checkpoint? = nil,
    budget: StepBudget = .unbounded, progress: (Learned, Int) throws -> Void = { _, _ in }
) throws -> LearnedFromTraces {
    try options.check()
    let total = options.steps ?? (responses.count + options.batchSize - 1) / options.batchSize
    let settings = settingsOf(try learner.adapter().base, responses, options, total)
    if let checkpoint, exists(checkpoint.file) { try restore(learner, checkpoint.file, settings) }
    var losses: [Double] = []
    var written = learner.steps
    func write() throws {
        guard let checkpoint, learner.steps != written else { return }
        try learnerCheckpoint.write(checkpoint.file, learner.state(), JsonObject([("settings", .object(settings))]))
        written = learner.steps
    }
    while learner.steps < total && budget.goesOn() {
        learner.rate = rateAt(options.schedule, options.step.learningRate, step: learner.steps, total: total)
        let batch = batchOf(learner.steps, responses.count, options).map { responses[$0] }
        guard let step = try learner.learn(batch, budget) else { break }
        losses.append(step.loss)
        try progress(step, total)
        if let checkpoint, step.step % max(1, checkpoint.every) == 0 { try write() }
    }
    try write()
    return LearnedFromTraces(
        adapter: try learner.adapter(), responses: responses.count, steps: learner.steps, done: losses.count,
        isFinished: learner.steps >= total, skipped: learner.skipped, losses: losses)
}

private func restore(_ learner: OrtLearner, _ file: String, _ settings: JsonObject) throws {
    let saved = try learnerCheckpoint.read(file)
    try learnerCheckpoint.checkSame(file, saved.metadata["settings"], settings)
    try learner.restore(saved.arrays)
}

/// What a checkpoint records, so that no run goes on from another one's state.
private func settingsOf(_ base: String, _ responses: [Aligned], _ options: LearnOptions, _ total: Int) -> JsonObject {
    let step = options.step
    let ofStep = JsonObject([
        ("objective", .string(step.objective)), ("learning_rate", .double(step.learningRate)),
        ("weight_decay", .double(step.weightDecay)), ("clip_norm", .double(step.clipNorm)),
        ("lora_alpha", .double(step.loraAlpha)), ("seed", .integer(Int64(bitPattern: step.seed))),
        ("at_once", .int(step.atOnce)), ("threads", .int(step.threads)),
    ])
    return JsonObject([
        ("step", .object(ofStep)), ("steps", .int(total)), ("batch_size", .int(options.batchSize)),
        ("schedule", .string(options.schedule)), ("max_length", options.maxLength.map(JsonValue.int) ?? .null),
        ("target_adapter", options.targetAdapter.map(JsonValue.string) ?? .null), ("base", .string(base)),
        ("responses", .string(digestOf(responses))),
    ])
}

/// Indices of the responses of a step. Each pass takes all responses, in its own order.
func batchOf(_ step: Int, _ count: Int, _ options: LearnOptions) -> [Int] {
    let each = (count + options.batchSize - 1) / options.batchSize
    let random = SplitMix64(SplitMix64(options.step.seed).nextU64() ^ UInt64(step / each))
    var order = Array(0..<count)
    for last in stride(from: count - 1, to: 0, by: -1) {  // Fisher and Yates
        order.swapAt(last, min(Int(random.uniform() * Double(last + 1)), last))
    }
    let start = step % each * options.batchSize
    return Array(order[start..<min(start + options.batchSize, count)])
}

/// SHA-256 over the draft tokens of all responses, with the length of each prompt.
private func digestOf(_ responses: [Aligned]) -> String {
    var hash = Sha256()
    for response in responses {
        var data = ByteWriter()
        data.put("\(response.promptLength) \(response.draftIds.count)\n".utf8)
        for id in response.draftIds { data.i32(id) }
        data.bytes.withUnsafeBytes { hash.update($0) }
    }
    return hexOf(hash.finish())
}
