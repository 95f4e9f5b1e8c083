// A response as training example of the adaptive head (spec/13-learner.md, "For head.onnx").
//
// At every row of a response the current drafter draws a token, as at run time after an accepted prefix. The label is
// the probability that this token is accepted. No draft of an earlier drafter is needed, so a response can be used
// again while the drafter changes.

/// One response with its draws. The chances that Python's example has too are read by the training side alone.
struct HeadExample: Sendable {
    /// Prompt and response in draft tokens.
    let draftIds: [Int32]
    /// Of the last token before each draw.
    let positions: [Int]
    /// The draft token that continues the response at each draw; -1 where the target's token is not active, so that no
    /// draft is correct.
    let nextIds: [Int32]
    /// Draft ids that write the next two or more target tokens at once, of each draw.
    let longer: [[Int32]]
}

/// The example of one response, with a draw at each of its draft tokens that has a distribution.
func headExample(_ response: Aligned) -> HeadExample {
    let known = knownRows(response)
    let rows = response.owners.indices.filter { known[$0] }
    let active = activeTokens(response, known)
    let longer = longerDrafts(response)
    return HeadExample(
        draftIds: response.draftIds, positions: rows.map { response.promptLength - 1 + $0 },
        nextIds: rows.map { active[response.owners[$0]] ? response.draftIds[response.promptLength + $0] : -1 },
        longer: rows.map { longer[$0] })
}

/// Which rows have a distribution.
private func knownRows(_ response: Aligned) -> [Bool] {
    var known = [Bool](repeating: false, count: response.numRows + 1)
    for row in response.trieDistributions.rows { known[row] = true }
    return known
}

/// Which target tokens are active in the aligner's trie: their spelling has a distribution inside.
private func activeTokens(_ response: Aligned, _ known: [Bool]) -> [Bool] {
    let tokens = response.tokens
    return (0..<tokens.count).map {
        tokens.lengths[$0] == 1 ? tokens.direct[$0] : known[min(tokens.rows[$0] + 1, response.numRows)]
    }
}

/// The draft tokens whose expansion is the next target tokens, by row.
private func longerDrafts(_ response: Aligned) -> [[Int32]] {
    let (map, emitted) = (response.map, response.tokens.ids)
    var drafts = [[Int32]](repeating: [], count: response.numRows)
    for (index, token) in emitted.enumerated() {
        for draft in map.longerFrom[token] ?? [] where emitted[index...].starts(with: map.expansions.row(Int(draft))) {
            drafts[response.tokens.rows[index]].append(draft)
        }
    }
    return drafts
}
