@testable import OmniDraft

/// A vocabulary map with random spellings of 1 to 4 draft tokens, which often begin alike. Some target tokens have none,
/// and some are aliases, whose spelling is that of another one.
///
/// - Parameters:
///   - drafts: width of the drafter's logits.
///   - targets: width of the target's logits.
func randomMap(_ random: SplitMix64, drafts: Int = 12, targets: Int = 40) -> VocabMap {
    func below(_ count: Int) -> Int { Int(random.uniform() * Double(count)) }
    let spelled: [[Int32]] = (0..<targets).map { _ in
        below(8) == 0 ? [] : (0...below(4)).map { Int32(below($0 == 0 ? drafts : min(3, drafts))) }
    }
    var seen: Set<[Int32]> = []
    let firsts = spelled.indices.filter { !spelled[$0].isEmpty && seen.insert(spelled[$0]).inserted }
    let leaves = firsts.sorted { spelled[$0].lexicographicallyPrecedes(spelled[$1]) }.map(Int32.init)
    var direct = [Int32](repeating: -1, count: drafts)
    for leaf in leaves where spelled[Int(leaf)].count == 1 { direct[Int(spelled[Int(leaf)][0])] = leaf }
    let expansions: [[Int32]] = (0..<drafts).map { _ in
        below(4) == 0 ? [Int32(below(targets)), Int32(below(targets))] : []
    }
    return VocabMap(
        targetBytes: Ragged(rows: spelled), direct: direct, spellings: Ragged(rows: spelled),
        expansions: Ragged(rows: expansions), leaves: leaves, draftAllowed: [Bool](repeating: true, count: drafts),
        draftFingerprint: String(repeating: "d", count: 64), targetFingerprint: String(repeating: "e", count: 64))
}
