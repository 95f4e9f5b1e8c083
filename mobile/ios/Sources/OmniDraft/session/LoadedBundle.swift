import Foundation

// A loaded bundle: graphs, tokenizers and vocabulary map, which sessions share and never change.

let usualMeasureSeconds = 1.5  // for timing a device; a pass that has begun then is finished
private let measuredText = "How many legs do 3 cats have? Count the legs of each cat, and add them up."
private let measuredTokens = 16  // of that text
private let leastContext = 64  // positions that timing takes at most

/// The graphs, tokenizers and vocabulary map of a bundle.
///
/// Any number of sessions may share it, each in its own thread: nothing here changes after loading.
final class LoadedBundle: @unchecked Sendable {
    let bundle: ModelBundle
    let target: SharedGraph
    let targetTokenizer: Tokenizer
    /// How the drafter's tokens spell the target's.
    let vocabMap: VocabMap
    /// The drafter's graph; nil where the drafter was not loaded.
    let drafter: SharedGraph?
    /// Nil where the drafter was not loaded.
    let drafterTokenizer: Tokenizer?
    fileprivate(set) var device: DeviceCosts
    /// Seconds that the draft length "auto" begins with.
    var costs: Costs { device.costs }
    /// That it runs without the drafter, or on the CPU instead of another provider.
    let notices: [Notice]
    let outputText: OutputText
    let engine: any InferenceEngine
    private let tries = Guarded((target: ByteTrie?.none, drafter: ByteTrie?.none))

    init(
        _ bundle: ModelBundle, target: SharedGraph, targetTokenizer: Tokenizer, vocabMap: VocabMap,
        drafter: SharedGraph?, drafterTokenizer: Tokenizer?, engine: any InferenceEngine, notices: [Notice] = []
    ) {
        self.bundle = bundle
        self.target = target
        self.targetTokenizer = targetTokenizer
        self.vocabMap = vocabMap
        self.drafter = drafter
        self.drafterTokenizer = drafterTokenizer
        self.engine = engine
        device = DeviceCosts(costs: bundle.costs, source: .manifest)
        self.notices = notices
        outputText = OutputText(targetTokenizer, think: bundle.prompt.think, calls: bundle.prompt.toolForm?.calls) {
            vocabMap.bytesOf($0)
        }
    }

    /// The models of the bundle as an adapter sees them.
    var adapterPlace: AdapterPlace {
        AdapterPlace(
            name: split(bundle.path).name, drafter: bundle.drafter, target: bundle.target,
            draftFingerprint: vocabMap.draftFingerprint, targetFingerprint: vocabMap.targetFingerprint)
    }

    /// The bytes of the target's tokens, for grammars; made when they are first asked for.
    var targetTrie: ByteTrie { tries.with { trie(&$0.target, targetTokenizer, bundle.target) } }

    /// The bytes of the drafter's tokens; nil without a drafter.
    var draftTrie: ByteTrie? {
        drafterTokenizer.map { tokenizer in tries.with { trie(&$0.drafter, tokenizer, bundle.drafter) } }
    }

    private func trie(_ made: inout ByteTrie?, _ tokenizer: Tokenizer, _ entry: ModelEntry) -> ByteTrie {
        if let made { return made }
        let trie = ByteTrie((0..<Int32(tokenizer.count)).map(tokenizer.bytes), width: entry.vocabSize)
        made = trie
        return trie
    }

    /// The visible text of a prompt in draft ids; empty without a drafter.
    func draftPrompt(_ promptIds: [Int32]) -> [Int32] {
        drafterTokenizer.map { draftText(targetTokenizer, drafter: $0, ids: promptIds) } ?? []
    }
}

struct Loading {
    let engine: any InferenceEngine
    /// Of a target pass; 0: chosen for this device. The drafter always runs on one.
    var threads = 0
    /// Whether to load the drafter; without it only mode lookup drafts anything.
    var drafter = true
    var provider = ExecutionProvider.cpu
    var measure = Measure.auto
    /// What this device remembers.
    var state = StateDirectory.none
    var notices: [Notice] = []
    /// Tests of measured costs give a slow machine more.
    var measureSeconds = usualMeasureSeconds
}

