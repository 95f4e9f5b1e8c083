import Foundation

// From logits to distributions: drafting, verification, correction and bonus use the same probabilities
// (spec/04-speculation.md, section 2).

private let coldest = 1e-4
private let smallestDivisor = Float.leastNormalMagnitude  // the inverse of it is finite

/// How a row of logits becomes the target's distribution.
///
/// The steps are taken in the order of transformers: repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingConfig: Sendable, Equatable {
    /// Divides the logits; 0 takes the argmax after the penalty (ties: lowest id).
    let temperature: Double
    /// Number of the most probable tokens to keep (ties: lowest ids first); 0 keeps all.
    let topK: Int
    /// Of those, in order of falling probability (ties: lowest ids first), keep each token before which less than this
    /// share of their mass comes; 1 keeps all.
    let topP: Double
    /// Of those, keep each token with at least this share of the largest probability; 0 keeps all.
    let minP: Double
    /// Divides the positive and multiplies the negative logits of every id in the context, prompt included; 1 changes
    /// nothing.
    let repetitionPenalty: Double

    /// - Throws: ``OmniDraftError/setting(_:)``: a value outside its range.
    init(
        temperature: Double = 0, topK: Int = 0, topP: Double = 1, minP: Double = 0, repetitionPenalty: Double = 1
    ) throws {
        self.temperature = try checkTemperature(temperature)
        self.topK = topK
        self.topP = topP
        self.minP = minP
        self.repetitionPenalty = repetitionPenalty
        if topK < 0 { throw settingError("topK \(topK) is less than 0", "use 0 to keep all tokens, 40 is usual") }
        if !(topP > 0 && topP <= 1) {
            throw settingError("topP \(topP) is outside 0 < topP <= 1", "use 1 to keep all tokens, 0.95 is usual")
        }
        if !(minP >= 0 && minP <= 1) {
            throw settingError("minP \(minP) is outside 0..1", "use 0 to keep all tokens, 0.05 is usual")
        }
        if !(repetitionPenalty > 0 && repetitionPenalty < .infinity) {
            let message = "repetitionPenalty \(repetitionPenalty) is not a number above 0"
            throw settingError(message, "use 1 for none, 1.1 is usual")
        }
    }
}

/// The distribution of one row of logits.
///
/// - Parameter allowed: which ids may come at all; nil allows all.
/// - Throws: ``OmniDraftError/bundle(_:)`` with the fault `logits`.
func targetDistribution(
    _ logits: Logits, row: Int, sampling: SamplingConfig, context: some Collection<Int32> = [],
    workspace: Workspace = Workspace(), allowed: Mask? = nil
) throws -> any Distribution {
    let width = logits.width
    var numbers = logits.row(row)
    var room: Row?
    let isPenalised = sampling.repetitionPenalty != 1 && !context.isEmpty
    if isPenalised || allowed != nil {
        let changed = workspace.row(width)
        copyRow(numbers, width, allowed, into: changed.numbers)
        if isPenalised { penalise(changed.numbers, width, Float(sampling.repetitionPenalty), context) }
        numbers = UnsafePointer(changed.numbers)
        room = changed
    }
    let best = argmax(numbers, width)
    let largest = numbers[best]
    try checkFinite(largest, "target")
    if sampling.temperature == 0 { return OneHot(token: Int32(best), size: width) }
    let weights = room ?? workspace.row(width)
    let blocks = exponentials(
        numbers, size: width, largest: largest, temperature: divisor(sampling.temperature), into: weights.numbers)
    let isWhole = !truncate(weights.numbers, width, sampling, workspace)
    return Categorical(weights, width, workspace, blocks: isWhole ? blocks : nil)
}

/// Set the weights to 0 that top-k, top-p and min-p do not keep; false where the settings keep all.
private func truncate(
    _ weights: UnsafeMutablePointer<Float>, _ width: Int, _ sampling: SamplingConfig, _ workspace: Workspace
) -> Bool {
    let keepsNucleus = sampling.topK > 0 || sampling.topP < 1
    if keepsNucleus { keepNucleus(weights, width, sampling, workspace) }
    if sampling.minP > 0 {
        let least = Float(sampling.minP)  // the largest weight is exp(0) = 1 and always kept
        for id in 0..<width where weights[id] < least { weights[id] = 0 }
    }
    return keepsNucleus || sampling.minP > 0
}

/// The settings whose distribution log-probabilities are of.
///
/// Above temperature 0 they are the settings themselves. At temperature 0 the distribution is certain, so
/// log-probabilities are of the softmax of the penalised logits.
func scoring(_ sampling: SamplingConfig) throws -> SamplingConfig {
    if sampling.temperature > 0 { return sampling }
    return try SamplingConfig(temperature: 1, repetitionPenalty: sampling.repetitionPenalty)
}

/// The target's distribution after a number of proposed tokens.
protocol Probs: AnyObject {
    func callAsFunction(_ row: Int) throws -> any Distribution
}

/// The target's distributions of one pass; each is computed when it is first asked for.
///
/// They live until the next round: it borrows the same memory.
final class TargetProbs: Probs {
    /// The last n + 1 - c rows of a pass over the last token and n proposed ones.
    let logits: Logits
    private let sampling: SamplingConfig
    private let context: [Int32]
    private let workspace: Workspace
    private let allowed: (Int) -> Mask?
    private let certain: [Int32]
    private var rows: [(any Distribution)?]

