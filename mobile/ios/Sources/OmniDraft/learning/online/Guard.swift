// A statistical test of whether an adapter drafts worse than the one before (spec/13-learner.md, The guard).

/// What the guard says of the adapter in use; the raw value is its name in vectors.
enum GuardVerdict: String, Sendable { case good, unsure, worse }

struct AnswerCounts: Sendable, Equatable {
    let tokens: Int
    /// Target passes, 1 or more.
    let passes: Int
}

/// When an adapter counts as worse.
struct GuardOptions: Sendable, Equatable {
    /// Answers in a window before it is judged, 2 or more.
    var least = Defaults.learnerGuardLeast
    /// Answers in a window at most.
    var window = Defaults.learnerGuardWindow
    /// Confidence as one-sided normal standard deviations; 3.3 is wrong 1 time in 2,000.
    var deviations = Defaults.learnerGuardDeviations
    /// The smallest decrease that counts, as a share of the value before.
    var fall = Defaults.learnerGuardFall
}

/// The recorded answers of a guard: those before the last "good", and those since.
struct GuardState: Sendable, Equatable {
    var reference: [AnswerCounts] = []
    var current: [AnswerCounts] = []

    private static let most = 4096  // answers that a file may hold in one list; more than any window

    init() {}

    /// Reads back what ``json`` gave.
    ///
    /// - Throws: ``ValueError``: it is another value.
    init(json: JsonValue) throws {
        let fields = try mapping(json)
        reference = try answers(fields.at("reference"), most: Self.most)
        current = try answers(fields.at("current"), most: Self.most)
    }

    var json: JsonValue { ["reference": jsonOf(reference), "current": jsonOf(current)] }

    private func jsonOf(_ answers: [AnswerCounts]) -> JsonValue {
        .array(answers.map { .array([.int($0.tokens), .int($0.passes)]) })
    }
}

private func answers(_ value: JsonValue, most: Int) throws -> [AnswerCounts] {
    try array(value, most: most).map { each in
        let pair = try array(each, most: 2, least: 2).map { try integer($0, from: 1) }
        return AnswerCounts(tokens: pair[0], passes: pair[1])
    }
}

/// Compares the answers since the last change that was found good with the answers before it.
///
/// A window is good if it is not lower than the reference, or if it is full and not significantly lower. A window that
/// is not lower joins the reference. A single unlucky sample therefore passes, and a series of small losses does not.
struct Guard: Sendable {
    let options: GuardOptions
    /// The recorded answers; those of another guard may be put in.
    var state = GuardState()

    init(_ options: GuardOptions = GuardOptions()) { self.options = options }

    /// Record one answer: emitted tokens, and target passes (1 or more).
    mutating func observe(_ answer: AnswerCounts) { state.current.append(answer) }

    /// Judge the adapter in use by the answers since the last "good"; called at the end of an interval.
    mutating func judge() -> GuardVerdict {
        let (reference, current) = (state.reference, state.current)
        if current.count < options.least { return .unsure }
        if reference.isEmpty { return good(current) }
        if isWorse(reference, current, deviations: options.deviations, fall: options.fall) { return .worse }
        if ratioOf(current) >= ratioOf(reference) { return good(reference + current) }
        // Slightly lower, or chance: a full window is the new reference.
        return current.count >= options.window ? good(current) : .unsure
    }

    /// Drop all answers, where they no longer predict those to come.
    mutating func forget() { state = GuardState() }

    private mutating func good(_ answers: [AnswerCounts]) -> GuardVerdict {
        state.reference = answers.suffix(options.window)
        state.current = []
        return .good
    }
}

/// Tokens per target pass over at least one answer.
func ratioOf(_ answers: [AnswerCounts]) -> Double {
    let tokens = answers.reduce(0) { $0 + $1.tokens }
    let passes = answers.reduce(0) { $0 + $1.passes }
    return Double(tokens) / Double(passes)
}

/// Whether tokens per target pass decreased significantly: Welch's test, one-sided, on two windows.
///
/// - Parameters:
///   - before: at least two answers.
///   - after: at least two answers.
func isWorse(
    _ before: [AnswerCounts], _ after: [AnswerCounts], deviations: Double = Defaults.learnerGuardDeviations,
    fall: Double = 0
) -> Bool {
    let lower = ratioOf(before) - ratioOf(after)
    if lower <= fall * ratioOf(before) { return false }
    let (a, b) = (variance(before), variance(after))
    if a + b == 0 { return true }
    let freedom = (a + b) * (a + b) / (a * a / Double(before.count - 1) + b * b / Double(after.count - 1))
    return lower > studentT(deviations, freedom) * (a + b).squareRoot()
}

/// The variance of the ratio of sums by linearisation (Cochran, Sampling Techniques, chapter 6).
private func variance(_ answers: [AnswerCounts]) -> Double {
    let ratio = ratioOf(answers)
    var (squares, passes) = (0.0, 0.0)
    for each in answers {
        let residual = Double(each.tokens) - ratio * Double(each.passes)
        squares += residual * residual
        passes += Double(each.passes)
    }
    let count = Double(answers.count)
    return squares * count / (count - 1) / (passes * passes)
}
