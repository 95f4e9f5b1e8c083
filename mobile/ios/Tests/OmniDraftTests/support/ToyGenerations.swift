import Foundation

@testable import OmniDraft

// Generations of random models in the toy language of spec/vectors/maps.

/// Means the same in both toy vocabularies.
let toyPrompt: [Int32] = [0, 3, 1]

enum ToyMode: CaseIterable {
    case tokens, block, match, lookup, plain

    /// The name of the mode in a trace.
    var word: String {
        switch self {
        case .tokens, .block: return "trie"
        case .match: return "match"
        case .lookup: return "lookup"
        case .plain: return "plain"
        }
    }
}

/// A generation of random models.
final class ToyGeneration {
    let target: ContextModel
    /// The text, in both vocabularies.
    let text = DecoderState()
    let proposer: any Proposer
    private let mode: ToyMode
    private let seed: UInt64
    private let sampling: SamplingConfig

    /// - Parameters:
    ///   - map: of the toy language.
    ///   - mode: how it proposes and verifies.
    ///   - seed: of the models and of the text.
    ///   - sampling: of the text.
    init(_ map: VocabMap, _ mode: ToyMode, _ seed: UInt64, _ sampling: SamplingConfig) throws {
        self.mode = mode
        self.seed = seed
        self.sampling = sampling
        target = ContextModel(2 * seed, map.targetSize)
        let drafter = Drafter(ContextModel(2 * seed + 1, map.draftSize), start: [7])
        let cache = try NgramCache(map)
        try same("the first n-gram", cache.insert(6), true)
        let temperature = sampling.temperature
        switch mode {
        case .tokens: proposer = TrieProposer(drafter, cache, temperature: temperature)
        case .block: proposer = TrieProposer(drafter, cache, temperature: temperature, verifier: verifyBlock)
        case .match: proposer = MatchProposer(drafter, cache, temperature: temperature)
        case .lookup: proposer = PromptLookup()
        case .plain: proposer = PlainProposer()
        }
    }

    /// All rounds; a trace of ``toyPrompt`` begins with the same ids in both vocabularies.
    @discardableResult
    func run(_ observe: @escaping Observer = { _, _ in }) throws -> [Round] {
        text.restart(toyPrompt, toyPrompt, remaining: 40, cut: cutAtEos([]))
        let length = try FixedLength(mode == .plain ? 0 : 5, source: mode == .lookup ? .copy : .draft)
        let loop = Speculation(
            target: target, proposer: proposer, text: text, sampling: sampling, draftLength: length,
            random: SplitMix64(seed), observe: observe)
        var rounds: [Round] = []
        while let round = try loop.next() { rounds.append(round) }
        return rounds
    }
}

/// Probabilities of logits at temperature 1.
func softmax(_ logits: [Float]) -> [Double] {
    let largest = Double(logits.max() ?? 0)
    let weights = logits.map { exp(Double($0) - largest) }
    let total = weights.reduce(0, +)
    return weights.map { $0 / total }
}