/// Loads the graphs of a bundle once, for any number of sessions.
///
/// - Parameter most: threads of a target pass at most, where `loading` names no number; nil: by the target's size.
/// - Throws: ``OmniDraftError``: the bundle is damaged or incomplete, or the number of threads is out of range.
func loadBundle(_ bundle: ModelBundle, _ loading: Loading, most: Int? = nil) throws -> LoadedBundle {
    if loading.threads != 0 { try checkThreads(loading.threads) }
    let targetTokenizer = try loadTokenizer(bundle, bundle.target)
    let drafts = loading.drafter && !bundle.drafter.isAbsent
    let drafterTokenizer = drafts ? try loadTokenizer(bundle, bundle.drafter) : nil
    let vocabMap = try loadVocabMap(bundle.file(bundle.vocabMap))
    try vocabMap.checkFits(
        draftFingerprint: drafterTokenizer?.fingerprint ?? vocabMap.draftFingerprint,
        targetFingerprint: targetTokenizer.fingerprint, draftSize: bundle.drafter.vocabSize,
        targetSize: bundle.target.vocabSize)
    let (engine, provider) = (loading.engine, loading.provider)
    let drafter = drafts ? SharedGraph { try graphOf(bundle, bundle.drafter, engine, 1, provider) } : nil
    let trial = ThreadTrial(loading) { threads in
        let target = SharedGraph { try graphOf(bundle, bundle.target, engine, threads, provider) }
        return LoadedBundle(
            bundle, target: target, targetTokenizer: targetTokenizer, vocabMap: vocabMap, drafter: drafter,
            drafterTokenizer: drafterTokenizer, engine: engine, notices: loading.notices)
    }
    return try trial.fastest(most ?? threadsFor(bundle.target.parameters))
}

/// Opens a bundle with other numbers of threads, of which it keeps the costs, and one by one: each has weights of its own.
private final class ThreadTrial {
    private let loading: Loading
    private let withThreads: (Int) -> LoadedBundle
    private var devices: [Int: DeviceCosts] = [:]  // by threads

    init(_ loading: Loading, withThreads: @escaping (Int) -> LoadedBundle) {
        self.loading = loading
        self.withThreads = withThreads
    }

    /// The bundle with the threads that it is fastest with, where costs are measured and kept; else with `most`.
    func fastest(_ most: Int) throws -> LoadedBundle {
        let isKept = loading.measure == .auto && loading.state.root != nil
        let chosen = loading.threads == 0 && isKept ? try fastestThreads(most, speed: speed) : most
        let threads = loading.threads == 0 ? chosen : loading.threads
        let loaded = withThreads(threads)
        try loaded.target.ready()
        try loaded.drafter?.ready()
        let device = try costs(loaded, threads)
        let all = Array(devices.values)  // since threads were compared by them
        loaded.device = DeviceCosts(costs: device.costs, source: device.source) { for each in all { each.forget() } }
        return loaded
    }

    /// Expected tokens a second; nil where the costs are not those of this device.
    private func speed(_ threads: Int) throws -> Double? {
        let loaded = withThreads(threads)
        let device = try costs(loaded, threads)
        let isOfThis = device.source != .manifest || loaded.bundle.measuredOn == machine(threads)
        return isOfThis ? MeasuredLength(device.costs).speed : nil
    }

    /// The costs of the models here; they are timed where nothing is known of this machine.
    private func costs(_ loaded: LoadedBundle, _ threads: Int) throws -> DeviceCosts {
        if let known = devices[threads] { return known }
        let bundle = loaded.bundle
        let found = try deviceCosts(
            loading.state, seal: bundle.seal, costs: bundle.costs, measuredOn: bundle.measuredOn,
            here: machine(threads), measure: loading.measure
        ) { try timed(loaded, loading.measureSeconds) }
        devices[threads] = found
        return found
    }

