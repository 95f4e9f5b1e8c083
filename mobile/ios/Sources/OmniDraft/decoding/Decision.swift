// P and Q of one decision: what the target would decide, and what the drafter offered (spec/04-speculation.md, sections 5
// and 6). The proposed option is looked up; all options of a row are computed only when a refusal needs them.

/// Replaces a divisor of zero, so that ratios stay finite.
let tiny = 1e-300
private let roundingRest = 1e-4  // the sum of many float32 probabilities is closer to 1 than this

/// P and Q of one decision.
protocol DecisionProbs {
    /// P(a) / Q(a) of the proposed option a; 0 where nothing is proposed.
    var ratio: Double { get }
    /// The target's distribution, of a decision between many options, for which rejection sampling pays; else nil.
    var wide: (any Distribution)? { get }
    /// P and Q of the option that a target token belongs to; asked only where ``wide`` is set.
    func ofToken(_ token: Int32) -> (p: Double, q: Double)
    /// P and Q of all options, until the next call for any decision of the round; the caller may overwrite Q.
    func options() -> Options
    /// A target token of an option, drawn from the target's distribution.
    func emit(_ option: Int, _ random: any RandomSource) -> Int32
}

extension DecisionProbs {
    var wide: (any Distribution)? { nil }
    func ofToken(_ token: Int32) -> (p: Double, q: Double) {
        preconditionFailure("rejection sampling is for decisions between many options")
    }
}

func decisionProbs(
    _ decision: Decision, q: any Distribution, p: any Distribution, trie: ActiveTrie, buffers: OptionBuffers
) -> any DecisionProbs {
    switch decision.step {
    case .expand(let proposed): return Expansion(proposed, p)
    case .begin(let node, let excluded): return Beginning(node, excluded, q, p, trie, buffers)
    case .goOn(let child, let parent): return Inside(parent, .child(trie.draftToken(child)), q, p, trie)
    case .end(let node): return Inside(node, .end, q, p, trie)
    case .deadEnd(let node): return Inside(node, .nothing, q, p, trie)
    }
}

/// A target token proposed with certainty; all other tokens make one option.
private struct Expansion: DecisionProbs {
    private let proposed: Int32
    private let p: any Distribution
    private let all: Options

    init(_ proposed: Int32, _ p: any Distribution) {
        self.proposed = proposed
        self.p = p
        all = Options(2)
        all.p.numbers[0] = p.probability(proposed)
        all.p.numbers[1] = p.massOutside(proposed)
        all.q.numbers[0] = 1
    }

    var ratio: Double { all.p.numbers[0] }
    func options() -> Options { all.fresh() }

    func emit(_ option: Int, _ random: any RandomSource) -> Int32 {
        option == 0 ? proposed : random.sample(p.without(proposed))
    }
}

/// A draft token that begins a spelling: q renormalised over the root's children minus E.
///
/// There is one option more than draft tokens: the target tokens without an active spelling. It is never proposed.
private struct Beginning: DecisionProbs {
    let ratio: Double
    private let q: any Distribution
    private let p: any Distribution
    private let trie: ActiveTrie
    private let buffers: OptionBuffers
    private let excluded: [Int32]
    private let possible: Double

    init(
        _ node: Node, _ excludedNode: Node?, _ q: any Distribution, _ p: any Distribution, _ trie: ActiveTrie,
        _ buffers: OptionBuffers
    ) {
        self.q = q
        self.p = p
        self.trie = trie
        self.buffers = buffers
        excluded = excludedNode.map { trie.children($0).tokens } ?? []
        possible = max(withMask(trie, buffers, excluded) { q.mass(under: $0) }, tiny)
        let token = trie.draftToken(node)
        let isPossible = trie.rootMask[Int(token)] && !excluded.contains(token)
        ratio = p.mass(trie.targets(node)) / max(isPossible ? q.probability(token) / possible : 0, tiny)
    }

    var wide: (any Distribution)? { p }

    func ofToken(_ token: Int32) -> (p: Double, q: Double) {
        let leaf = Int(trie.map.leafOf[Int(token)])
        // No active spelling: then Q is 0 and the value of P does not matter.
        if leaf < 0 || !trie.active[leaf] { return (1, 0) }
        let first = trie.map.leafFirsts[leaf]
        return (p.mass(trie.targets(root(first))), qOption(first))
    }

    func options() -> Options {
        let options = buffers.options()
        rootMasses(trie, p, buffers, options.p.numbers)
        let chances = options.q.numbers
        withMask(trie, buffers, excluded) { mask in
            for id in 0..<trie.map.draftSize {
                chances[id] = mask[id] > 0 ? q.probability(Int32(id)) / possible : 0
            }
        }
        chances[options.count - 1] = 0
        return options
    }

    func emit(_ option: Int, _ random: any RandomSource) -> Int32 {
        if option == trie.map.draftSize { return random.sample(p.without(buffers.spelled())) }
        return random.sample(p, among: trie.targets(root(Int32(option))))
    }

    private func root(_ token: Int32) -> Node {
        guard let node = trie.root(token) else { preconditionFailure("no active spelling begins with \(token)") }
        return node
    }

    private func qOption(_ token: Int32) -> Double {
        !trie.rootMask[Int(token)] || excluded.contains(token) ? 0 : q.probability(token) / possible
    }
}

