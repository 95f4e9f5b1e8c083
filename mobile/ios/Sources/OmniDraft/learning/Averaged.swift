// A learner whose adapter is a running average over its steps (spec/13-learner.md, Online).

private let prefix = "average."
private let stepsName = "average_steps"

/// Tensors averaged over steps.
struct RunningMean: Sendable {
    /// By name; none before the first step.
    private(set) var tensors = ByName<FloatTensor>()
    private(set) var steps = 0

    init(_ tensors: ByName<FloatTensor> = ByName(), steps: Int = 0) {
        self.tensors = tensors
        self.steps = steps
    }

    mutating func add(_ latest: ByName<FloatTensor>) {
        let share = Float(min(Defaults.learnerMeanKept, Double(steps) / (Double(steps) + 9)))
        for (name, tensor) in latest.members {
            tensors[name] = tensors[name].map { mixed($0, tensor, share) } ?? tensor
        }
        steps += 1
    }

    private func mixed(_ before: FloatTensor, _ latest: FloatTensor, _ share: Float) -> FloatTensor {
        let values = zip(before.values, latest.values).map { $0 * share + $1 * (1 - share) }
        return FloatTensor(shape: latest.shape, values: values)
    }
}

/// Wraps a learner and averages its tensors after each step.
final class AveragedLearner: Learner {
    let inner: any Learner
    private var mean = RunningMean()

    init(_ inner: any Learner) { self.inner = inner }

    var rate: Double {
        get { inner.rate }
        set { inner.rate = newValue }
    }

    /// Do one step and add its tensors to the average.
    ///
    /// - Throws: ``OmniDraftError/adapter(_:)`` with the fault `non_finite`.
    func learn(_ responses: [Aligned], _ budget: StepBudget) throws -> Learned? {
        let step = try inner.learn(responses, budget)
        if let step, !step.skipped { mean.add(tensorsOf(try inner.adapter())) }
        return step
    }

    /// The average; before the first step, the learner's initial adapter.
    func adapter() throws -> Adapter {
        let latest = try inner.adapter()
        if mean.tensors.count == 0 { return latest }
        let sites = latest.tensors.members.map { site, pair in
            (site, SitePair(a: mean.tensors[aName(site)] ?? pair.a, b: mean.tensors[bName(site)] ?? pair.b))
        }
        return try Adapter(
            base: latest.base, draftTokenizer: latest.draftTokenizer, targetTokenizer: latest.targetTokenizer,
            tensors: ByName(sites), created: latest.created)
    }

    func state() -> Arrays {
        var state = inner.state()
        for (name, tensor) in mean.tensors.members {
            state[prefix + name] = TypedArray(tensor.values, shape: tensor.shape)
        }
        state[stepsName] = TypedArray([Int64(mean.steps)])
        return state
    }

    /// Take over a ``state()``.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the state is of another learner; nothing changed.
    func restore(_ state: Arrays) throws {
        let expected = tensorsOf(try inner.adapter())
        var (averaged, rest) = (ByName<FloatTensor>(), Arrays())
        var found = 0
        for (name, array) in state.members {
            if begins(name, with: prefix) {
                found += 1
                let name = without(prefix, of: name)
                guard let values = array.floats, let tensor = expected[name], tensor.shape == array.shape else {
                    continue
                }
                averaged[name] = FloatTensor(shape: array.shape, values: values)
            } else if !isSame(name, stepsName) {
                rest[name] = array
            }
        }
        let fits = found == 0 || (averaged.count == found && found == expected.count)
        guard fits, let steps = state[stepsName]?.longs, steps.count == 1, steps[0] >= 0, steps[0] < 1 << 53 else {
            throw settingError(
                "the state of a learner averages \(found) tensors and this learner has \(expected.count) others",
                "go on with the LoRA rank that it was begun with")
        }
        try inner.restore(rest)
        mean = RunningMean(averaged, steps: Int(steps[0]))
    }
}

private func tensorsOf(_ adapter: Adapter) -> ByName<FloatTensor> {
    ByName(adapter.tensors.members.flatMap { [(aName($0.name), $0.value.a), (bName($0.name), $0.value.b)] })
}
