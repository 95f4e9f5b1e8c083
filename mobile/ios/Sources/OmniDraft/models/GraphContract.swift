// The inputs and outputs of a graph against what the manifest says of it; spec/03-bundle.md, "The graph".

private let any = -1  // a size that passes choose
private let megabyte = 1_000_000
private let mostShown = 120

/// What a graph of layout `shared` takes and gives, without adapters.
struct SharedValues {
    let inputs: [GraphValue]
    let outputs: [GraphValue]

    init(_ kv: KvShape, vocabSize: Int) {
        let buffer = kv.sizes
        let names = kvNames(kv.numLayers)
        inputs =
            [
                GraphValue(name: "input_ids", type: .int64, shape: [1, any]),
                GraphValue(name: "seqlens_k", type: .int32, shape: [1]),
                GraphValue(name: "total_sequence_length", type: .int32, shape: [1]),
                GraphValue(name: "num_logits", type: .int64, shape: [1]),
            ] + names.map { GraphValue(name: pastName($0), type: kv.type.element, shape: buffer) }
        outputs =
            [GraphValue(name: "logits", type: .float32, shape: [1, any, vocabSize])]
            + names.map { GraphValue(name: presentName($0), type: kv.type.element, shape: buffer) }
    }
}

extension KvShape {
    var sizes: [Int] { [1, numKvHeads, maxLength, headDim] }
}

/// Inputs for the adapters that a manifest names.
func adapterValues(_ lora: LoraSites?) -> [GraphValue] {
    var values: [GraphValue] = []
    for (name, site) in lora?.sites.members ?? [] {
        let rank = lora?.rankOf(name) ?? any
        values.append(GraphValue(name: aName(name), type: .float32, shape: [site.inputs, rank]))
        values.append(GraphValue(name: bName(name), type: .float32, shape: [rank, site.outputs]))
    }
    return values
}

/// The names of the keys and values of every layer, after `past_key_values.` and `present.`.
func kvNames(_ numLayers: Int) -> [String] { (0..<numLayers).flatMap { ["\($0).key", "\($0).value"] } }

func pastName(_ name: String) -> String { "past_key_values.\(name)" }
func presentName(_ name: String) -> String { "present.\(name)" }

/// Memory of zeros for the keys and values of every layer, in the order of ``kvNames(_:)``.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `memory`: the system refuses to promise that much.
func kvBuffers(_ kv: KvShape) throws -> [EngineMemory] {
    // The manifest bounds each size, so the product fits 64 bits.
    let bytes = kv.sizes.reduce(kv.type.element.size, *)
    return try kvNames(kv.numLayers).map { _ in
        if let memory = EngineMemory(bytes) { return memory }
        let message =
            "the keys and values of \(kv.maxLength) positions take \(kv.bytes / megabyte) MB, "
            + "which this device does not give"
        throw bundleError("memory", message, "export again with a smaller --max-length")
    }
}

/// Refuses a graph that lacks one of these inputs or outputs, or has it of another type or shape.
///
/// - Parameter values: what it must have.
/// - Throws: ``OmniDraftError/bundle(_:)`` `graph`.
func checkValues(_ path: String, _ graph: any EngineGraph, _ values: SharedValues) throws {
    try checkEach(path, "input", values.inputs, graph.inputs)
    try checkEach(path, "output", values.outputs, graph.outputs)
}

/// Refuses a graph with an input that nothing feeds, or without the adapters of the manifest.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` `graph`.
func checkAdapters(_ path: String, _ graph: any EngineGraph, known: [GraphValue], _ adapters: [GraphValue]) throws {
    let fed = Set(known.map { Array($0.name.utf8) })
    let named = Set(adapters.map { Array($0.name.utf8) })
    let needed = graph.inputs.filter { !fed.contains(Array($0.name.utf8)) }
    for input in needed where !named.contains(Array(input.name.utf8)) {
        throw refused(path, "it has an input \(quoted(.string(input.name))), which the manifest does not name")
    }
    let own = byName(needed + graph.defaults)
    for value in adapters {
        guard let found = own[value.name] else {
            throw refused(path, "it has no input '\(value.name)', which the manifest names")
        }
        try check(path, "its input '\(value.name)'", found, value)
    }
}

private func checkEach(_ path: String, _ what: String, _ wanted: [GraphValue], _ found: [GraphValue]) throws {
    let own = byName(found)
    for value in wanted {
        guard let found = own[value.name] else { throw refused(path, "it has no \(what) '\(value.name)'") }
        try check(path, "its \(what) '\(value.name)'", found, value)
    }
}

private func byName(_ values: [GraphValue]) -> ByName<GraphValue> { ByName(values.map { ($0.name, $0) }) }

/// Compares an input or output; a size that the graph names, and does not fix, is left to the engine.
private func check(_ path: String, _ what: String, _ found: GraphValue, _ wanted: GraphValue) throws {
    let isSame =
        found.type == wanted.type && found.shape.count == wanted.shape.count
        && zip(found.shape, wanted.shape).allSatisfy { $0 == any || $0 == $1 }
    if isSame { return }
    let own = found.type.map { "\($0) \(found.shape)" } ?? "no tensor of a known type"
    let expected = wanted.type.map { "\($0) \(wanted.shape)" } ?? ""
    throw refused(path, "\(what) is \(own.prefix(mostShown)) where the manifest gives \(expected)")
}

private func refused(_ path: String, _ why: String) -> OmniDraftError {
    let message = "\(path) does not fit the manifest: \(why)"
    return bundleError("graph", message)
}
