// How much memory a call of the training step takes, before it is made. The figures are bounds over what the tests
// measured with the starter drafter; the step of another drafter may take less.

private let base = 96.0 * 1024 * 1024  // the session of the graph
private let weights = 8.0  // bytes of a parameter: float32, and what the gradient keeps of it
private let trained = 48.0  // bytes of a trained parameter: vectors, moments, gradient, and copies of them
private let row = 48.0  // bytes of a logit: logits, probabilities, gradients
private let hidden = 30.0  // bytes of a position for each input and output of a site
private let score = 64.0  // bytes of a head's score for a pair of positions: scores, probabilities, gradients
private let shortest = 16
private let megabyte = 1_000_000

/// The longest response with its prompt, in draft tokens, of which a call of the step fits the memory.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` with the fault `memory`: not even a short response fits.
func lengthWithin(_ bundle: ModelBundle, freeMemory: Int) throws -> Int {
    // The largest length whose bound fits; it grows with the length.
    let length =
        firstIndex(in: 1..<(bundle.drafter.kv.maxLength + 1)) { stepBytes(bundle, length: $0) <= freeMemory } - 1
    let least = min(shortest, bundle.drafter.kv.maxLength)  // a drafter may have fewer positions
    if length < least {
        let bytes = (stepBytes(bundle, length: least) + megabyte - 1) / megabyte
        let free = max(0, freeMemory) / megabyte
        let need = "a training step of \(split(bundle.path).name) takes \(grouped(bytes)) MB"
        throw bundleError("memory", "\(need) and \(grouped(free)) MB are free", "learn when other apps are closed")
    }
    return length
}

/// Bytes of a call of the step for one response of a length, at most 2^53 - 1.
func stepBytes(_ bundle: ModelBundle, length: Int) -> Int {
    let drafter = bundle.drafter
    let parameters = Double(drafter.train?.layout.size ?? 0)
    let widths = (drafter.lora?.sites.values ?? []).reduce(0.0) { $0 + Double($1.inputs) + Double($1.outputs) }
    let (sites, headDim) = (drafter.lora?.sites.members ?? [], Double(max(1, drafter.kv.headDim)))
    let heads = sites.reduce(0.0) { $0 + ($1.name.hasSuffix(".o") ? Double($1.value.inputs) / headDim : 0) }
    let (positions, fixed) = (Double(length), base + weights * Double(drafter.parameters) + trained * parameters)
    let each = row * Double(drafter.vocabSize) + hidden * widths + score * heads * positions
    let bytes = fixed + each * positions
    return Int(min(bytes, Double(mostExact)))
}
