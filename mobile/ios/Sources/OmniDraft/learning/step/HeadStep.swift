// Inputs of the training graph of the adaptive head, and its vector as a head (spec/14-train-step.md, head.onnx).

/// Inputs of the graph, padded to the longest response.
///
/// - Parameter responses: at least one draw in total.
func headBatch(_ responses: [Aligned]) -> Arrays {
    let examples = responses.map(headExample)
    return Arrays([
        ("input_ids", stacked(examples.map { $0.draftIds.map(Int64.init) }, fill: 0)),
        ("positions", stacked(examples.map { $0.positions.map(Int64.init) }, fill: 0)),
        ("known", known(examples)),
        ("said", stacked(examples.map { $0.nextIds.map(Int64.init) }, fill: -1)),
        ("longer", longer(examples)),
    ])
}

/// The head in a vector.
///
/// - Throws: ``OmniDraftError/adapter(_:)``: the vector holds a value that is not finite, or is of another head.
func headOf(_ vector: [Float], _ layout: StepLayout, _ shape: HeadShape) throws -> Head {
    let sizes = shape.sizes
    var tensors = ByName<FloatTensor>()
    for span in layout.spans() {
        guard let shape = sizes[span.name] else { preconditionFailure("a head has no \(span.name)") }
        tensors[span.name] = FloatTensor(shape: shape, values: Array(vector[span.begin..<span.end]))
    }
    return try Head(tensors)
}

/// The vector of a head; zeros where there is no head, which means undecided and not "never stop".
func headVector(_ head: Head?, _ layout: StepLayout) -> [Float] {
    var vector = [Float](repeating: 0, count: layout.size)
    guard let head else { return vector }
    for span in layout.spans() {
        guard let values = head.tensors[span.name]?.values, values.count == span.end - span.begin else {
            preconditionFailure("a head of this bundle has no \(span.name) of its size")
        }
        vector.replaceSubrange(span.begin..<span.end, with: values)
    }
    return vector
}

/// Rows as one table, each filled up to the longest, which is 1 at least.
private func stacked(_ rows: [[Int64]], fill: Int64) -> TypedArray {
    let widest = max(1, rows.map(\.count).max() ?? 0)
    let values = rows.flatMap { $0 + [Int64](repeating: fill, count: widest - $0.count) }
    return TypedArray(values, shape: [rows.count, widest])
}

private func known(_ examples: [HeadExample]) -> TypedArray {
    let widest = max(1, examples.map(\.positions.count).max() ?? 0)
    let values = examples.flatMap { example in (0..<widest).map { $0 < example.positions.count } }
    return TypedArray(values, shape: [examples.count, widest])
}

/// The longer draft tokens of each draw, [B, A, W].
private func longer(_ examples: [HeadExample]) -> TypedArray {
    let draws = max(1, examples.map(\.longer.count).max() ?? 0)
    let widest = max(1, examples.flatMap { $0.longer.map(\.count) }.max() ?? 0)
    let values = examples.flatMap { example in
        (0..<draws).flatMap { draw in
            let ids = draw < example.longer.count ? example.longer[draw].map(Int64.init) : []
            return ids + [Int64](repeating: -1, count: widest - ids.count)
        }
    }
    return TypedArray(values, shape: [examples.count, draws, widest])
}