    private func machine(_ threads: Int) -> Machine {
        thisMachine(onnxruntime: loading.engine.version, threads: threads)
    }
}

private func timed(_ loaded: LoadedBundle, _ seconds: Double) throws -> Costs? {
    let bundle = loaded.bundle
    guard let drafter = loaded.drafter else { return nil }
    let ids = Array(loaded.targetTokenizer.encode(measuredText).prefix(measuredTokens))
    if ids.isEmpty || min(bundle.target.kv.maxLength, bundle.drafter.kv.maxLength) < leastContext { return nil }
    let target = try loaded.target.acquire()
    defer { loaded.target.release(free: false) }
    let small = try drafter.acquire()
    defer { drafter.release(free: false) }
    let models = DecoderModels(
        target: target, drafter: Drafter(small, start: startOf(bundle.drafter)), cache: try NgramCache(loaded.vocabMap))
    return try measureWithin(models, prompt: ids, draftPrompt: loaded.draftPrompt(ids), seconds: seconds)
}

/// The ids that every text of a model begins with.
func startOf(_ entry: ModelEntry) -> [Int32] { entry.bosId.map { [$0] } ?? [] }

/// The tokenizer of a model of a bundle.
///
/// - Throws: ``OmniDraftError/tokenizer(_:)``: it cannot be read, or was not compiled.
func loadTokenizer(_ bundle: ModelBundle, _ entry: ModelEntry) throws -> Tokenizer {
    guard let compiled = entry.compiledTokenizer else {
        let message = "the bundle \(split(bundle.path).name) has no compiled tokenizer for \(entry.source)"
        throw OmniDraftError.tokenizer(
            Refusal(fault: "not_compiled", message: message, remedy: "export it again with a newer omnidraft"))
    }
    return try Tokenizer(file: bundle.file(compiled))
}

private func graphOf(
    _ bundle: ModelBundle, _ entry: ModelEntry, _ engine: any InferenceEngine, _ threads: Int,
    _ provider: ExecutionProvider
) throws -> Graph {
    if entry.layout != .shared {
        let graph = "\(split(bundle.path).name)/\(entry.graph)"
        let message = "\(graph) has the layout \(entry.layout), which runs on desktops only"
        throw bundleError("graph", message, "export the model with `omnidraft export`")
    }
    let path = try checkedGraph(bundle, entry.graph)
    let graph = try Graph(
        engine, path: path, kv: entry.kv, vocabSize: entry.vocabSize, threads: threads, provider: provider.kernels)
    try graph.check(entry.lora)
    try checkUnchanged(bundle.places, bundle.stamps)
    return graph
}

func drafts(_ config: GenerationConfig, hasDrafter: Bool) -> Bool {
    config.copies || (config.asksDrafter && hasDrafter)
}

/// The draft length of a generation; without a drafter it can only copy.
///
/// - Parameter config: of the generation.
func draftLengthFor(
    _ config: GenerationConfig, hasDrafter: Bool, costs: Costs, state: LengthState
) throws -> any DraftLength {
    if !drafts(config, hasDrafter: hasDrafter) { return try FixedLength(0) }
    guard let count = config.numDraftTokens else {
        return MeasuredLength(
            costs, state, drafts: config.asksDrafter && hasDrafter, copies: config.copies)
    }
    return try FixedLength(count, source: config.mode == .lookup ? .copy : .draft)
}

/// How a generation's drafts are verified; "auto" decides by the length of a usual round.
///
/// The decision decides what a seed draws. It uses the bundle's costs, not those measured here, so it is the same on
/// every device.
func verificationFor(_ config: GenerationConfig, _ bundle: ModelBundle) -> GenerationConfig.Verification {
    if config.verification != .auto { return config.verification }
    let seconds = bundle.costs.roundSeconds(Defaults.blockUsualDraft)
    return blockPays(roundSeconds: seconds, vocabSize: bundle.target.vocabSize) ? .block : .token
}
