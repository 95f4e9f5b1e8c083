package io.omnidraft.support

import io.omnidraft.conformance.Json
import io.omnidraft.conformance.bool
import io.omnidraft.conformance.int
import io.omnidraft.conformance.ints
import io.omnidraft.conformance.list
import io.omnidraft.conformance.long
import io.omnidraft.conformance.num
import io.omnidraft.conformance.nums
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.traces.DecisionLabel
import io.omnidraft.traces.Kind
import io.omnidraft.traces.Masses
import io.omnidraft.traces.Segment
import io.omnidraft.traces.Start
import io.omnidraft.traces.Traced
import io.omnidraft.traces.TracedRound
import io.omnidraft.traces.TracedToken
import io.omnidraft.traces.Vocabularies

/* A segment as the values that vectors describe it with, and back. */

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
    "temperature" to start.temperature,
    "mode" to start.mode,
    "continues" to start.continues,
    "skipped" to start.skipped,
    "context" to start.context,
)

private fun roundJson(round: TracedRound): Map<String, Any?> = mapOf(
    "position" to round.position,
    "draft" to round.draft,
    "evaluated" to round.evaluated,
    "accepted_drafts" to round.acceptedDrafts,
    "labels" to round.labels.map { mapOf("kind" to it.kind.number, "draft" to it.draft, "label" to it.label) },
    "tokens" to round.tokens.map { tokenJson(it) },
)

private fun tokenJson(token: TracedToken): Map<String, Any?> = mapOf(
    "token_id" to token.tokenId,
    "surprisal" to token.surprisal,
    "accepted" to token.accepted,
    "inside" to token.inside,
    "pieces" to token.pieces,
    "distribution" to massesJson(token.distribution),
    "roots" to massesJson(token.roots),
    "unspelled" to token.unspelled,
)

private fun massesJson(masses: Masses): Map<String, Any?> =
    mapOf("ids" to masses.ids, "probabilities" to masses.probabilities, "rest" to masses.rest)

/** The pair of a segment. */
internal fun vocabulariesOf(segment: Json): Vocabularies = Vocabularies(
    segment["draft_fingerprint"].str(),
    segment["target_fingerprint"].str(),
    segment["draft_size"].long(),
    segment["target_size"].long(),
)

/** The records of a segment. */
internal fun recordsOf(segment: Json): List<Traced> = segment["records"].list().map { each ->
    Traced(startOf(each.obj()["start"].obj()), each.obj()["rounds"].list().map { roundOf(it.obj()) })
}

private fun startOf(json: Json): Start = Start(
    json["drafter_adapter"]?.str(), json["target_adapter"]?.str(), json["temperature"].num(), json["mode"].str(),
    json["continues"].bool(), json["skipped"].long(), json["context"].ints(),
)

private fun roundOf(json: Json): TracedRound = TracedRound(
    json["position"].long(), json["draft"].ints(), json["evaluated"].int(), json["accepted_drafts"].int(),
    json["labels"].list().map { it.obj() }.map { label ->
        DecisionLabel(Kind.entries[label["kind"].int() - 1], label["draft"].int(), label["label"].num())
    },
    json["tokens"].list().map { tokenOf(it.obj()) },
)

private fun tokenOf(json: Json): TracedToken = TracedToken(
    json["token_id"].int(), json["surprisal"].num(), json["accepted"].bool(), json["inside"].bool(),
    json["pieces"].ints(), massesOf(json["distribution"].obj()), massesOf(json["roots"].obj()),
    json["unspelled"].num(),
)

private fun massesOf(json: Json): Masses {
    val probabilities = json["probabilities"].nums()
    return Masses(json["ids"].ints(), FloatArray(probabilities.size) { probabilities[it].toFloat() }, json["rest"].num())
}
