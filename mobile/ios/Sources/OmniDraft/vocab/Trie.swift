// The spellings of all target tokens as one sorted array. A node of its trie is a run of leaves that share their first
// `depth` draft tokens, so the trie needs no memory beyond the map. The n-gram cache decides which leaves are *active*.

/// Leaves `low` until `high`, whose spellings agree in their first `depth` draft tokens.
struct Node: Sendable, Equatable {
    let low: Int
    let high: Int
    let depth: Int
}

/// Active children of a node.
struct Children: Sendable, Equatable {
    /// The distinct draft tokens, ascending.
    let tokens: [Int32]
    /// The active target tokens below them.
    let targets: [Int32]
    /// For each target token the index of its child in `tokens`.
    let owner: [Int]
}

/// The trie over the active leaves: direct pairs always, n-grams once learned. One thread uses it.
final class ActiveTrie {
    let map: VocabMap
    private(set) var active: [Bool]
    /// Whether some active spelling begins with each draft token.
    private(set) var rootMask: [Bool]
    /// Target tokens of the active n-grams, ascending.
    private(set) var gramTargets: [Int32] = []
    /// The first draft token of the spelling of each of `gramTargets`.
    private(set) var gramFirsts: [Int32] = []

    init(_ map: VocabMap) {
        self.map = map
        active = map.leafLengths.map { $0 == 1 }
        rootMask = map.direct.map { $0 >= 0 }
    }

    var count: Int { gramTargets.count }
    /// Draft ids of the direct pairs, ascending.
    var directDrafts: [Int32] { map.directDrafts }
    /// Target ids of the direct pairs.
    var directTargets: [Int32] { map.directTargets }

    /// Activates the leaf of an n-gram, which is inactive, and returns its index in `gramTargets`.
    func activate(_ leaf: Int) -> Int {
        precondition(!active[leaf])
        let at = lowerBound(gramTargets, map.leaves[leaf])
        gramTargets.insert(map.leaves[leaf], at: at)
        gramFirsts.insert(map.leafFirsts[leaf], at: at)
        setActive(leaf)
        return at
    }

    /// Activates many leaves of n-grams at once; they are distinct and inactive.
    func activateAll(_ leaves: [Int]) {
        for leaf in leaves {
            precondition(!active[leaf])
            setActive(leaf)
        }
        gramTargets = (gramTargets + leaves.map { map.leaves[$0] }).sorted()
        gramFirsts = gramTargets.map { map.leafFirsts[Int(map.leafOf[Int($0)])] }
    }

    /// Deactivates the leaf of an n-gram, and returns the index that it had in `gramTargets`.
    func deactivate(_ leaf: Int) -> Int {
        let first = Int(map.leafFirsts[leaf])
        let at = lowerBound(gramTargets, map.leaves[leaf])
        precondition(at < count && gramTargets[at] == map.leaves[leaf])
        gramTargets.remove(at: at)
        gramFirsts.remove(at: at)
        active[leaf] = false
        let leaves = Int(map.firstOffsets[first])..<Int(map.firstOffsets[first + 1])
        rootMask[first] = map.direct[first] >= 0 || anyActive(leaves.lowerBound, leaves.upperBound)
        return at
    }

    /// The child of the root for a draft token, if an active spelling begins with it.
    func root(_ token: Int32) -> Node? {
        if !rootMask[Int(token)] { return nil }
        return Node(low: Int(map.firstOffsets[Int(token)]), high: Int(map.firstOffsets[Int(token) + 1]), depth: 1)
    }

    /// The child of an inner node for a draft token, if an active spelling continues with it.
    func child(_ node: Node, _ token: Int32) -> Node? {
        let first = bound(node, below(node), token, includes: false)
        let last = bound(node, first, token, includes: true)
        return anyActive(first, last) ? Node(low: first, high: last, depth: node.depth + 1) : nil
    }

    /// The target token spelled exactly by the path to a node, if it is active; else nil.
    func terminal(_ node: Node) -> Int32? {
        active[node.low] && Int(map.leafLengths[node.low]) == node.depth ? map.leaves[node.low] : nil
    }

    func draftToken(_ node: Node) -> Int32 { map.piece(node.low, node.depth - 1) }

    func goesOn(_ node: Node) -> Bool { anyActive(below(node), node.high) }

    /// Active target tokens at or below a node, in trie order.
    func targets(_ node: Node) -> [Int32] { activeTargets(node.low, node.high) }

    func children(_ node: Node) -> Children {
        var tokens: [Int32] = []
        var owner: [Int] = []
        let low = below(node)
        for leaf in low..<node.high where active[leaf] {
            let token = map.piece(leaf, node.depth)
            if tokens.last != token { tokens.append(token) }
            owner.append(tokens.count - 1)
        }
        return Children(tokens: tokens, targets: activeTargets(low, node.high), owner: owner)
    }

    /// Calls `action` with each target token that has an active spelling: direct partners, then n-grams.
    func forEachSpelled(_ action: (Int32) -> Void) {
        for target in map.directTargets { action(target) }
        for target in gramTargets { action(target) }
    }

    func anyActive(_ low: Int, _ high: Int) -> Bool {
        var leaf = low
        while leaf < high {
            if active[leaf] { return true }
            leaf += 1
        }
        return false
    }

    private func setActive(_ leaf: Int) {
        active[leaf] = true
        rootMask[Int(map.leafFirsts[leaf])] = true
    }

    private func activeTargets(_ low: Int, _ high: Int) -> [Int32] {
        (low..<high).filter { active[$0] }.map { map.leaves[$0] }
    }

    /// The first leaf of a node whose spelling goes on behind the node.
    private func below(_ node: Node) -> Int { node.low + (Int(map.leafLengths[node.low]) == node.depth ? 1 : 0) }

    /// The first leaf of a node, from `low` on, that goes on with a larger draft token, or with `token` itself.
    private func bound(_ node: Node, _ low: Int, _ token: Int32, includes: Bool) -> Int {
        firstIndex(in: low..<node.high) {
            let piece = map.piece($0, node.depth)
            return piece < token || (includes && piece == token)
        }
    }
}
