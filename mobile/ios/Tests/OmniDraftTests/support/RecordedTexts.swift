import OmniDraftORT
import XCTest

@testable import OmniDraft

/// Settings of short greedy answers.
let shortAnswer = GenerationConfig(maxNewTokens: 24, numDraftTokens: 4)

/// Sums that a small model answers at once; number `n` of many.
func question(_ n: Int) -> String {
    "Ben has \(n % 9 + 2) bags with \(n % 7 + 3) shells each. He finds \(n + 1) more. How many shells does he have?"
}

/// Answers questions; the ids of each answer.
@discardableResult
func answers(_ session: SessionCore, _ questions: Range<Int>) throws -> [[Int32]] {
    try questions.map { try session.generate(question($0), shortAnswer).finish().tokenIds }
}

func responsesIn(_ traces: String, _ loaded: LoadedBundle) throws -> [Aligned] {
    let (map, drafter) = (loaded.vocabMap, loaded.bundle.drafter)
    let aligner = TraceAligner(
        aligner: Aligner(trie: fullTrie(map), maxLength: drafter.kv.maxLength), start: startOf(drafter))
    var responses: [Aligned] = []
    let records: TraceSource = { try readTraces([traces], Vocabularies(map), $0) }
    try fromTraces(records, aligner: aligner) { responses.append($0) }
    return responses
}

final class CallBudget {
    private var left: Int

    init(_ calls: Int) { left = calls }

    var budget: StepBudget {
        StepBudget {
            self.left -= 1
            return self.left >= 0
        }
    }
}
