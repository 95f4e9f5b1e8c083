// The target's distributions along a response, whole or cut to the most likely tokens.

private let rounding = 1e-3  // a row of float16 or float32 probabilities sums to 1 within this

/// Row i is the target's distribution before its token i, at temperature 1.
struct TargetRows: Sendable {
    /// Distinct target ids of each row.
    let ids: [[Int32]]
    let probabilities: [[Double]]
    /// Probability of all ids that a row does not list; 0 where it lists every id.
    let rest: [Double]

    /// - Throws: ``OmniDraftError/setting(_:)``: the three differ in their sizes.
    init(ids: [[Int32]], probabilities: [[Double]], rest: [Double]) throws {
        let fits = ids.count == rest.count && ids.map(\.count) == probabilities.map(\.count)
        if !fits {
            let listed = "ids of \(ids.count) rows, probabilities of \(probabilities.count)"
            throw settingError("target rows have \(listed) and rest of \(rest.count)", "give as many of each")
        }
        self.ids = ids
        self.probabilities = probabilities
        self.rest = rest
    }

    var count: Int { ids.count }

    /// Whether every row is a distribution: finite, not negative, of sum 1.
    var areFinite: Bool {
        zip(probabilities, rest).allSatisfy { listed, rest in
            // As comparisons that NaN fails too.
            listed.allSatisfy { $0 >= 0 } && abs(listed.reduce(0, +) + rest - 1) < rounding
        }
    }
}
