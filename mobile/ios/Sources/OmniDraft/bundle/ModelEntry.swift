// One model of a bundle, as the manifest describes it: its graph, its tokenizer and the shapes they need.

/// How a graph keeps its past; the raw value is the name in a manifest.
enum Layout: String, Sendable {
    /// Keys and values in shared buffers.
    case shared
    /// A pass returns past and new keys and values together, as Optimum exports it.
    case concat
}

/// The numbers of KV buffers; the raw value is the name in a manifest.
enum KvType: String, Sendable {
    case float32, float16

    /// The same for the engine.
    var element: ElementType { self == .float16 ? .float16 : .float32 }
}

/// The KV buffers of a graph: numbers [1, num_kv_heads, max_length, head_dim], two in each layer.
struct KvShape: Sendable, Equatable {
    let numLayers: Int
    let numKvHeads: Int
    let headDim: Int
    let maxLength: Int
    var type = KvType.float32

    /// Bytes of all buffers; the bounds of a manifest keep them below 2^60.
    var bytes: Int { 2 * type.element.size * numLayers * numKvHeads * headDim * maxLength }
}

/// One model of a bundle. The fields are those of spec/03-bundle.md; nil where the manifest has none.
struct ModelEntry: Sendable {
    let source: String
    let architecture: String
    var graph: String
    let tokenizer: String
    let kv: KvShape
    let vocabSize: Int
    let quantization: String
    let bosId: Int32?
    let eosIds: [Int32]
    let parameters: Int
    /// Where the static graphs may run, by name; empty if there are none.
    let places: ByName<StaticGraphs>
    let fingerprint: String?
    /// Where adapters enter the graph; nil if they cannot.
    let lora: LoraSites?
    let layout: Layout
    let train: StepEntry?
    let tokenizerFingerprint: String
    let compiledTokenizer: String?

    /// Whether this stands for the drafter of a bundle that has none.
    var isAbsent: Bool { graph.isEmpty }

    /// Whether a file of the bundle is a graph or weights of this model, where it runs.
    func reads(_ name: String) -> Bool {
        !isAbsent && begins(name, with: graph)
    }
}

/// In place of a drafter where a bundle has none: the 256 bytes as a vocabulary, without a graph. The vocabulary map
/// spells the target's tokens with them, and no session asks for a draft.
let noModel = ModelEntry(
    source: "none", architecture: "none", graph: "", tokenizer: "",
    kv: KvShape(numLayers: 1, numKvHeads: 1, headDim: 1, maxLength: 1), vocabSize: 256, quantization: "none",
    bosId: nil, eosIds: [], parameters: 0, places: ByName(), fingerprint: nil, lora: nil,
    layout: .shared, train: nil,
    tokenizerFingerprint: "0864c10eb9f122e7b9dfef5a287f4fb7c610b310847c0c41656e0656a9b0b03e", compiledTokenizer: nil)

/// The part of a manifest for one model.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readEntry(_ data: JsonObject) throws -> ModelEntry {
    let places = try data.given("npu").map { try readPlaces(mapping($0)) } ?? ByName()
    let lora = try data.given("lora").map { try loraOf(mapping($0)) }
    if lora == nil && places.values.contains(where: { $0.loraRank != nil }) {
        throw ValueError("static graphs for adapters without the field lora")
    }
    let vocabSize = try integer(data.at("vocab_size"), in: 1...BundleLimits.maxVocabulary)
    let kv = try kvOf(mapping(data.at("kv")))
    let layout = try layoutOf(data["layout"])
    if kv.type != .float32 && layout != .shared {
        throw ValueError("\(kv.type.rawValue) keys and values are for graphs of layout shared")
    }
    func tokenId(_ value: JsonValue) throws -> Int32 { Int32(try integer(value, in: 0...(vocabSize - 1))) }
    return ModelEntry(
        source: try text(data.at("source"), most: BundleLimits.maxSource),
        architecture: try text(data.at("architecture"), most: BundleLimits.maxSource),
        graph: try text(data.at("graph"), most: BundleLimits.maxPath),
        tokenizer: try text(data.at("tokenizer"), most: BundleLimits.maxPath),
        kv: kv,
        vocabSize: vocabSize,
        quantization: try text(data.at("quantization"), most: BundleLimits.maxName),
        bosId: try data.orNull("bos_id").map(tokenId),
        eosIds: try array(data.at("eos_ids"), most: BundleLimits.maxEos).map(tokenId),
        parameters: try integer(data.at("parameters"), in: 0...mostExact),
        places: places,
        fingerprint: try data.given("fingerprint").map { try hexadecimal($0, 64) },
        lora: lora,
        layout: layout,
        train: try trainOf(data, lora),
        tokenizerFingerprint: try hexadecimal(data.at("tokenizer_fingerprint"), 64),
        compiledTokenizer: try data.given("compiled_tokenizer").map { try text($0, most: BundleLimits.maxPath) })
}

private func kvOf(_ data: JsonObject) throws -> KvShape {
    KvShape(
        numLayers: try integer(data.at("num_layers"), in: 1...BundleLimits.maxLayers),
        numKvHeads: try integer(data.at("num_kv_heads"), in: 1...BundleLimits.maxLayers),
        headDim: try integer(data.at("head_dim"), in: 1...BundleLimits.maxHeadDim),
        maxLength: try integer(data.at("max_length"), in: 1...BundleLimits.maxLength),
        type: try kvTypeOf(data["type"]))
}

private func kvTypeOf(_ value: JsonValue?) throws -> KvType {
    guard let value else { return .float32 }
    if value == .string(KvType.float32.rawValue) { return .float32 }
    if value == .string(KvType.float16.rawValue) { return .float16 }
    throw ValueError("\(quoted(value)) is not a type of keys and values, which is one of float32, float16")
}

private func trainOf(_ data: JsonObject, _ lora: LoraSites?) throws -> StepEntry? {
    guard let train = data.given("train") else { return nil }
    let step = try readStep(mapping(train))
    guard let lora, data.given("fingerprint") != nil else {
        throw ValueError("a training step without the fields lora and fingerprint")
    }
    try checkLayout(step, lora)
    return step
}

private func loraOf(_ data: JsonObject) throws -> LoraSites {
    let sites = try mapping(data.at("sites"), most: BundleLimits.maxSites).members.map { name, site in
        (try text(.string(name), most: BundleLimits.maxName), try siteOf(mapping(site)))
    }
    if sites.isEmpty { throw ValueError("LoRA without a site") }
    let rank = try data.orNull("rank").map { try integer($0, in: 1...BundleLimits.maxRank) }
    return LoraSites(rank: rank, sites: ByName(sites))
}

private func siteOf(_ data: JsonObject) throws -> Site {
    let parts = try array(data.at("parts"), most: BundleLimits.maxParts, least: 1).map { part in
        let pair = try array(part, most: 2, least: 2)
        let width = try integer(pair[1], in: 1...BundleLimits.maxWidth)
        return Site.Part(name: try text(pair[0], most: BundleLimits.maxName), width: width)
    }
    return Site(inputs: try integer(data.at("inputs"), in: 1...BundleLimits.maxWidth), parts: parts)
}

private func layoutOf(_ value: JsonValue?) throws -> Layout {
    guard let value else { return .shared }
    if value == .string(Layout.shared.rawValue) { return .shared }
    if value == .string(Layout.concat.rawValue) { return .concat }
    throw ValueError("\(quoted(value)) is not a layout, which is one of shared, concat")
}
