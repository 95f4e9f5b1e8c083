// Inputs of the training step's graph (spec/14-train-step.md).

private let leastWeight = 1e-6

/// The responses of one call of the graph.
struct StepBatch: Sendable {
    /// Of the graph, by name.
    let inputs: Arrays
    /// The sum of the weights of their distributions.
    let weight: Double
}

/// Inputs of one call of the graph.
func stepBatch(_ responses: [Aligned]) -> StepBatch {
    let batch = collate(responses)
    let trie = batch.trie
    let table = [trie.count, trie.width]
    let inputs = Arrays([
        ("input_ids", TypedArray(batch.inputIds, shape: [responses.count, batch.longest])),
        ("rows", TypedArray(batch.rows)), ("trie.rows", TypedArray(trie.rows)),
        ("trie.ids", TypedArray(trie.ids, shape: table)),
        ("trie.probabilities", TypedArray(trie.probabilities, shape: table)),
        ("trie.other", TypedArray(trie.other)), ("trie.weights", TypedArray(trie.weights)),
    ])
    return StepBatch(inputs: inputs, weight: trie.weights.reduce(0.0) { $0 + Double($1) })
}

/// The scale of the loss in every call of a step: 1 / the sum of the weights of its calls.
func stepScale(_ weights: [Double]) -> Double { 1 / max(weights.reduce(0, +), leastWeight) }
