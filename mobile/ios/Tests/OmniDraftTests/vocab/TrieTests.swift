import XCTest

@testable import OmniDraft

/// The trie beside a plain search through all spellings, on random maps.
final class TrieTests: XCTestCase {
    func testNodesChildrenAndTargetsAreThoseOfTheActiveSpellings() {
        for seed in 0..<UInt64(60) {
            let random = SplitMix64(seed)
            let map = randomMap(random)
            let trie = ActiveTrie(map)
            let grams = map.leaves.indices.filter { map.leafLengths[$0] > 1 && random.uniform() < 0.5 }
            trie.activateAll(grams.enumerated().filter { $0.offset % 2 == 0 }.map(\.element))
            for (index, leaf) in grams.enumerated() where index % 2 == 1 {
                let at = trie.activate(leaf)
                XCTAssertEqual(trie.gramTargets[at], map.leaves[leaf])
            }
            for leaf in grams where random.uniform() < 0.25 { _ = trie.deactivate(leaf) }
            var active: [[Int32]: Int32] = [:]
            for target in map.leaves where trie.active[Int(map.leafOf[Int(target)])] {
                active[map.spell(target)] = target
            }
            let spelled = (0..<Int32(map.targetSize)).filter { trie.isSpelled($0) }
            XCTAssertEqual(Set(active.values), Set(spelled))
            for draft in 0..<Int32(map.draftSize) { check(trie, active, [draft], trie.root(draft)) }
        }
    }

    /// Compares a node, and all below it, with the spellings that begin as its path does.
    private func check(_ trie: ActiveTrie, _ active: [[Int32]: Int32], _ path: [Int32], _ node: Node?) {
        let below = active.filter { $0.key.starts(with: path) }
        XCTAssertEqual(node != nil, !below.isEmpty, "\(path)")
        guard let node else { return }
        XCTAssertEqual(Set(trie.targets(node)), Set(below.values))
        XCTAssertEqual(trie.terminal(node), active[path])
        XCTAssertEqual(trie.draftToken(node), path.last)
        let deeper = below.filter { $0.key.count > path.count }
        XCTAssertEqual(trie.goesOn(node), !deeper.isEmpty)
        let children = trie.children(node)
        XCTAssertEqual(children.tokens, Set(deeper.keys.map { $0[path.count] }).sorted())
        let owners = zip(children.targets, children.owner).map { ($0, children.tokens[$1]) }
        let due = Dictionary(uniqueKeysWithValues: deeper.map { ($0.value, $0.key[path.count]) })
        XCTAssertEqual(Dictionary(uniqueKeysWithValues: owners), due)
        for token in 0..<Int32(trie.map.draftSize) { check(trie, active, path + [token], trie.child(node, token)) }
    }

    func testSpelledTokensComeOnceEach() {
        let map = randomMap(SplitMix64(1))
        let trie = ActiveTrie(map)
        trie.activateAll([map.leaves.indices.first { map.leafLengths[$0] > 1 }].compactMap { $0 })
        XCTAssertEqual(trie.count, 1)
        var spelled: [Int32] = []
        trie.forEachSpelled { spelled.append($0) }
        XCTAssertEqual(spelled.sorted(), (0..<Int32(map.targetSize)).filter { trie.isSpelled($0) })
    }
}
