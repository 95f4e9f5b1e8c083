// The adaptive head's tensors as a value, and the shape that a graph takes (spec/11-adapter.md).
//
// acceptance = sigmoid(x w + b), x the drafter's last hidden state after blocks x + SiLU(x W), at the position that
// read a draft token. The head corrects the drafter's own confidence in that token: `chance` of both is the probability
// that the token is accepted, if those before it are.

/// Names of a head's tensors and of its output.
enum HeadNames {
    /// The names of a head's tensors begin with this.
    static let prefix = "head."
    static let weight = "head.weight"
    static let bias = "head.bias"
    /// The name of the output of the graph.
    static let output = "acceptance"

    /// The name of the graph's input for W of block i.
    static func block(_ i: Int) -> String { "head.blocks.\(i)" }

    fileprivate static let blocks = (0..<maxBlocks).map(block)
}

/// Blocks of a head at most.
let maxBlocks = 3
/// Bias of an untrained head: its sigmoid is 1 in float32, so the head stops no draft.
let neverStop: Float = 20

/// The probability that a draft token is accepted: the odds of both are multiplied.
///
/// - Parameters:
///   - acceptance: output of the head; 1 for an untrained head, and then nothing is refused.
///   - confidence: probability of the token in the drafter's distribution at temperature 1.
func chance(_ acceptance: Double, _ confidence: Double) -> Double {
    if acceptance >= 1 { return 1 }
    let forIt = acceptance * confidence
    let against = (1 - acceptance) * (1 - confidence)
    return forIt + against > 0 ? forIt / (forIt + against) : 0.5
}

/// The head that a graph takes: width of the hidden state, and number of blocks.
struct HeadShape: Sendable, Equatable {
    let hidden: Int
    let blocks: Int

    /// The shape of each tensor, by the names of the graph's inputs.
    var sizes: ByName<[Int]> {
        var sizes = ByName<[Int]>()
        for i in 0..<blocks { sizes[HeadNames.block(i)] = [hidden, hidden] }
        sizes[HeadNames.weight] = [hidden, 1]
        sizes[HeadNames.bias] = [1]
        return sizes
    }

    /// The tensors of a head that stops no draft.
    func untrained() -> ByName<FloatTensor> {
        var tensors = sizes.mapValues { FloatTensor(zeros: $0) }
        tensors[HeadNames.bias] = FloatTensor(shape: [1], values: [neverStop])
        return tensors
    }
}

/// The number of blocks of a head with these tensors.
///
/// - Throws: ``OmniDraftError/adapter(_:)`` `extra_tensor` or `missing_tensor`.
func checkHeadNames(_ names: [String]) throws -> Int {
    func has(_ name: String) -> Bool { names.contains { isSame($0, name) } }
    let known = HeadNames.blocks + [HeadNames.weight, HeadNames.bias]
    for name in names.sorted(by: precedes) where !known.contains(where: { isSame($0, name) }) {
        let message = "it has a tensor \(quoted(.string(name))), which no head has"
        throw OmniDraftError.adapter(Refusal(fault: "extra_tensor", message: message))
    }
    let blocks = HeadNames.blocks.filter(has).count
    for name in (0..<max(1, blocks)).map(HeadNames.block) + [HeadNames.weight, HeadNames.bias] where !has(name) {
        throw OmniDraftError.adapter(Refusal(fault: "missing_tensor", message: "its head has no '\(name)'"))
    }
    return blocks
}

/// A trained head.
struct Head: Sendable, Equatable {
    /// By the names of the graph's inputs: W of each block [hidden, hidden], w [hidden, 1] and b [1].
    let tensors: ByName<FloatTensor>
    /// The width and the number of blocks.
    let shape: HeadShape

    /// - Throws: ``OmniDraftError/adapter(_:)`` `missing_tensor`, `extra_tensor`, `shape` or `non_finite`.
    init(_ tensors: ByName<FloatTensor>) throws {
        let blocks = try checkHeadNames(tensors.names)
        let hidden = tensors[HeadNames.weight]?.shape.first ?? 0
        self.tensors = tensors
        shape = HeadShape(hidden: hidden, blocks: blocks)
        for (name, size) in shape.sizes.sorted { try checkTensor(name, size) }
    }

    private func checkTensor(_ name: String, _ size: [Int]) throws {
        guard let tensor = tensors[name], tensor.shape == size, shape.hidden > 0 else {
            let message = "\(name) has shape \(tensors[name]?.shape ?? []) in a head of width \(shape.hidden)"
            throw OmniDraftError.adapter(Refusal(fault: "shape", message: message))
        }
        if !tensor.values.allSatisfy(\.isFinite) {
            let message = "\(name) holds a value that is not finite"
            throw OmniDraftError.adapter(Refusal(fault: "non_finite", message: message))
        }
    }

    /// Refuse a graph that takes another head.
    ///
    /// - Throws: ``OmniDraftError/adapter(_:)`` `shape`.
    func checkFits(_ shape: HeadShape) throws {
        if self.shape == shape { return }
        let message =
            "its head has \(self.shape.blocks) blocks of width \(self.shape.hidden) and the model's graph takes "
            + "\(shape.blocks) of width \(shape.hidden)"
        throw OmniDraftError.adapter(Refusal(fault: "shape", message: message))
    }
}
