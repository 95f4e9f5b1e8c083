// The training step in the manifest: its graph, and the layout of the vector of trainable parameters.

/// The shape of a tensor of the vector.
struct Matrix: Sendable, Equatable {
    let rows: Int
    let columns: Int

    /// Number of values; both sizes are below 2^31.
    var size: Int { rows * columns }
}

/// Where a tensor lies in the vector: from `begin` to `end`, exclusive.
struct TensorSpan: Sendable {
    let name: String
    let begin: Int
    let end: Int
    let shape: Matrix
}

/// How the vector of trainable parameters is cut into tensors, one after another in row-major order.
struct StepLayout: Sendable, Equatable {
    /// Shape of each by name, `{site}.{part}.lora_a` and `.lora_b`, in order.
    let tensors: ByName<Matrix>

    /// Length of the vector, at most 2^53 - 1; a learner refuses one that no array holds.
    var size: Int { cappedSum(tensors.values.map { min($0.size, mostExact) }) }

    /// Name, place and shape of each tensor, of a vector that an array holds.
    func spans() -> [TensorSpan] {
        var at = 0
        return tensors.members.map { name, shape in
            let begin = at
            at = cappedSum([at, shape.size])
            return TensorSpan(name: name, begin: begin, end: at, shape: shape)
        }
    }
}

/// The training step of a bundle's drafter (spec/14-train-step.md).
struct StepEntry: Sendable, Equatable {
    /// Path in the bundle.
    let graph: String
    /// The folder that the paths of the graph's weights are relative to.
    let folder: String
    let rank: Int
    let layout: StepLayout
}

/// The object `train` of a drafter.
///
/// - Throws: ``ValueError``: a field is missing, of another kind, or out of its range.
func readStep(_ data: JsonObject) throws -> StepEntry {
    let layout = StepLayout(tensors: try tensorsOf(data.at("tensors")))
    return StepEntry(
        graph: try text(data.at("graph"), most: BundleLimits.maxPath),
        folder: try text(data.at("folder"), most: BundleLimits.maxPath),
        rank: try integer(data.at("rank"), in: 1...BundleLimits.maxRank), layout: layout)
}

private func tensorsOf(_ data: JsonValue) throws -> ByName<Matrix> {
    var tensors = ByName<Matrix>()
    for each in try array(data, most: BundleLimits.maxTensors) {
        let fields = try mapping(each)
        let name = try text(fields.at("name"), most: BundleLimits.maxTensorName)
        if tensors.has(name) { throw ValueError("two tensors \(quoted(.string(name)))") }
        let sizes = try array(fields.at("shape"), most: 2, least: 2).map { try integer($0, from: 1) }
        tensors[name] = Matrix(rows: sizes[0], columns: sizes[1])
    }
    if tensors.count == 0 { throw ValueError("a training step without tensors") }
    return tensors
}

/// The layout of LoRA of a rank at every part of a graph's sites.
func layoutOf(_ lora: LoraSites, rank: Int) -> StepLayout {
    var tensors = ByName<Matrix>()
    for (name, site) in lora.sites.members {
        for part in site.parts {
            tensors["\(name).\(part.name).lora_a"] = Matrix(rows: site.inputs, columns: rank)
            tensors["\(name).\(part.name).lora_b"] = Matrix(rows: rank, columns: part.width)
        }
    }
    return StepLayout(tensors: tensors)
}

/// Check that a step learns the tensors that the graph takes.
///
/// - Throws: ``ValueError``: the tensors differ.
func checkLayout(_ entry: StepEntry, _ lora: LoraSites) throws {
    if entry.layout.tensors != layoutOf(lora, rank: entry.rank).tensors {
        throw ValueError("the tensors of the training step are not those of lora")
    }
}
