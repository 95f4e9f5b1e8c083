import OmniDraftORT

@testable import OmniDraft

/// A model of a bundle with the fields that a test is about.
func modelEntry(
    _ role: String, vocabSize: Int, tokenizerFingerprint: String = "", fingerprint: String? = nil,
    lora: LoraSites? = nil
) -> ModelEntry {
    ModelEntry(
        source: role, architecture: "Table", graph: "\(role)/cpu/model.onnx", tokenizer: role,
        kv: KvShape(numLayers: 1, numKvHeads: 1, headDim: 1, maxLength: 64), vocabSize: vocabSize,
        quantization: "fp32", bosId: nil, eosIds: [], parameters: 1, places: ByName(),
        fingerprint: fingerprint, lora: lora, layout: .shared, train: nil,
        tokenizerFingerprint: tokenizerFingerprint, compiledTokenizer: nil)
}

/// A real session on the graphs of `generate`, of the bundle that a vector describes; its tokenizers are not used.
func tableSession(_ given: JsonObject) throws -> SessionCore {
    let map = try vectorMap(given["map"]!.string)
    let identity = given["identity"]!.object
    let hasNone = identity["drafter_adapter"]!.isNull && identity["target_adapter"]!.isNull
    try same("an identity without adapters", hasNone, true)
    let kv = KvShape(numLayers: 1, numKvHeads: 1, headDim: 1, maxLength: 64)
    let graph: (String, Int) throws -> SharedGraph = { role, size in
        try SharedGraph {
            try Graph(OrtEngine.shared(), path: "\(vectorRoot)/generate/\(role).onnx", kv: kv, vocabSize: size)
        }.ready()
    }
    let tokenizer = try Tokenizer(file: "\(vectorRoot)/tokenize/byte_level.tokenizer.bin")
    var bundle = ModelBundle(
        path: "vectors",
        target: modelEntry(
            "target", vocabSize: map.targetSize, tokenizerFingerprint: identity["target_fingerprint"]!.string),
        drafter: modelEntry(
            "drafter", vocabSize: map.draftSize, tokenizerFingerprint: identity["draft_fingerprint"]!.string),
        prompt: PromptTemplate(prefix: "", suffix: "", between: "", after: ""),
        costs: Costs(target: [0.001], draft: 0.001, host: 0), vocabMap: "map",
        manifest: JsonObject(), measuredOn: nil)
    bundle.files = ByName(
        identity["graphs"]!.object.members.map { ($0.name, FileRecord(sha256: $0.value.string, bytes: 1)) })
    let loaded = try LoadedBundle(
        bundle, target: try graph("target", map.targetSize), targetTokenizer: tokenizer, vocabMap: map,
        drafter: try graph("drafter", map.draftSize), drafterTokenizer: tokenizer, engine: OrtEngine.shared())
    return try SessionCore(loaded)
}
