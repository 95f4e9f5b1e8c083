@testable import OmniDraft

/// A vocabulary map of spec/vectors/maps.
func vectorMap(_ name: String) throws -> VocabMap {
    let content = try jsonOf("maps/\(name).json").object
    return VocabMap(
        targetBytes: Ragged(rows: content["target_bytes"]!.array.map { $0.hex.map(Int32.init) }),
        direct: content["direct"]!.int32s,
        spellings: Ragged(rows: content["spellings"]!.array.map(\.int32s)),
        expansions: Ragged(rows: content["expansions"]!.array.map(\.int32s)),
        leaves: content["leaves"]!.int32s,
        draftAllowed: content["draft_allowed"]!.array.map { $0 == .bool(true) || $0 == .integer(1) },
        draftFingerprint: content["draft_fingerprint"]!.string,
        targetFingerprint: content["target_fingerprint"]!.string)
}

/// The trie of a map with some n-grams active, by their target ids.
func trieWith(_ map: VocabMap, _ active: [Int32]) -> ActiveTrie {
    let trie = ActiveTrie(map)
    trie.activateAll(active.map { Int(map.leafOf[Int($0)]) })
    return trie
}
