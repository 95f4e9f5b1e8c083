// A recorded generation as values: its rounds, and at each token the distribution of the target (spec/12-trace.md).
// Training computes from these alone, without a second pass of the target.

private let shownDigits = 12  // of a fingerprint

func traceError(_ fault: String, _ message: String, _ remedy: String = "") -> OmniDraftError {
    .traceFile(Refusal(fault: fault, message: message, remedy: remedy))
}

/// The pair of vocabularies of the ids of a trace.
struct Vocabularies: Sendable, Equatable {
    /// Of the drafter's tokenizer, 64 hexadecimal digits.
    let draftFingerprint: String
    let targetFingerprint: String
    /// Width of the drafter's logits, 1 to 2^31.
    let draftSize: Int
    /// Width of the target's logits, 1 to 2^31.
    let targetSize: Int

    /// Refuses a trace of other vocabularies.
    ///
    /// - Throws: ``OmniDraftError/traceFile(_:)`` with the fault `foreign_vocabulary`.
    func check(_ other: Vocabularies) throws {
        try same("drafter tokenizer", shown(draftFingerprint), shown(other.draftFingerprint))
        try same("target tokenizer", shown(targetFingerprint), shown(other.targetFingerprint))
        try same("number of draft ids", "\(draftSize)", "\(other.draftSize)")
        try same("number of target ids", "\(targetSize)", "\(other.targetSize)")
        // Fingerprints that begin alike.
        if self != other { throw traceError("foreign_vocabulary", "its tokenizers are not those of these models") }
    }

    private func shown(_ fingerprint: String) -> String { String(fingerprint.prefix(shownDigits)) }

    private func same(_ who: String, _ ours: String, _ theirs: String) throws {
        if ours != theirs {
            throw traceError("foreign_vocabulary", "its \(who) is \(theirs), that of these models is \(ours)")
        }
    }
}

extension Vocabularies {
    init(_ map: VocabMap) {
        self.init(
            draftFingerprint: map.draftFingerprint, targetFingerprint: map.targetFingerprint, draftSize: map.draftSize,
            targetSize: map.targetSize)
    }
}

/// The largest probabilities of a distribution.
struct Masses: Sendable, Equatable {
    /// Ascending, at most ``Defaults/traceTop``.
    let ids: [Int32]
    /// Of these ids; each is a number that float16 holds exactly, none is below ``Defaults/traceFloor``.
    let probabilities: [Float]
    /// The mass of all other ids.
    let rest: Double
}

/// An emitted target token, and the target's distribution before it: at temperature 1, without penalty and truncation.
struct TracedToken: Sendable, Equatable {
    let tokenId: Int32
    /// -ln of its probability in the distribution, in nats.
    let surprisal: Double
    let accepted: Bool
    let distribution: Masses
    /// Over the first draft ids of all spellings, active or not: P at the root of the whole trie.
    let roots: Masses
    /// The mass of the target tokens without a spelling in the trie; ``roots`` does not hold it.
    let unspelled: Double
}

/// The tokens that one target pass emitted, one at least.
struct TracedRound: Sendable, Equatable {
    let tokens: [TracedToken]
}

/// How a record begins.
struct TraceStart: Sendable, Equatable {
    /// Digest of the drafter's adapter in use, 64 hexadecimal digits; nil for none.
    let drafterAdapter: String?
    /// Digest of the target's adapter in use; nil for none.
    let targetAdapter: String?
    /// One of ``traceModes``.
    let mode: String
    /// Whether it continues a generation, after a pause, another adapter or a full segment.
    var continues: Bool
    /// Number of draft ids of the text before ``context``.
    let skipped: Int
    /// The latest draft ids of the text, at most ``Defaults/traceWindow``. Emitted tokens have their spelling in the map.
    let context: [Int32]

    /// The same beginning, of a record that continues a generation.
    func continuing() -> TraceStart {
        var start = self
        start.continues = true
        return start
    }
}

/// A generation, or a part of one.
struct Traced: Sendable, Equatable {
    /// The text before it.
    let start: TraceStart
    /// In order, one at least.
    var rounds: [TracedRound]

    var tokens: [TracedToken] { rounds.flatMap(\.tokens) }
}

/// The number of draft ids of a text that a record leaves out, and the ids that it keeps.
func windowOf(_ text: [Int32]) -> (skipped: Int, kept: [Int32]) {
    (max(0, text.count - Defaults.traceWindow), Array(text.suffix(Defaults.traceWindow)))
}
