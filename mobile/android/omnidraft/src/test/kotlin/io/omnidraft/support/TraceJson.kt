package io.omnidraft.support

import io.omnidraft.traces.Masses
import io.omnidraft.traces.Segment
import io.omnidraft.traces.Start
import io.omnidraft.traces.TracedRound
import io.omnidraft.traces.TracedToken

/* A segment as the values that vectors describe it with. */

internal fun segmentJson(segment: Segment): Map<String, Any?> {
    val v = segment.header.vocabularies
    return mapOf(
        "draft_fingerprint" to v.draftFingerprint,
        "target_fingerprint" to v.targetFingerprint,
        "draft_size" to v.draftSize,
        "target_size" to v.targetSize,
        "number" to segment.header.number,
        "records" to segment.generations().map { traced ->
            mapOf("start" to startJson(traced.start), "rounds" to traced.rounds.map { roundJson(it) })
        },
    )
}

private fun startJson(start: Start): Map<String, Any?> = mapOf(
    "drafter_adapter" to start.drafterAdapter,
    "target_adapter" to start.targetAdapter,
    "mode" to start.mode,
    "continues" to start.continues,
    "skipped" to start.skipped,
    "context" to start.context,
)

private fun roundJson(round: TracedRound): Map<String, Any?> = mapOf(
    "tokens" to round.tokens.map { tokenJson(it) },
)

private fun tokenJson(token: TracedToken): Map<String, Any?> = mapOf(
    "token_id" to token.tokenId,
    "surprisal" to token.surprisal,
    "accepted" to token.accepted,
    "distribution" to massesJson(token.distribution),
    "roots" to massesJson(token.roots),
    "unspelled" to token.unspelled,
)

private fun massesJson(masses: Masses): Map<String, Any?> =
    mapOf("ids" to masses.ids, "probabilities" to masses.probabilities, "rest" to masses.rest)