/// Use the mask of the root without what is excluded.
private func withMask<T>(
    _ trie: ActiveTrie, _ buffers: OptionBuffers, _ excluded: [Int32], _ use: (UnsafePointer<Float>) -> T
) -> T {
    let mask = buffers.mask()
    for token in excluded { mask[Int(token)] = 0 }
    defer { for token in excluded { mask[Int(token)] = trie.rootMask[Int(token)] ? 1 : 0 } }
    return use(UnsafePointer(mask))
}

/// A draft token inside a node: it continues to a child, ends the target token, or fits neither.
private struct Inside: DecisionProbs {
    let ratio: Double
    private let p: any Distribution
    private let ending: Int32?
    private let children: Children
    private let all: Options

    /// What the draft token proposes.
    enum Proposed {
        case child(Int32)
        case end, nothing
    }

    init(_ node: Node, _ proposed: Proposed, _ q: any Distribution, _ p: any Distribution, _ trie: ActiveTrie) {
        self.p = p
        ending = trie.terminal(node)
        children = trie.children(node)
        all = inside(children, ending, q, p)
        let option: Int
        switch proposed {
        case .child(let token):
            guard let index = children.tokens.firstIndex(of: token) else {
                preconditionFailure("a spelling goes on to a child of its node")
            }
            option = index
        case .end: option = children.tokens.count
        case .nothing:
            ratio = 0
            return
        }
        ratio = all.p.numbers[option] / max(all.q.numbers[option], tiny)
    }

    func options() -> Options { all.fresh() }

    func emit(_ option: Int, _ random: any RandomSource) -> Int32 {
        if let ending, option == all.count - 1 { return ending }
        let below = zip(children.targets, children.owner).filter { $0.1 == option }.map(\.0)
        return random.sample(p, among: below)
    }
}

/// P and Q of the children of a node, and of its end where a token ends there.
private func inside(_ children: Children, _ ending: Int32?, _ q: any Distribution, _ p: any Distribution) -> Options {
    let options = Options(children.tokens.count + (ending == nil ? 0 : 1))
    let (theirs, ours) = (options.p.numbers, options.q.numbers)
    let last = options.count - 1
    for (target, owner) in zip(children.targets, children.owner) { theirs[owner] += p.probability(target) }
    for (index, token) in children.tokens.enumerated() { ours[index] = q.probability(token) }
    if let ending {  // the end is one more option, proposed whenever no child is
        theirs[last] = p.probability(ending)
        ours[last] = max(0, 1 - total(ours, last))
    }
    let sum = total(theirs, options.count)
    for index in 0..<options.count { theirs[index] /= sum }
    return options
}

private func total(_ numbers: UnsafePointer<Double>, _ count: Int) -> Double {
    var sum = 0.0
    for index in 0..<count { sum += numbers[index] }
    return sum
}

/// The target's mass below each child of the trie's root, one number for each draft token and one more: the mass of the
/// target tokens without an active spelling.
private func rootMasses(
    _ trie: ActiveTrie, _ distribution: any Distribution, _ buffers: OptionBuffers,
    _ masses: UnsafeMutablePointer<Double>
) {
    let count = trie.map.draftSize
    masses.update(repeating: 0, count: count + 1)
    for (draft, target) in zip(trie.directDrafts, trie.directTargets) {
        masses[Int(draft)] = distribution.probability(target)
    }
    for (first, target) in zip(trie.gramFirsts, trie.gramTargets) {
        masses[Int(first)] += distribution.probability(target)
    }
    if trie.directDrafts.count + trie.count < trie.map.targetSize {
        let rest = 1 - total(masses, count)
        // A rest that may be rounding alone would let a token of probability 0 be drawn.
        masses[count] = rest > roundingRest ? rest : distribution.massOutside(buffers.spelled())
    }
}

/// Replace a decision by a token drawn from max(0, reach P - Q), or skip it.
///
/// With S the sum of that residual, the decision is skipped with probability (1 - reach) / (S + 1 - reach) (the step back
/// of block verification, Sun et al., ICLR 2025). With reach 1, as in token-level verification, it is never skipped.
///
/// Where there are many options, one attempt of rejection sampling comes first: skip with 1 - reach, else draw a token of
/// the target's distribution and keep it with its share of the residual. An attempt that gives neither leaves the
/// distribution as it was to the full computation. Most attempts succeed, which saves a pass over both vocabularies.
///
/// - Returns: the token, or nil where the decision is skipped.
func resampleOrSkip(_ probs: any DecisionProbs, _ reach: Double, _ random: any RandomSource) -> Int32? {
    if let wide = probs.wide {
        if random.bernoulli(1 - reach) { return nil }
        let share: (Int32) -> Double = { token in
            let chances = probs.ofToken(token)
            return 1 - chances.q / max(reach * chances.p, tiny)
        }
        if let token = random.rejectionSample(wide, share) { return token }
    }
    let options = probs.options()
    let (theirs, residual) = (options.p.numbers, options.q.numbers)  // the residual takes the place of Q
    var excess = 0.0
    for index in 0..<options.count {
        residual[index] = max(0, reach * theirs[index] - residual[index])
        excess += residual[index]
    }
    let isEqual = excess == 0 && reach == 1  // P = Q up to rounding
    if isEqual { excess = 1 }
    if !random.bernoulli(excess / (excess + (1 - reach))) { return nil }
    let option = withExtendedLifetime(options) {
        random.categorical(UnsafePointer(isEqual ? theirs : residual), count: options.count)
    }
    return probs.emit(option, random)
}
