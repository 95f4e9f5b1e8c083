import XCTest

@testable import OmniDraft

private let float32 = 1e-6  // how far probabilities may be off in a runtime with weights in float32

/// Runs the vectors of the decoding rules that need no session.
final class DecodingVectorsTests: VectorTestCase {
    func testRandom() throws {
        try run("random") { vector in
            let (given, expected) = (vector.input, vector.expected)
            if let weights = given["weights"]?.nums {
                let uniforms = given["uniforms"]!.nums
                let distribution = Categorical(weights)
                let drawn = uniforms.map { distribution.draw($0, among: nil) }
                try same("indices", drawn, expected["indices"]!.int32s)
                let source = GivenUniforms(uniforms)
                let indices = uniforms.map { _ in source.categorical(weights, count: weights.count) }
                try same("indices of all options", indices, expected["indices"]!.ints)
            } else if let chances = given["bernoulli"]?.nums {
                let source = GivenUniforms(given["uniforms"]!.nums)
                try same("answers", chances.map(source.bernoulli), expected["answers"]!.array.map(\.bool))
                try source.finish()
            } else if let numbers = expected["u64"]?.array {
                let source = SplitMix64(given["seed"]!.bits)
                try same("u64", numbers.map { _ in source.nextU64() }, numbers.map(\.bits))
            } else {
                let source = SplitMix64(given["seed"]!.bits)
                let numbers = expected["uniforms"]!.nums
                try same("uniforms", numbers.map { _ in source.uniform() }, numbers)
            }
        }
    }

    func testSampling() throws {
        try run("sampling") { vector in
            let expected = vector.expected
            if let fault = expected["fault"]?.optional {
                try same("the fault", faultOf { _ = try distributionOf(vector.input) }, fault.string)
            } else {
                let distribution = try distributionOf(vector.input)
                let actual = (0..<distribution.size).map { distribution.probability(Int32($0)) }
                try close("probabilities", actual, expected["probabilities"]!.nums, float32)
            }
        }
    }

    func testLookup() throws {
        try run("lookup") { vector in
            let lookup = PromptLookup()
            let copies = vector.input["contexts"]!.array.map { lookup.find($0.int32s) }
            let tokens = copies.map { Array($0.tokens.prefix(vector.input["count"]!.int)) }
            try same("copies", tokens, vector.expected["copies"]!.array.map(\.int32s))
            try same("matches", copies.map(\.match), vector.expected["matches"]!.ints)
        }
    }

    func testTranslate() throws {
        try run("translate") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let trie = try cacheOf(given).trie
            let draft = given["draft"]!.int32s
            let (most, expand) = (given["max_tokens"]!.int, given["expand"]!.bool)
            let decisions = expected["decisions"]?.array
            let proposal =
                decisions == nil
                ? translateLongest(draft, trie, maxTokens: most, expand: expand)
                : translated(draft, trie, maxTokens: most, expand: expand)
            try same("tokens", proposal.tokens, expected["tokens"]!.int32s)
            try same("ends", proposal.ends, expected["ends"]!.ints)
            try same("used", proposal.used, expected["used"]!.int)
            if let decisions {
                try same("tail", proposal.tail.map { path(trie.map, $0) }, expected["tail"]!.optional?.int32s)
                try same("decisions", proposal.decisions.map { plain(trie.map, $0) }, decisions.map(plain))
            }
        }
    }

    func testVerify() throws {
        try run("verify") { vector in
            guard let rule = vector.input["rule"]?.string, let verifies = rules[rule] else {
                // A baseline, which this runtime does not have: there is no mode of this name to ask for.
                try same("the rule", vector.input["rule"]?.string ?? "paper", "paper")
                try same("the mode", GenerationConfig.Mode(rawValue: "paper"), nil)
                return
            }
            try checkVerdict(vector, verifies)
        }
    }

    func testDraftLength() throws {
        let usual = Defaults.blockUsualDraft
        try run("draft_length") { vector in
            let (given, expected) = (vector.input, vector.expected)
            let costs = costsOf(given["costs"]!.object)
            if let size = given["vocab_size"]?.int {
                let pays = blockPays(roundSeconds: costs.roundSeconds(usual), vocabSize: size)
                try same("verification", pays ? "block" : "token", expected["verification"]!.string)
            } else {
                try checkTexts(vector, costs)
            }
        }
    }
}

private func distributionOf(_ given: JsonObject) throws -> any Distribution {
    let row = given["logits"]!.floats
    let logits = Logits(row, width: row.count)
    if let banned = given["banned"] {
        return try draftDistribution(logits, row: 0, temperature: given["temperature"]!.num, banned: banned.int32s)
    }
    let sampling = try samplingOf(given["settings"]!.object)
    return try targetDistribution(logits, row: 0, sampling: sampling, context: given["context"]!.int32s)
}

/// The draft tokens that lead to a node.
private func path(_ map: VocabMap, _ node: Node) -> [Int32] {
    Array(map.spell(map.leaves[node.low]).prefix(node.depth))
}

private func plain(_ map: VocabMap, _ decision: Decision) -> [String: JsonValue] {
    var fields: [String: JsonValue] = ["row": .int(decision.row), "draft": .int(decision.draft)]
    func put(_ step: String, _ node: Node) {
        fields["step"] = .string(step)
        fields["path"] = ids(node)
    }
    func ids(_ node: Node) -> JsonValue { .array(path(map, node).map { .int(Int($0)) }) }
    switch decision.step {
    case .begin(let node, let excluded):
        put("begin", node)
        if let excluded { fields["excluded"] = ids(excluded) }
    case .goOn(let node, _): put("go on", node)
    case .end(let node): put("end", node)
    case .deadEnd(let node): put("dead end", node)
    case .expand(let token):
        fields["step"] = .string("expand")
        fields["target_id"] = .int(Int(token))
    }
    return fields
}

