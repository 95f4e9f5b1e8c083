@testable import OmniDraft

// A segment from the values that vectors describe it with.

/// The pair of a segment.
func vocabulariesOf(_ segment: JsonObject) -> Vocabularies {
    Vocabularies(
        draftFingerprint: segment["draft_fingerprint"]!.string,
        targetFingerprint: segment["target_fingerprint"]!.string,
        draftSize: segment["draft_size"]!.int, targetSize: segment["target_size"]!.int)
}

/// The records of a segment.
func recordsOf(_ segment: JsonObject) -> [Traced] {
    segment["records"]!.array.map(\.object).map { record in
        Traced(start: startOf(record["start"]!.object), rounds: record["rounds"]!.array.map { roundOf($0.object) })
    }
}

private func startOf(_ json: JsonObject) -> TraceStart {
    TraceStart(
        drafterAdapter: json["drafter_adapter"]!.optional?.string,
        targetAdapter: json["target_adapter"]!.optional?.string,
        mode: json["mode"]!.string, continues: json["continues"]!.bool,
        skipped: json["skipped"]!.int, context: json["context"]!.int32s)
}

private func roundOf(_ json: JsonObject) -> TracedRound {
    TracedRound(tokens: json["tokens"]!.array.map { tokenOf($0.object) })
}

private func tokenOf(_ json: JsonObject) -> TracedToken {
    TracedToken(
        tokenId: Int32(json["token_id"]!.int), surprisal: json["surprisal"]!.num, accepted: json["accepted"]!.bool,
        distribution: massesOf(json["distribution"]!.object), roots: massesOf(json["roots"]!.object),
        unspelled: json["unspelled"]!.num)
}

private func massesOf(_ json: JsonObject) -> Masses {
    Masses(ids: json["ids"]!.int32s, probabilities: json["probabilities"]!.floats, rest: json["rest"]!.num)
}
