// How a generation begins, on a prompt or on a saved state, and runs one round at a time.

struct Recording {
    let store: TraceStore
    /// Makes a round of a record from a round of the loop.
    let tracer: Tracer
}

/// Begins a generation after a prompt in target ids; it becomes the answer of `text`.
///
/// - Parameters:
///   - text: its state; the generation before ends here.
///   - ids: the whole prompt.
///   - recording: where to record the generation; nil for nowhere.
///   - grammar: what the output must be; such a generation is recorded nowhere.
/// - Throws: ``OmniDraftError/prompt(_:)``: the target cannot read the prompt, or not all of it; nothing changes.
///   ``OmniDraftError/grammar(_:)``: no text of the grammar has room, or the output begins inside a thought; nothing changes.
func generateFromPrompt(
    _ models: SessionModels, text: TextState, ids: [Int32], config: GenerationConfig, recording: Recording?,
    tooLong: String = tooLongRemedy, grammar: Grammar? = nil
) throws -> Generation {
    try checkPrompt(ids, target: models.loaded.bundle.target, tooLong: tooLong)
    let constraint = try grammar.map { try constraintFor($0, models, ids, config) }
    let context = firstContext(models, text, ids, config)
    // Above temperature 0 the drafts decide which text a seed gives. A seed that the caller gives repeats its text
    // where the n-grams are the same, so its draft length learns nothing from earlier texts. A seed that is drawn here
    // need not repeat anything, and the draft length uses all counts so far.
    var config = config
    let isGiven = config.seed != nil
    let seed = config.seed ?? freshSeed()
    config.seed = seed
    let isRepeatable = isGiven && config.temperature > 0
    let lengths = Lengths(isRepeatable ? LengthState() : text.lengths.state)
    let shared = isRepeatable ? 0 : commonLength(text.decoder.context, context)
    lengths.state.beginText(context.count, shared: shared)
    text.lengths = lengths
    text.random = SplitMix64(seed)
    text.drops = models.drops
    let generation = try generateFromState(
        models, text: text, config: config, prompt: ids, context: context, emitted: EarlierOutput(),
        recording: recording, constraint: constraint)
    if let grammar, !grammar.tools.isEmpty, let form = models.loaded.bundle.prompt.toolForm {
        generation.readCalls(form.calls)
    }
    text.begin(generation)
    return generation
}

/// A generation that continues after a prompt and the output so far.
///
/// - Parameters:
///   - recording: where to record the generation; nil for nowhere.
///   - constraint: keeps the output in a grammar.
/// - Throws: ``ValueError``: an end token or a stop string comes before the last emitted token.
func generateFromState(
    _ models: SessionModels, text: TextState, config: GenerationConfig, prompt: [Int32], context: [Int32],
    emitted: EarlierOutput, recording: Recording? = nil, constraint: Constraint? = nil
) throws -> Generation {
    let loaded = models.loaded
    let eosIds = endsOf(config, loaded.bundle)
    let stopText = try StopText(config.stop)
    let outputText = loaded.outputText
    let cut: Cut = { cutAtStop($0, eosIds: eosIds, text: stopText, bytesOf: outputText.bytesOf) }
    if cut(emitted.tokenIds).tokens.count < emitted.tokenIds.count {
        throw ValueError("its output continues after an end token or a stop string")
    }
    let remaining = roomFor(config, models, prompt) - emitted.tokenIds.count
    text.decoder.restart(
        prompt + emitted.tokenIds, context, remaining: remaining, cut: cut, constraint: constraint)
    var verified = config
    verified.verification = verificationFor(config, loaded.bundle)
    // What is written in a grammar has distributions that are not the target's own.
    let recorded = constraint == nil ? recording : nil
    let rounds = try SessionRounds(models, text, verified, recorded, hasOutput: !emitted.tokenIds.isEmpty)
    let thoughts = Thoughts(tags: loaded.bundle.prompt.think, inside: outputText.endsInThought(prompt))
    let limits = Limits(eosIds: eosIds, maxLength: models.target.maxLength, constraint: constraint)
    let generation = Generation(
        rounds: rounds, config: config, prompt: prompt, stopText: stopText, limits: limits, thoughts: thoughts,
        clock: models.clock)
    generation.replay(emitted)
    return generation
}

private func endsOf(_ config: GenerationConfig, _ bundle: ModelBundle) -> Set<Int32> {
    config.ignoreEos ? [] : Set(bundle.target.eosIds)
}

/// Tokens that may be emitted after a prompt; the last one needs no position.
private func roomFor(_ config: GenerationConfig, _ models: SessionModels, _ prompt: [Int32]) -> Int {
    min(config.maxNewTokens, models.target.maxLength - prompt.count + 1)
}

/// Keeps the output after a prompt in a grammar; refused where no output can belong to it.
private func constraintFor(
    _ grammar: Grammar, _ models: SessionModels, _ prompt: [Int32], _ config: GenerationConfig
) throws -> Constraint {
    if models.loaded.outputText.endsInThought(prompt) && !grammar.isFree(.start) {
        let message = "the prompt ends inside a thought, and a grammar is for a whole output"
        throw grammarError("", message, "use another template")
    }
    let constraint = try models.grammars.constraint(
        grammar, eosIds: endsOf(config, models.loaded.bundle), proposes: config.mode != .plain)
    try constraint.checkRoom(roomFor(config, models, prompt))
    return constraint
}

