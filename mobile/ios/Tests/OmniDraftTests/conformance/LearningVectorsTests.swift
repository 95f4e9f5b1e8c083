import XCTest

@testable import OmniDraft

/// Runs `learner/align` and `learner/trace`, training positions of responses and of recorded generations; `learner/mean`;
/// and `sync/compare`.
final class LearningVectorsTests: VectorTestCase {
    func testAlign() throws {
        try run("learner/align") { try check(alignedOf($0.input), $0.expected) }
    }

    func testTrace() throws {
        try run("learner/trace") { vector in
            let given = vector.input
            let trie = trieWith(try vectorMap(given["map"]!.string), given["active"]!.int32s)
            let files = given["files"]!.strings.map(vector.file)
            let aligner = TraceAligner(
                aligner: Aligner(trie: trie, maxLength: given["max_length"]!.int), start: given["start"]!.int32s)
            var responses: [Aligned] = []
            let traces: TraceSource = { try readTraces(files, Vocabularies(trie.map), $0) }
            try fromTraces(traces, aligner: aligner) { responses.append($0) }
            let expected = vector.expected["responses"]!.array
            try same("responses", responses.count, expected.count)
            for (response, each) in zip(responses, expected) { try check(response, each.object) }
        }
    }

    func testMean() throws {
        try run("learner/mean") { vector in
            var mean = RunningMean()
            let steps = vector.input["steps"]!.array
            for (step, expected) in zip(steps, vector.expected["means"]!.array) {
                if let values = step.optional?.floats {
                    mean.add(ByName([("tensor", FloatTensor(shape: [values.count], values: values))]))
                }
                let actual = mean.tensors["tensor"]?.values.map(Double.init)
                try same("whether there is a mean", actual == nil, expected.isNull)
                if let actual { try near("the mean", actual, expected.nums, 1e-6, relative: 1e-5) }
            }
            try same("steps", mean.steps, steps.filter { !$0.isNull }.count)
        }
    }

    func testCompare() throws {
        try run("sync/compare") { vector in
            if vector.input["counts"] != nil { try interval(vector) } else { try acceptance(vector) }
        }
    }

    private func interval(_ vector: Vector) throws {
        let (given, expected) = (vector.input, vector.expected)
        let (low, high) = confidenceInterval(given["differences"]!.nums, given["counts"]!.nums)
        if expected["low"]!.isNull {
            try same("the interval", [low, high], [-.infinity, .infinity])
        } else {
            try close("the interval", [low, high], [expected["low"]!.num, expected["high"]!.num])
        }
    }

    private func acceptance(_ vector: Vector) throws {
        let given = vector.input
        let logits = given["logits"]!.floats
        let allowed = given["allowed"]!.ints.map { $0 == 1 }
        let q = probabilities(Logits(logits, width: logits.count), 0, allowed)
        let distributions = SparseDistributions(
            rows: [0], ids: [given["ids"]!.int32s], probabilities: [given["probabilities"]!.nums],
            other: [given["other"]!.num], weights: [given["weight"]!.num])
        let actual = overlap(q, distributions, 0, inside: given["inside"]!.bool)
        try close("the acceptance", [actual], [vector.expected["acceptance"]!.num])
    }

    private func check(_ response: Aligned, _ expected: JsonObject) throws {
        try same("draft ids", response.draftIds, expected["draft_ids"]!.int32s)
        try same("the prompt's length", response.promptLength, expected["prompt_length"]!.int)
        try same("tokens", response.tokens, expected["tokens"]!.int32s)
        try same("rows", response.rows, expected["rows"]!.ints)
        let (actual, distributions) = (response.trieDistributions, expected["trie"]!.array.map(\.object))
        try same("rows of the distributions", actual.rows, distributions.map { $0["row"]!.int })
        for (index, distribution) in distributions.enumerated() {
            let order = actual.ids[index].indices.sorted { actual.ids[index][$0] < actual.ids[index][$1] }
            try same("ids of \(index)", order.map { actual.ids[index][$0] }, distribution["ids"]!.int32s)
            let probabilities = order.map { actual.probabilities[index][$0] }
            try close("distribution \(index)", probabilities, distribution["probabilities"]!.nums)
            let sums = [distribution["other"]!.num, distribution["weight"]!.num]
            try near("other and weight of \(index)", [actual.other[index], actual.weights[index]], sums, 1e-12)
        }
    }
}

func alignedOf(_ given: JsonObject) throws -> Aligned {
    let trie = trieWith(try vectorMap(given["map"]!.string), given["active"]!.int32s)
    let distributions = given["distributions"]!.array.map(\.object)
    let rows = try TargetRows(
        ids: distributions.map { $0["ids"]!.int32s }, probabilities: distributions.map { $0["probabilities"]!.nums },
        rest: distributions.map { $0["rest"]!.num })
    let aligner = Aligner(trie: trie, maxLength: given["max_length"]!.int, keep: given["keep"]!.int)
    return try aligner.align(
        given["prompt"]!.int32s, tokens: given["tokens"]!.int32s, rows: rows)
}

/// Throws unless two lists of numbers agree: each to a tolerance, and to a share of the expected number.
func near(
    _ what: String, _ actual: [Double], _ expected: [Double], _ tolerance: Double, relative: Double = 0
) throws {
    try same("the length of \(what)", actual.count, expected.count)
    for (a, b) in zip(actual, expected) where !(abs(a - b) <= tolerance + relative * abs(b)) {
        throw VectorFailure(description: "\(what) is \(a) and not \(b)")
    }
}
