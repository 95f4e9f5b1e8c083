// Tokens that complete a text from each state of a grammar (spec/17-grammar.md).

/// Where the tokens cannot complete it.
let never = UInt16.max

/// Tokens of one way from each state to the end of its text or rule.
///
/// The way is that of the nearest moves. Its tokens are as few as possible, but one ends before a call and behind a rule.
func boundsOf(_ grammar: Grammar, _ trie: ByteTrie) -> [UInt16] {
    var bounds = [UInt16](repeating: never, count: grammar.closing.count)
    let moves = grammar.closing.indices.map(grammar.nearer)
    let order = grammar.closing.indices.sorted { (grammar.closing[$0], $0) < (grammar.closing[$1], $1) }
    for state in order {
        guard let first = moves[state] else {
            bounds[state] = 0  // an accepting state: the file was checked
            continue
        }
        // The first byte of a rule is written with what follows it in the rule.
        let least = leastOnWay(first, moves, trie, bounds)
        bounds[state] = UInt16(min(Int(least) + Int(first.back.map { bounds[Int($0)] } ?? 0), Int(never)))
    }
    return bounds
}

/// 1 plus the least bound of the places that tokens on a way lead to; the way ends at a call or an accepting state.
private func leastOnWay(
    _ first: NearerMove, _ moves: [NearerMove?], _ trie: ByteTrie, _ bounds: [UInt16]
) -> UInt16 {
    var (least, move, node) = (never, first, 0)
    while let child = trie.child(node, move.byte) {
        node = child
        let reached = bounds[Int(move.to)]
        if trie.isToken(node) && reached < least { least = reached + 1 }
        guard let next = moves[Int(move.to)], next.back == nil else { break }
        move = next
    }
    return least
}