private func plain(_ value: JsonValue) -> [String: JsonValue] {
    Dictionary(uniqueKeysWithValues: value.object.members.map { ($0.name, $0.value) })
}

private typealias MakesProposer = @Sendable (Drafter, NgramCache) -> TrieProposer

private let rules: [String: MakesProposer] = [
    "token": { TrieProposer($0, $1, temperature: 1, verifier: verifyTokens) },
    "block": { TrieProposer($0, $1, temperature: 1, verifier: verifyBlock) },
    "match": { MatchProposer($0, $1, temperature: 1) },
]

private func checkVerdict(_ vector: Vector, _ proposerOf: MakesProposer) throws {
    let (given, expected) = (vector.input, vector.expected)
    let random = GivenUniforms(given["uniforms"]!.nums)
    let recorder = ContextRecorder(nil)
    let proposer = try proposerOf(recorder, cacheOf(given))
    let draft = Draft(tokens: given["draft"]!.int32s, distributions: distributions(given["q"]!))
    let proposal = proposer.translate(draft, room: 8)
    try same("proposal", proposal.tokens, given["proposal"]!.int32s)
    let verdict = try proposer.verify(
        draft, as: proposal, against: GivenRows(distributions(given["p"]!)), random: random)
    try random.finish()
    try same("accepted", verdict.accepted, expected["accepted"]!.int)
    try same("token", Int(verdict.token), expected["token"]!.int)
    try same("is_bonus", verdict.isBonus, expected["is_bonus"]!.bool)
    try same("evaluated", verdict.evaluated, expected["evaluated"]!.int)
    try same("accepted_drafts", verdict.acceptedDrafts, expected["accepted_drafts"]!.int)
    try same("target_rewind", proposal.tokens.count - verdict.accepted, expected["target_rewind"]!.int)
    var context: [Int32] = []
    let outcome = Outcome(draft: draft, proposal: proposal, verdict: verdict, emitted: verdict.tokens(proposal))
    _ = proposer.learn(outcome, &context)
    let plan = Plan(source: .draft, count: 1)
    _ = try proposer.propose(plan, copy: Copy(), context: context, random: GivenUniforms([]))
    let kept = given["draft"]!.int32s.dropLast(expected["draft_rewind"]!.int)
    try same("context", recorder.context, kept + expected["draft_append"]!.int32s)
}

private func distributions(_ rows: JsonValue) -> [any Distribution] { rows.array.map { Categorical($0.nums) } }

private func checkTexts(_ vector: Vector, _ costs: Costs) throws {
    var state = LengthState()
    let (texts, expected) = (vector.input["texts"]!.array, vector.expected["texts"]!.array)
    try same("the number of texts", texts.count, expected.count)
    for (text, due) in zip(texts, expected) {
        let context = text.object["context"]!.ints
        state.beginText(context[0], shared: context[1])
        let length = MeasuredLength(costs, state, drafts: vector.input["drafts"]!.bool, copies: true)
        let plans = text.object["records"]!.array.flatMap { driven(length, $0.array) }
        let duePlans = due.object["plans"]!.array.flatMap { row in
            [JsonValue](repeating: .array(Array(row.array.dropFirst())), count: row.array[0].int)
        }
        try same(
            "plans", plans.map { .array([.string($0.source.rawValue), .int($0.count), .bool($0.fresh)]) }, duePlans)
        try checkLast(plans.last { $0.source == .draft }, due.object["last_draft"]!)
        state = length.state
        try checkState(state, due.object["state"]!.object)
    }
}

/// The plans of a round that is repeated.
private func driven(_ length: MeasuredLength, _ record: [JsonValue]) -> [Plan] {
    (0..<record[0].int).map { _ in
        let plan = length.next(record[1].int)
        length.record(
            RoundCounts(
                classes: record[2].ints, evaluated: record[3].int, accepted: record[4].int, emitted: record[5].int,
                match: record[1].int, agreed: record[6].int))
        return plan
    }
}

/// Where the last draft of a text would have ended.
private func checkLast(_ plan: Plan?, _ due: JsonValue) throws {
    try same("a draft was planned", plan != nil, due != .null)
    guard let plan else { return }
    for (name, list) in [("chances", plan.chances), ("worth", plan.worth), ("least", plan.least)] {
        try close(name, list, due.object[name]!.nums)
    }
}

private func checkState(_ state: LengthState, _ expected: JsonObject) throws {
    let lists = [
        "seen": state.seen, "evaluated": state.evaluated, "accepted": state.accepted,
        "compared": state.compared, "agreed": state.agreed,
        "drafts": [state.drafts], "targets": [state.targets], "idle": [Double(state.idle)],
        "unread": [Double(state.unread)], "written": [Double(state.written)], "share": [state.share],
    ]
    try same("the names of the state", lists.keys.sorted(), expected.names.sorted())
    for (name, actual) in lists {
        let due = expected[name]!
        if case .array = due { try close(name, actual, due.nums) } else { try close(name, actual, [due.num]) }
    }
}

private final class ContextRecorder: Drafter, @unchecked Sendable {
    var context: [Int32] = []

    override func propose(
        _ context: [Int32], plan: Plan, temperature: Double, banned: [Int32], random: any RandomSource,
        allowed: Allowed? = nil
    ) throws -> Draft {
        self.context = context
        return Draft()
    }
}

private final class GivenRows: Probs {
    private let rows: [any Distribution]

    init(_ rows: [any Distribution]) { self.rows = rows }

    func callAsFunction(_ row: Int) throws -> any Distribution { rows[row] }
}
