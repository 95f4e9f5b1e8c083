// The target's distribution over *draft* tokens at each position of a draft context (spec/13-learner.md).

private let nothing = 1e-12  // mass below which a conditional distribution is rounding

/// A distribution over draft tokens and OTHER, of sum 1.
struct DraftDistribution: Sendable {
    let ids: [Int32]
    let probabilities: [Double]
    /// Probability of OTHER, all draft tokens that are not listed.
    let other: Double
    /// Probability that the target continues with a token that the drafter can write.
    var weight = 1.0

    /// The `count` most likely ids (ties: the first); the mass of the others moves to OTHER.
    func top(_ count: Int) -> DraftDistribution {
        if ids.count <= count { return self }
        let kept = likeliest(probabilities, count)
        let listed = kept.map { probabilities[$0] }
        let lost = probabilities.reduce(0, +) - listed.reduce(0, +)
        return DraftDistribution(
            ids: kept.map { ids[$0] }, probabilities: listed, other: other + max(lost, 0), weight: weight)
    }
}

/// The places of the largest numbers, ascending; of equal numbers the first.
private func likeliest(_ numbers: [Double], _ count: Int) -> [Int] {
    if count <= 0 { return [] }
    let least = numbers.sorted()[numbers.count - count]
    var ties = count - numbers.count { $0 > least }
    return numbers.indices.filter { index in
        if numbers[index] != least { return numbers[index] > least }
        ties -= 1
        return ties >= 0
    }
}

/// The trie with every spelling active, as with a prefilled cache.
func fullTrie(_ map: VocabMap) -> ActiveTrie {
    let trie = ActiveTrie(map)
    trie.activateAll(map.leaves.indices.filter { map.leafLengths[$0] > 1 })
    return trie
}

/// The node of some draft tokens; nil if the trie does not have it, or for none.
func nodeOf(_ trie: ActiveTrie, _ spelling: some Collection<Int32>) -> Node? {
    guard let first = spelling.first else { return nil }
    var node = trie.root(first)
    for token in spelling.dropFirst() { node = node.flatMap { trie.child($0, token) } }
    return node
}

/// At the start of a spelling: the mass below each child of the root; nil where that mass is 0.
func rootDistribution(_ trie: ActiveTrie, _ rows: TargetRows, _ row: Int) -> DraftDistribution? {
    let sums = byToken(leavesOf(trie, rows, row)) { trie.map.leafFirsts[$0] }
    let rest = rows.rest[row]
    let total = sums.masses.reduce(0, +) + rest
    if total <= nothing { return nil }
    return DraftDistribution(
        ids: sums.ids, probabilities: sums.masses.map { $0 / total }, other: rest / total, weight: min(total, 1))
}

/// Inside a spelling: P(child | node), and P(END | node) as OTHER; nil where the row lists nothing below the node.
///
/// The draft token after an END is unknown, because the target continued with another token than the one that ends
/// here.
func insideDistribution(_ trie: ActiveTrie, _ rows: TargetRows, _ row: Int, _ node: Node) -> DraftDistribution? {
    let places = leavesOf(trie, rows, row).filter { $0.leaf >= node.low && $0.leaf < node.high }
    let mass = places.reduce(0.0) { $0 + $1.probability }
    if mass <= nothing { return nil }
    func ends(_ place: (leaf: Int, probability: Double)) -> Bool { Int(trie.map.leafLengths[place.leaf]) == node.depth }
    let ended = places.filter(ends).reduce(0.0) { $0 + $1.probability }
    let sums = byToken(places.filter { !ends($0) }) { trie.map.piece($0, node.depth) }
    return DraftDistribution(ids: sums.ids, probabilities: sums.masses.map { $0 / mass }, other: ended / mass)
}

/// Right after the token that a node spells, emitted at `row`: the target could have continued to a child.
///
/// Children have P(child | node). All other draft tokens have P(END | node) times the next row's root distribution
/// (`following`) outside the children, renormalised: a draft token that is a child is never read as the start of a new
/// spelling (`E` of spec/04-speculation.md).
func afterDistribution(
    _ trie: ActiveTrie, _ rows: TargetRows, _ row: Int, _ node: Node, _ following: DraftDistribution?
) -> DraftDistribution? {
    guard let inside = insideDistribution(trie, rows, row, node) else { return following }
    guard let following else {  // after the END comes a token that the drafter cannot write
        let total = inside.probabilities.reduce(0, +)
        if total <= nothing { return nil }
        let probabilities = inside.probabilities.map { $0 / total }
        return DraftDistribution(ids: inside.ids, probabilities: probabilities, other: 0, weight: total)
    }
    let children = trie.children(node).tokens  // ascending
    let outside = following.ids.indices.filter { index in
        let place = lowerBound(children, following.ids[index])
        return place == children.count || children[place] != following.ids[index]
    }
    let left = outside.reduce(0.0) { $0 + following.probabilities[$1] } + following.other
    let ended = inside.other * following.weight
    let weight = 1 - inside.other + ended
    if weight <= nothing { return nil }
    let share = left > nothing ? ended / weight / left : 0
    return DraftDistribution(
        ids: inside.ids + outside.map { following.ids[$0] },
        probabilities: inside.probabilities.map { $0 / weight } + outside.map { following.probabilities[$0] * share },
        other: left > nothing ? following.other * share : ended / weight, weight: weight)
}

/// The leaves of the active tokens in a row, in trie order, with the probabilities of their tokens.
private func leavesOf(_ trie: ActiveTrie, _ rows: TargetRows, _ row: Int) -> [(leaf: Int, probability: Double)] {
    var found: [(leaf: Int, probability: Double)] = []
    for (id, probability) in zip(rows.ids[row], rows.probabilities[row]) {
        let leaf = Int(trie.map.leafOf[Int(id)])
        if leaf >= 0 && trie.active[leaf] { found.append((leaf, probability)) }
    }
    return found.sorted { $0.leaf < $1.leaf }
}

/// The sums of the probabilities by draft token; in trie order the tokens ascend, at one depth of one node.
private func byToken(
    _ leaves: [(leaf: Int, probability: Double)], _ token: (Int) -> Int32
) -> (ids: [Int32], masses: [Double]) {
    var ids: [Int32] = []
    var masses: [Double] = []
    for each in leaves {
        let id = token(each.leaf)
        if ids.last != id {
            ids.append(id)
            masses.append(0)
        }
        masses[masses.count - 1] += each.probability
    }
    return (ids, masses)
}
