// What a session works with: models, n-grams, recorder, statistics, and the state of its text.

/// The models, n-grams and recorder of a session, and the state of its text. One user at a time; what may be called
/// from any thread says so.
class SessionResources: @unchecked Sendable {
    /// Shared with other sessions.
    let loaded: LoadedBundle
    let models: SessionModels
    private let place: Guarded<TraceStore?>
    private let state: Guarded<TextState>
    private let said: Guarded<[Notice]>

    /// - Parameters:
    ///   - cache: a file of learned n-grams; a file that is absent or refused gives an empty cache.
    ///   - trace: where generations are recorded for training; nil for nowhere.
    init(_ loaded: LoadedBundle, cache: String? = nil, adapter: String? = nil, trace: TraceStore? = nil) throws {
        self.loaded = loaded
        models = try SessionModels(loaded)
        let opened = try cache.map { try openCache($0, loaded.vocabMap) }
        said = Guarded((opened?.problem).map { [Notice(kind: .emptyCache, message: $0)] } ?? [])
        state = Guarded(TextState(try opened?.cache ?? NgramCache(loaded.vocabMap), loaded.costs))
        place = Guarded(trace)
        if let adapter { try models.useAdapter(readAdapter(adapter), nil) }
    }

    var text: TextState {
        get { state.with { $0 } }
        set { state.with { $0 = newValue } }
    }

    /// Where generations are recorded; from any thread.
    var trace: TraceStore? {
        get { place.with { $0 } }
        set { place.with { $0 = newValue } }
    }

    /// That the file of the cache was refused, or that the session loaded last was saved with another adapter; from any
    /// thread.
    var notices: [Notice] {
        get { said.with { $0 } }
        set { said.with { $0 = newValue } }
    }

    /// Whether a conversation leaves out its oldest turns where the context is too small for them and an answer. Set before
    /// the session is used.
    var dropsOldest = false
    /// Tokens that the target can read, the output included.
    var contextSize: Int { bundle.target.kv.maxLength }
    /// Tokens of the text so far: the prompt or conversation, and the last output.
    var contextUsed: Int { answer == nil ? 0 : text.decoder.tokens.count }

    /// The text around messages; the bundle's compiled template.
    var template: PromptTemplate { loaded.bundle.prompt }
    var bundle: ModelBundle { loaded.bundle }
    var targetTokenizer: Tokenizer { loaded.targetTokenizer }
    /// How the drafter's tokens spell the target's.
    var vocabMap: VocabMap { loaded.vocabMap }
    var cache: NgramCache { text.cache }
    /// The last generation; from any thread.
    var answer: Generation? { text.answer }

    /// The system prompt of texts that begin in the template; nil for none. It applies to the next text.
    ///
    /// - Throws: ``OmniDraftError/prompt(_:)``: the template has no place for one, or it is not a text.
    func setSystem(_ system: String?) throws {
        if let system {
            _ = try template.parts(turns: 1, system: true)
            _ = try checkedText(system, name: "the system prompt")
        }
        try turn { text.system = system }
    }

    /// What was generated since the conversation began or was loaded, and the memory of this process; from any thread.
    var stats: Stats {
        let (answers, totals) = text.statistics()
        return totals.stats(answers: answers)
    }

    /// Uses an adapter from the next round on, also of a running generation; from any thread.
    ///
    /// No weights are loaded again; the model reads its context again. An adapter of the drafter changes speed only; an
    /// adapter of the target changes the output.
    ///
    /// - Parameters:
    ///   - adapter: nil takes adapters away.
    ///   - role: the model that it is of; by the fingerprint of its base when nil.
    /// - Throws: ``OmniDraftError/adapter(_:)``: it is of other models; the adapter in use stays.
    func useAdapter(_ adapter: Adapter?, _ role: Role? = nil) throws { try models.useAdapter(adapter, role) }

    /// Writes the n-grams learned so far; no crash can spoil the file.
    ///
    /// - Returns: where the file before was moved to, if it is a damaged cache; else nil.
    @discardableResult
    func saveCache(_ path: String) throws -> String? { try turn { try writeCache(path, cache) } }

    /// Forgets all learned n-grams, and how often drafts were accepted.
    func resetCache() throws {
        text.cache = try NgramCache(vocabMap)
        text.lengths = Lengths()
    }

    /// Target ids of a prompt, inside the template and behind the system prompt unless `raw`.
    ///
    /// - Throws: ``OmniDraftError/prompt(_:)``: the template has no place for the session's system prompt.
    func encode(_ prompt: String, raw: Bool = false) throws -> [Int32] {
        if raw { return targetTokenizer.encodePrompt(["", prompt, ""]) }
        return try conversationIds(
            targetTokenizer, template: template, turns: [], asked: Turn(message: prompt),
            system: text.system)
    }

    /// Runs something as the one user of the models, with the adapters that were given last.
    ///
    /// - Parameter generates: whether a text begins or goes on; then the files must be those that were loaded.
    func turn<T>(generates: Bool = false, _ work: () throws -> T) throws -> T {
        if generates { try refuseRewritten(bundle.places, bundle.stamps) }
        return try turnOf(models, decoder: text.decoder, work)
    }

    /// Where the next generation is recorded.
    func recording() -> Recording? {
        guard let store = trace else { return nil }
        return Recording(store: store, tracer: Tracer(vocabMap, recording: { store.isRecording }))
    }
}
