// Translate a draft into target tokens: walk the active trie and note the decision at every draft token
// (spec/04-speculation.md, section 4).

/// What the walk does at a draft token.
enum Step: Sendable, Equatable {
    /// At the root: the draft token begins the spelling of a node. It is known to be no child of `excluded` (`E`).
    case begin(Node, excluded: Node?)
    /// Inside `parent`: it goes on to a child.
    case goOn(Node, parent: Node)
    /// Inside a node: it does not go on, and the node is a whole token.
    case end(Node)
    /// Inside a node: it does not go on, and no token ends at the node; nothing is proposed.
    case deadEnd(Node)
    /// One of several target tokens that spell a long draft token.
    case expand(Int32)
}

/// One decision of the walk, which the verifier accepts or refuses.
struct Decision: Sendable, Equatable {
    let step: Step
    /// Index of the target row that verifies it: the number of target tokens proposed before it.
    let row: Int
    /// Index of the draft token, whose distribution q proposes it.
    let draft: Int
}

/// A draft in target tokens.
struct Proposal: Sendable {
    /// Proposed target ids, to be scored in one pass.
    private(set) var tokens: [Int32] = []
    /// In the order of verification.
    var decisions: [Decision] = []
    /// For each proposed token, the number of draft tokens that are used once it is accepted.
    private(set) var ends: [Int] = []
    /// The node that the draft ends in, and the bonus is drawn below it; nil where the bonus may be any token.
    var tail: Node?
    /// Number of draft tokens that the decisions cover.
    var used = 0

    /// Add a proposed token; `used` draft tokens are used up with it.
    mutating func emit(_ targetId: Int32, _ used: Int) {
        tokens.append(targetId)
        ends.append(used)
        self.used = max(self.used, used)
    }
}

/// Translate draft tokens into target tokens, as far as they lead.
///
/// - Parameter maxTokens: proposed target tokens at most. A draft token that would exceed it ends the walk. The draft
///   alone decides this, so the output's distribution is the same.
func translated(_ draft: [Int32], _ trie: ActiveTrie, maxTokens: Int, expand: Bool = true) -> Proposal {
    var walk = Walk(trie, maxTokens, expand)
    for (index, token) in draft.enumerated() {
        if !walk.take(token, index) { break }
    }
    return walk.end()
}

private struct Walk {
    private let trie: ActiveTrie
    private let maxTokens: Int
    private let expand: Bool
    private var proposal = Proposal()
    private var node: Node?
    private var excluded: Node?

    init(_ trie: ActiveTrie, _ maxTokens: Int, _ expand: Bool) {
        self.trie = trie
        self.maxTokens = maxTokens
        self.expand = expand
    }

    mutating func end() -> Proposal {
        proposal.tail = node
        return proposal
    }

    /// Go on with a draft token; false where the walk stops.
    mutating func take(_ token: Int32, _ index: Int) -> Bool {
        if let inside = node {
            if let child = trie.child(inside, token) {
                decide(.goOn(child, parent: inside), index)
                node = finish(child, index)
                return true
            }
            if !leave(inside, index) { return false }
        }
        return proposal.tokens.count < maxTokens && begin(token, index)
    }

    /// End the token of a node that the draft token does not lead on from; false in a dead end.
    private mutating func leave(_ inside: Node, _ index: Int) -> Bool {
        node = nil
        guard let ending = trie.terminal(inside) else {
            decide(.deadEnd(inside), index)
            proposal.used = index + 1
            return false
        }
        decide(.end(inside), index)
        proposal.emit(ending, index)
        excluded = inside
        return true
    }

    /// Begin a spelling, or an expansion; false where the draft token leads nowhere.
    private mutating func begin(_ token: Int32, _ index: Int) -> Bool {
        if let child = trie.root(token) {
            decide(.begin(child, excluded: excluded), index)
            node = finish(child, index)
        } else {
            let longer = expand ? trie.map.expansions.row(Int(token)) : []
            if longer.isEmpty || longer.count > maxTokens - proposal.tokens.count { return false }
            for targetId in longer {
                decide(.expand(targetId), index)
                proposal.emit(targetId, index + 1)
            }
        }
        excluded = nil
        return true
    }

    /// The node; or nil where nothing can follow in it: its token is emitted, without a decision.
    private mutating func finish(_ child: Node, _ index: Int) -> Node? {
        proposal.used = index + 1
        guard let ending = trie.terminal(child), !trie.goesOn(child) else { return child }
        proposal.emit(ending, index + 1)
        return nil
    }

    private mutating func decide(_ step: Step, _ index: Int) {
        proposal.decisions.append(Decision(step: step, row: proposal.tokens.count, draft: index))
    }
}

/// Translate left to right, the longest active spelling first.
///
/// Unlike the walk of ``translated(_:_:maxTokens:expand:)`` it may return to a shorter spelling where an n-gram was not
/// completed, so it proposes more tokens. The proposal does not have the distribution of the trie walk. So it serves rules
/// that need no such distribution: greedy and match.
func translateLongest(_ draft: [Int32], _ trie: ActiveTrie, maxTokens: Int, expand: Bool = true) -> Proposal {
    var proposal = Proposal()
    var at = 0
    while at < draft.count && proposal.tokens.count < maxTokens {
        let spelled = longest(draft, at, trie)
        let end = at + max(1, spelled?.length ?? 0)
        let tokens = spelled.map { [$0.target] } ?? (expand ? trie.map.expansions.row(Int(draft[at])) : [])
        if tokens.isEmpty || tokens.count > maxTokens - proposal.tokens.count { break }
        for token in tokens { proposal.emit(token, end) }
        at = end
    }
    return proposal
}

/// The longest target token that the draft spells from a place on, and the number of draft tokens that spell it.
private func longest(_ draft: [Int32], _ at: Int, _ trie: ActiveTrie) -> (target: Int32, length: Int)? {
    var best: (Int32, Int)?
    var node = trie.root(draft[at])
    while let inside = node {
        if let ending = trie.terminal(inside) { best = (ending, inside.depth) }
        let next = at + inside.depth
        node = next == draft.count ? nil : trie.child(inside, draft[next])
    }
    return best
}
