import XCTest

@testable import OmniDraft

private let float32 = 1e-6

/// Runs `learner/calls`, `vector`, `guard` and `interval`: what a training step is given, and what follows.
final class LearningStepVectorsTests: VectorTestCase {
    func testCalls() throws {
        try run("learner/calls") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let responses = try given["responses"]!.array.map { try alignedOf($0.object) }
            let atOnce = given["at_once"]!.int
            let parts = stride(from: 0, to: responses.count, by: atOnce).map {
                stepBatch(Array(responses[$0..<min($0 + atOnce, responses.count)]))
            }
            try close("the scale", [stepScale(parts.map(\.weight))], [expected["scale"]!.num], float32)
            let calls = expected["calls"]!.array
            try same("calls", parts.count, calls.count)
            for (part, call) in zip(parts, calls) { try check(part.inputs, call.object) }
        }
    }

    func testVector() throws {
        try run("learner/vector") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let lora = loraSites(["sites": given["sites"]!])
            let rank = given["rank"]!.int
            let scale = given["alpha"]!.num / Double(rank)
            let layout = layoutOf(lora, rank: rank)
            let tensors = expected["tensors"]!.array.map(\.object)
            try same("names", layout.tensors.names, tensors.map { $0["name"]!.string })
            try same("shapes", layout.tensors.values.map { [$0.rows, $0.columns] }, tensors.map { $0["shape"]!.ints })
            let new = initialVector(layout, seed: given["seed"]!.bits)
            try close("the new vector", new.map(Double.init), expected["vector"]!.nums, 1e-7)
            let full = given["full"]!.floats
            let pairs = sitesOf(full, layout: layout, lora: lora, scale: scale)
            for (name, pair) in expected["adapter"]!.object.members {
                let site = try XCTUnwrap(pairs[name])
                try close("\(name) A", site.a.values.map(Double.init), flat(pair.object["lora_a"]!), float32)
                try close("\(name) B", site.b.values.map(Double.init), flat(pair.object["lora_b"]!), float32)
            }
            let adapter = try Adapter(
                base: String(repeating: "a", count: 64), draftTokenizer: String(repeating: "d", count: 64),
                targetTokenizer: String(repeating: "e", count: 64), tensors: pairs, created: "2026-01-02T03:04:05Z")
            let again = try vectorOf(adapter, layout: layout, lora: lora, scale: scale)
            try close("the vector again", again.map(Double.init), full.map(Double.init), float32)
        }
    }

    func testGuard() throws {
        try run("learner/guard") { vector in
            var judge = Guard(optionsOf(vector.input))
            let expected = vector.expected["verdicts"]!.array
            let intervals = vector.input["intervals"]!.array
            try same("intervals", intervals.count, expected.count)
            for (answers, wanted) in zip(intervals, expected) {
                for answer in countsOf(answers) { judge.observe(answer) }
                let verdict = judge.judge()
                try same("the verdict", verdict.rawValue, wanted.array[0].string)
                let kept = [judge.state.reference.count, judge.state.current.count]
                try same("reference and current", kept, wanted.array.dropFirst().map(\.int))
                judge = try restarted(judge)
            }
        }
    }

    func testInterval() throws {
        try run("learner/interval") { vector in
            let memory = vector.input["memory"]!.int
            var judge = Guard(optionsOf(vector.input))
            var progress = AdaptationProgress()
            let intervals = vector.input["intervals"]!.array.map(\.object)
            let expected = vector.expected["intervals"]!.array.map(\.object)
            try same("intervals", intervals.count, expected.count)
            for (index, (interval, wanted)) in zip(intervals, expected).enumerated() {
                for answer in countsOf(interval["answers"]!) {
                    judge.observe(answer)
                    progress.answered += 1
                    progress.pending.append(progress.answered)
                }
                var asked = judge  // a copy: deciding asks the guard once
                try same("the verdict of \(index)", asked.judge().rawValue, wanted["verdict"]!.string)
                let event = ended(&progress, &judge, memory, interval["outcome"]?.optional?.string)
                try same("the event of \(index)", event, wanted["event"]!.string)
                let values = progress.json
                for (name, value) in wanted.members where name != "verdict" && name != "event" {
                    try near("\(name) of \(index)", flat(try XCTUnwrap(values[name])), flat(value), 0)
                }
                judge = try restarted(judge)
                progress.guardState = judge.state
                let again = try AdaptationProgress(json: parseJson(stateJson(.object(progress.json))))
                try same("the progress read back", again, progress)
                progress = again
            }
        }
    }

    private func ended(
        _ progress: inout AdaptationProgress, _ judge: inout Guard, _ memory: Int, _ outcome: String?
    ) -> String {
        switch decide(&progress, &judge, memory: memory).decision {
        case .rollBack: return "rolled back"
        case .coolDown: return "rested"
        case .learn: if outcome == "learned" { takeUp(&progress) }
        }
        if let outcome, outcome != "not finite" { return outcome }
        rollBack(&progress, &judge, memory: memory)
        return "rolled back"
    }

    private func optionsOf(_ given: JsonObject) -> GuardOptions {
        let options = given["options"]!.object
        return GuardOptions(
            least: options["least"]!.int, window: options["window"]!.int, deviations: options["deviations"]!.num,
            fall: options["fall"]!.num)
    }

    private func countsOf(_ answers: JsonValue) -> [AnswerCounts] {
        answers.array.map { AnswerCounts(tokens: $0.ints[0], passes: $0.ints[1]) }
    }

    /// A guard that read the state of another one from JSON.
    private func restarted(_ judge: Guard) throws -> Guard {
        var again = Guard(judge.options)
        again.state = try GuardState(json: parseJson(stateJson(judge.state.json)))
        try same("the state read back", again.state, judge.state)
        return again
    }

    /// Names, types, shapes and values of a graph's inputs; its distributions are float32.
    private func check(_ inputs: Arrays, _ expected: JsonObject) throws {
        try same("inputs", inputs.names.sorted(), expected.names.sorted())
        for (name, value) in expected.members {
            let array = try XCTUnwrap(inputs[name])
            try same("the type of \(name)", array.type, typeOf(name))
            let wanted = flat(value)
            if wanted.isEmpty {  // no place: the width of its tables is open, at least 1
                try same("places of \(name)", array.shape[0], 0)
                try same("the widths of \(name)", array.shape.dropFirst().allSatisfy { $0 > 0 }, true)
                continue
            }
            try same("the shape of \(name)", array.shape, shapeOf(value))
            if !isTable(name, array) { try close(name, numbers(array), wanted, float32) }
        }
        try checkTable(inputs, expected)
    }

    /// The order of the ids of a distribution is open.
    private func checkTable(_ inputs: Arrays, _ expected: JsonObject) throws {
        let ids = try XCTUnwrap(inputs["trie.ids"])
        let probabilities = numbers(try XCTUnwrap(inputs["trie.probabilities"]))
        let all = zip(numbers(ids), probabilities).map { (id: $0, p: $1) }
        let width = ids.shape[1]
        let wanted = zip(expected["trie.ids"]!.array, expected["trie.probabilities"]!.array)
        for (index, (wantedIds, wantedP)) in wanted.enumerated() {
            let order = all[index * width..<(index + 1) * width].sorted { ($0.id, $0.p) < ($1.id, $1.p) }
            let want = zip(wantedIds.nums, wantedP.nums).sorted { ($0.0, $0.1) < ($1.0, $1.1) }
            try same("trie.ids[\(index)]", order.map(\.id), want.map(\.0))
            try close("trie[\(index)]", order.map(\.p), want.map(\.1), float32)
        }
    }

    private func isTable(_ name: String, _ array: TypedArray) -> Bool {
        array.shape.count == 2 && (name.hasSuffix(".ids") || name.hasSuffix(".probabilities"))
    }

    private func typeOf(_ name: String) -> String {
        switch name.split(separator: ".").last {
        case "probabilities", "other", "weights": return "F32"
        default: return "I64"
        }
    }
}

private func shapeOf(_ value: JsonValue) -> [Int] {
    guard case .array(let items) = value else { return [] }
    return [items.count] + (items.first.map(shapeOf) ?? [])
}

private func flat(_ value: JsonValue) -> [Double] {
    switch value {
    case .array(let items): return items.flatMap(flat)
    case .bool(let value): return [value ? 1 : 0]
    default: return [value.num]
    }
}

private func numbers(_ array: TypedArray) -> [Double] {
    switch array.values {
    case .floats(let values): return values.map(Double.init)
    case .longs(let values): return values.map(Double.init)
    case .bytes(let values): return values.map(Double.init)
    case .booleans(let values): return values.map { $0 ? 1 : 0 }
    }
}
