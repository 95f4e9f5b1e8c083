// The grammars of a session's texts: their masks are kept from text to text.

private let mostGrammars = 4  // whose masks are kept, of each model

/// Makes the constraint of each text; for one thread.
final class TextGrammars {
    private let loaded: LoadedBundle
    private var ofTarget = RecentMasks()
    private var ofDrafter = RecentMasks()

    init(_ loaded: LoadedBundle) { self.loaded = loaded }

    /// Keeps one text in a grammar.
    ///
    /// - Parameters:
    ///   - eosIds: end tokens of the text.
    ///   - proposes: whether bytes that the grammar fixes are proposed, and drafts are kept in it.
    /// - Throws: ``OmniDraftError/grammar(_:)`` `vocabulary`: the target's tokens cannot write any text of the grammar.
    func constraint(_ grammar: Grammar, eosIds: Set<Int32>, proposes: Bool) throws -> Constraint {
        let tokenizer = loaded.targetTokenizer
        let masks = try ofTarget.masks(grammar, eosIds) {
            try TokenMasks(
                grammar, loaded.targetTrie, eosIds: eosIds, controls: loaded.outputText.shown,
                spell: { tokenizer.spell($0) })
        }
        return Constraint(
            masks, bytesOf: { tokenizer.bytes(of: $0) ?? [] }, proposes: proposes,
            draft: proposes ? try draftSide(grammar) : nil)
    }

    private func draftSide(_ grammar: Grammar) throws -> DraftSide? {
        guard let tokenizer = loaded.drafterTokenizer, let trie = loaded.draftTrie else { return nil }
        do {
            let masks = try ofDrafter.masks(grammar, []) { try TokenMasks(grammar, trie, eosIds: []) }
            return DraftSide(masks: masks, allowed: loaded.vocabMap.draftAllowed) { tokenizer.bytes(of: $0) ?? [] }
        } catch OmniDraftError.grammar {
            return nil  // its tokens cannot write the texts, so its drafts are not restricted
        }
    }
}

/// Masks of the grammars that were used last.
private struct RecentMasks {
    private var recent: [(grammar: [UInt8], eosIds: Set<Int32>, masks: TokenMasks)] = []

    mutating func masks(
        _ grammar: Grammar, _ eosIds: Set<Int32>, _ make: () throws -> TokenMasks
    ) throws -> TokenMasks {
        let masks: TokenMasks
        if let place = recent.firstIndex(where: { $0.grammar == grammar.digest && $0.eosIds == eosIds }) {
            masks = recent.remove(at: place).masks
        } else {
            masks = try make()
        }
        recent = [(grammar.digest, eosIds, masks)] + recent.prefix(mostGrammars - 1)
        return masks
    }
}