/// Runs something as the one user of the models; the target reads its text again where its adapter changed.
func turnOf<T>(_ models: SessionModels, decoder: DecoderState, _ work: () throws -> T) throws -> T {
    try models.turn { targetChanged in
        if targetChanged { decoder.forgetCached() }
        return try work()
    }
}

/// The rounds of one generation of a session: only the newest generation may run, and it can be cancelled during each
/// pass. Where the drafter was dropped since the last round, the rounds go on without it, from the same random state.
private final class SessionRounds: Rounds {
    private let models: SessionModels
    private weak var text: TextState?  // which holds the generation; without it, none can take over
    private let config: GenerationConfig
    private let recording: Recording?
    private var hasOutput: Bool
    // A session that loads a file, or begins a text, replaces these; a generation goes on with its own.
    private let decoder: DecoderState
    private let random: SplitMix64
    private let lengths: Lengths
    private let costs: Costs
    private let cache: NgramCache
    private var drops: Int
    private var passSeconds = 0.0
    private var watch: CostsWatch?  // of costs that were kept
    private var rounds: Decode?
    private var length: (any DraftLength)?

    init(
        _ models: SessionModels, _ text: TextState, _ config: GenerationConfig, _ recording: Recording?, hasOutput: Bool
    ) throws {
        self.models = models
        self.text = text
        self.config = config
        self.recording = recording
        self.hasOutput = hasOutput
        decoder = text.decoder
        random = text.random
        lengths = text.lengths
        costs = text.costs
        cache = text.cache
        drops = models.drops
        let device = models.loaded.device
        watch = device.source == .kept ? CostsWatch(device.costs) : nil
        try decode(hasDrafter: models.hasDrafter)
    }

    func next(_ generation: Generation) throws -> Round? {
        try turnOf(models, decoder: decoder) {
            if let text, text.answer !== generation {
                throw sessionError(
                    "a newer generation of this session took over", "start another one to continue")
            }
            return try models.cancelledBy({ generation.isCancelled }) {
                if drops != models.drops { try goOnWithoutDrafter() }
                defer { if let measured = length as? MeasuredLength { lengths.state = measured.state } }
                let round = try rounds?.next()
                if let round { watchCosts(round) }
                hasOutput = true
                return round
            }
        }
    }

    /// Forgets costs that were kept where the passes are twice as slow.
    private func watchCosts(_ round: Round) {
        passSeconds = round.seconds.target
        let (tokens, length) = (round.proposed.count + 1, decoder.tokens.count - round.emitted.count)
        if watch?.areOutdated(tokens: tokens, seconds: passSeconds, length: length) == true {
            models.loaded.device.forget()
        }
    }

    func pause(_ generation: Generation) { models.throttle.pause(passSeconds) { generation.isCancelled } }

    func interrupt() {
        models.interrupt()
        models.throttle.wake()
    }

    private func goOnWithoutDrafter() throws {
        drops = models.drops
        rounds?.close()
        try decode(hasDrafter: false)
    }

    private func decode(hasDrafter: Bool) throws {
        let drafter = hasDrafter ? models.drafter : Drafter(nil)
        let length = try draftLengthFor(config, hasDrafter: hasDrafter, costs: costs, state: lengths.state)
        self.length = length
        let used = DecoderModels(target: models.target, drafter: drafter, cache: cache, clock: models.clock)
        rounds = try Decode(
            used, text: decoder, config: config, draftLength: length, random: random,
            recorder: recording.map {
                Recorder($0.store, tracer: $0.tracer, source: recordingSource(hasDrafter: hasDrafter))
            })
    }

    private func recordingSource(hasDrafter: Bool) -> RecordingSource {
        let (loaded, models, decoder) = (models.loaded, models, decoder)
        let tokens = decoder.tokens
        let drafts = config.asksDrafter && hasDrafter
        return RecordingSource(
            map: loaded.vocabMap, context: { drafts ? decoder.context : spelled(loaded, tokens) },
            adapters: { AdapterDigests(drafter: models.digest(.drafter), target: models.digest(.target)) },
            mode: config.mode.rawValue, continues: hasOutput)
    }
}

/// A text in draft ids: without a drafter the decoder keeps none.
private func spelled(_ loaded: LoadedBundle, _ tokens: [Int32]) -> [Int32] {
    let encoded = loaded.draftPrompt(tokens)
    return encoded.isEmpty ? tokens.flatMap { loaded.vocabMap.spell($0) } : encoded
}

/// A prompt in draft ids; where it continues the text before, only the new part is encoded.
private func firstContext(
    _ models: SessionModels, _ text: TextState, _ ids: [Int32], _ config: GenerationConfig
) -> [Int32] {
    guard config.asksDrafter, let tokenizer = models.loaded.drafterTokenizer, models.hasDrafter else { return [] }
    var before: EarlierText?
    // After the drafter was dropped its context counts as empty.
    if let answer = text.answer, text.drops == models.drops {
        before = EarlierText(mode: answer.config.mode, tokens: text.decoder.tokens, context: text.decoder.context)
    }
    return draftContext(models.loaded.targetTokenizer, drafter: tokenizer, ids: ids, before: before)
}
