// A learner without a training package: the engine runs the training step of the bundle (spec/14-train-step.md).

private let countsName = "counts"

private let clipNorm = 1.0  // largest norm of the gradient
private let alpha = 32.0  // the scale of the adapter is alpha / rank
private let firstSeed: UInt64 = 0  // of the initial LoRA tensors

struct StepOptions: Sendable {
    /// Of AdamW with betas (0.9, 0.999).
    var learningRate = 1e-4
    var weightDecay = 0.01
    /// Responses in one call of the graph; a larger value takes more memory and slightly less time.
    var atOnce = 1
}

/// A drafter's LoRA tensors in training; see ``Learner``. One thread uses it at a time.
final class OrtLearner: Learner {
    let options: StepOptions
    var rate: Double
    /// Steps so far.
    private(set) var steps = 0
    /// Steps that were not finite and did not change the drafter.
    private(set) var skipped = 0
    private let bundle: ModelBundle
    private let map: VocabMap
    private let entry: StepEntry
    private let lora: LoraSites
    private let base: String
    private let scale: Double
    private let drafter: StepRun
    private let now: () -> String

    /// - Parameter adapter: to begin with, packed by a learner; new tensors from the seed when nil.
    init(
        _ engine: any InferenceEngine, bundle: ModelBundle, map: VocabMap, options: StepOptions = StepOptions(),
        adapter: Adapter? = nil, now: @escaping () -> String
    ) throws {
        guard let entry = bundle.drafter.train, let lora = bundle.drafter.lora, let base = bundle.drafter.fingerprint
        else {
            throw settingError("\(bundle.path) holds no training step", "export it again with --train-step")
        }
        try checkSize(bundle, entry.layout)
        let scale = alpha / Double(entry.rank)
        var begin = [Float]()
        if let adapter {
            let place = AdapterPlace(
                name: bundle.path, drafter: bundle.drafter, target: bundle.target,
                draftFingerprint: map.draftFingerprint, targetFingerprint: map.targetFingerprint)
            _ = try fit(adapter, in: place, as: .drafter)
            begin = try vectorOf(adapter, layout: entry.layout, lora: lora, scale: scale)
        } else {
            begin = initialVector(entry.layout, seed: firstSeed)
        }
        let content = try checkedStep(bundle, entry.graph, folder: entry.folder)
        let session = try bytesSession(
            engine, content, path: bundle.file(entry.graph), weights: joined(bundle.path, entry.folder),
            threads: 1)
        try checkUnchanged(bundle.places, bundle.stamps)  // the weights were read by their name
        drafter = try StepRun(session, begin, name: entry.graph)
        self.bundle = bundle
        self.map = map
        self.options = options
        self.entry = entry
        self.lora = lora
        self.base = base
        self.scale = scale
        self.now = now
        rate = options.learningRate
    }

    /// Steps that changed the drafter.
    var updates: Int64 { drafter.updates }

    /// Do one step on a batch of at least one response.
    func learn(_ responses: [Aligned], _ budget: StepBudget) throws -> Learned? {
        try check(responses)
        let groups = stride(from: 0, to: responses.count, by: options.atOnce).map {
            Array(responses[$0..<min($0 + options.atOnce, responses.count)])
        }
        let before = drafter.mark()
        let settings = settings(stepScale(groups.map { stepBatch($0).weight }))
        let parts = groups.map { group in { stepBatch(group).inputs } }
        guard let outcome = try drafter.run(parts, settings, budget) else { return nil }
        let loss: Double
        let norm: Double
        do {
            (loss, norm) = (try outcome.value("next_loss"), try outcome.value("norm"))
        } catch {
            drafter.revert(before)
            throw error
        }
        steps += 1
        if !outcome.applied { skipped += 1 }
        return Learned(step: steps, loss: loss, norm: norm, skipped: !outcome.applied)
    }

    func adapter() throws -> Adapter {
        try Adapter(
            base: base, draftTokenizer: map.draftFingerprint, targetTokenizer: map.targetFingerprint,
            tensors: sitesOf(drafter.parameters, layout: entry.layout, lora: lora, scale: scale), created: now())
    }

    func state() -> Arrays {
        var state = drafter.state()
        state[countsName] = TypedArray([Int64(steps), Int64(skipped)])
        return state
    }

    func restore(_ state: Arrays) throws {
        try drafter.check(state)
        guard let counts = state[countsName]?.longs, counts.count == 2, counts.allSatisfy({ $0 >= 0 && $0 < 1 << 53 })
        else {
            throw settingError("the state of a learner has no counts", "give the file that a learner wrote")
        }
        drafter.restore(state)
        steps = Int(counts[0])
        skipped = Int(counts[1])
    }

    private func settings(_ lossScale: Double) -> Arrays {
        Arrays([
            ("scale", TypedArray(one: lossScale)), ("learning_rate", TypedArray(one: rate)),
            ("weight_decay", TypedArray(one: options.weightDecay)), ("clip_norm", TypedArray(one: clipNorm)),
            ("lora_scale", TypedArray(one: scale)),
        ])
    }

    private func check(_ responses: [Aligned]) throws {
        if responses.isEmpty { throw settingError("a step was given no responses", "give at least one") }
        let longest = bundle.drafter.kv.maxLength
        for response in responses {
            let theirs = response.map
            if theirs.draftFingerprint != map.draftFingerprint || theirs.targetFingerprint != map.targetFingerprint {
                let message = "a response is of other tokenizers than those of the bundle"
                throw settingError(message, "align it with the bundle's vocabulary map")
            }
            if response.draftIds.count > longest {
                throw settingError(
                    "a response has \(response.draftIds.count) draft tokens and the drafter's context holds \(longest)",
                    "align with a maxLength of \(longest)")
            }
        }
    }
}

/// Refuse a vector that no phone's memory holds; the manifest is checked, but for this size.
private func checkSize(_ bundle: ModelBundle, _ layout: StepLayout) throws {
    if layout.size > mostParameters {
        throw settingError(
            "the training step of \(bundle.path) has \(layout.size) parameters, more than \(mostParameters)",
            "export it again with a lower train_rank in --config")
    }
}