    /// - Parameters:
    ///   - context: target ids before the last row: all so far, and the n proposed ones. Only the repetition penalty reads
    ///     it; without one it may be empty.
    ///   - allowed: which ids may follow a row's tokens; nil allows all.
    ///   - certain: the first c proposed tokens, which nothing else may replace; they have no row of logits.
    init(
        _ logits: Logits, sampling: SamplingConfig, context: [Int32], workspace: Workspace = Workspace(),
        allowed: @escaping (Int) -> Mask? = { _ in nil }, certain: [Int32] = []
    ) {
        self.logits = logits
        self.sampling = sampling
        self.context = context
        self.workspace = workspace
        self.allowed = allowed
        self.certain = certain
        rows = [(any Distribution)?](repeating: nil, count: certain.count + logits.rows)
    }

    /// The distribution of the token after `row` proposed tokens.
    func callAsFunction(_ row: Int) throws -> any Distribution {
        if let known = rows[row] { return known }
        if row < certain.count {
            return OneHot(token: certain[row], size: logits.width, isCertain: sampling.temperature == 0)
        }
        let at = row - certain.count
        // The usual case needs no context.
        let before = sampling.repetitionPenalty == 1 ? [] : context[..<(context.count - logits.rows + 1 + at)]
        let distribution = try targetDistribution(
            logits, row: at, sampling: sampling, context: before, workspace: workspace, allowed: allowed(row))
        rows[row] = distribution
        return distribution
    }

    /// Natural log-probability of each emitted token under its row; see ``scoring(_:)`` for temperature 0.
    func logprobs(_ emitted: [Int32]) throws -> [Double] {
        let probs =
            sampling.temperature > 0
            ? self
            : TargetProbs(
                logits, sampling: try scoring(sampling), context: context, workspace: workspace, allowed: allowed,
                certain: certain)
        return try emitted.enumerated().map { log(try probs($0).probability($1)) }
    }
}

/// Apply the repetition penalty to every distinct id of a context.
private func penalise(
    _ logits: UnsafeMutablePointer<Float>, _ size: Int, _ penalty: Float, _ context: some Collection<Int32>
) {
    var seen = IdSet(size)
    for id in context where !seen.contains(id) {
        seen.add(id)
        let logit = logits[Int(id)]
        logits[Int(id)] = logit > 0 ? logit / penalty : logit * penalty
    }
}

/// The drafter's distribution of one row, without the ids that it may not propose.
///
/// - Parameters:
///   - banned: draft ids that are never drawn.
///   - allowed: which ids may come at all; nil for all that are not banned.
///   - isConfident: whether the confidence is computed at temperature 0; otherwise it is 1 there.
/// - Throws: ``OmniDraftError/bundle(_:)`` with the fault `logits`.
func draftDistribution(
    _ logits: Logits, row: Int, temperature: Double, banned: [Int32], workspace: Workspace = Workspace(),
    allowed: Mask? = nil, isConfident: Bool = false
) throws -> any Distribution {
    let width = logits.width
    let numbers = logits.row(row)
    let isCertain = temperature == 0
    let best = argmax(numbers, width)
    try checkFinite(numbers[best], "drafter")
    let isBanned = banned.contains(Int32(best)) || allowed?.allows(Int32(best)) == false
    // A row of which only the argmax counts needs no copy.
    if isCertain && !isConfident && !isBanned { return OneHot(token: Int32(best), size: width) }
    let weights = workspace.row(width)
    copyRow(numbers, width, allowed, into: weights.numbers)
    for id in banned { weights.numbers[Int(id)] = -.infinity }
    let token = isBanned ? argmax(weights.numbers, width) : best
    let largest = weights.numbers[token]
    try checkFinite(largest, "drafter")
    if isCertain && !isConfident { return OneHot(token: Int32(token), size: width) }
    // Relative to the largest logit that is allowed: so the others keep weight where a banned one is much larger.
    let blocks = exponentials(
        weights.numbers, size: width, largest: largest, temperature: isCertain ? 1 : divisor(temperature),
        into: weights.numbers)
    if isCertain {
        return OneHot(
            token: Int32(token), size: width, confidence: Double(weights.numbers[token]) / blocks.reduce(0, +))
    }
    return Categorical(weights, width, workspace, blocks: blocks)
}

/// A temperature as a divisor of float32: neither 0 nor infinite.
private func divisor(_ temperature: Double) -> Float {
    min(max(Float(temperature), smallestDivisor), .greatestFiniteMagnitude)
}

private func checkFinite(_ largest: Float, _ role: String) throws {
    if largest.isFinite { return }
    let message = "the largest logit of the \(role) is \(largest), so nothing can be drawn"
    throw bundleError("logits", message, "use another bundle, or no adapter")
}

/// Refuse a temperature that is neither 0 nor large enough to divide float32 logits by.
///
/// - Throws: ``OmniDraftError/setting(_:)`` naming the value.
@discardableResult
func checkTemperature(_ temperature: Double) throws -> Double {
    if !temperature.isFinite || temperature < 0 {
        let remedy = "use 0 for greedy decoding, 1 for the model's own distribution"
        throw settingError("temperature \(temperature) is not a finite number >= 0", remedy)
    }
    if temperature > 0 && temperature < coldest {
        throw settingError("temperature \(temperature) is below \(coldest)", "use 0 for greedy decoding")
    }
    return temperature
}
