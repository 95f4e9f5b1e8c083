"""Vectors of `trace/rows`, `trace/valid` and `trace/invalid`: what a trace keeps of a row; files."""

import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vectorlib.reference.learning.trace import (
    RecordStart,
    Round,
    Segment,
    Token,
    entry,
    largest,
    roots,
    softmax,
)
from vectorlib.reference.vocab_map import MAPS
from vectorlib.writer import VectorWriter, vector

_HALF = ([6], [0.5], 0.5)
_FO = Token(6, 0.5, _HALF, ([1], [0.5], 0.5), pieces=[1, 4])
_BEGIN = RecordStart([1, 4])
_REJECTED = Round(2, [_FO], [2], 1, 0, [(1, 0, 0.25)])
EXAMPLE = Segment([(0, _BEGIN), (0, _REJECTED)], (8, 10))  # the worked example of spec/12-trace.md


def _distribution(map_name: str, logits: list[float]) -> dict[str, Any]:
    p = softmax(logits)
    masses, unspelled = roots(MAPS[map_name], p)
    return {"distribution": largest(dict(enumerate(p))), "roots": largest(masses), "unspelled": unspelled}


_SURE = [0.0] * 5 + [30.0] + [0.0] * 7
_SPREAD = [0.3 * i for i in range(13)]
_FLOOR = [0.0] + [-9.0, -9.5, -10.5, -11.0] + [-40.0] * 8
_ORPHANS = [-50.0] * 8 + [1.0, -50.0, 1.0, -50.0, 0.0]
ROWS: list[tuple[str, str, str, list[float]]] = [
    ("even", "all ids are equally likely; three are not leaves", "toy", [1.0] * 13),
    ("sure", "one id has nearly all the mass: the others are below 2^-14", "toy", _SURE),
    ("spread", "unspelled ids have much of the mass", "toy", _SPREAD),
    ("floor", "exp(-9.5) is above 2^-14, exp(-10.5) is not", "toy", _FLOOR),
    (
        "alias_and_orphan",
        "all mass on ids that are not leaves",
        "toy",
        [-50.0] * 8 + [1.0, -50.0, 1.0, -50.0, 0.0],
    ),
    (
        "large_logits",
        "the largest logit is subtracted before the exponential",
        "toy",
        [1000.0 + 0.25 * i for i in range(13)],
    ),
    ("top_64", "64 of 70 ids are kept", "wide", [0.0625 * (i * 37 % 70) for i in range(70)]),
    ("top_64_ties", "all ids are equally likely: the 64 lowest", "wide", [0.0] * 70),
    (
        "top_64_some_ties",
        "10 ids share the places from 60 on: the lowest 4 of these",
        "wide",
        [1.0 if i % 7 == 3 else 2.0 + 0.01 * i for i in range(70)],
    ),
    (
        "nested",
        "spellings that are prefixes of one another count for one child of the root",
        "deep",
        [0.1 * i for i in range(9)],
    ),
]


def _halves() -> dict[str, Any]:
    """Rounding to float16, with ties in both directions; every number is exact in float32."""
    numbers = [1.0, 0.5, 2.0**-14, 0.5 + 2.0**-12, 0.5 + 3 * 2.0**-12, 0.5 + 2.0**-12 + 2.0**-23,
               1 - 2.0**-12, 0.25 + 2.0**-13 - 2.0**-25, 2.0**-14 + 2.0**-25,
               2.0**-14 + 3 * 2.0**-25]  # fmt: skip
    bits = [struct.pack(">e", number).hex() for number in numbers]
    return vector("halves", "float16 is the nearest, ties to even", {"numbers": numbers}, {"float16": bits})


def _token(map_name: str, logits: list[float], t: int, **more: Any) -> Token:
    row = _distribution(map_name, logits)
    surprisal = -math.log(softmax(logits)[t])
    return Token(t, surprisal, row["distribution"], row["roots"], row["unspelled"], **more)


_WIDE_ROW = [5, 66_000], [0.5, 0.25], 0.25
_WIDE = Token(66_000, 1.0, _WIDE_ROW, ([70_001], [0.5], 0.25), 0.25, [70_001] * 300)
_LONG = [
    _token("toy", _SPREAD, 0, pieces=[6], accepted=True),
    _token("toy", _SPREAD, 1, accepted=True, inside=True),
    _token("toy", _SPREAD, 4, accepted=True, inside=True),
    _token("toy", _SPREAD, 8),
]
_A, _B = RecordStart([0], 0.7, 1, 0, 0, ("ab" * 32, "cd" * 32)), RecordStart([], 1.0, 5, 1)

VALID: list[tuple[str, str, bytes, Segment]] = [
    (name, why, segment.pack(), segment)
    for name, why, segment in [
        ("example", "the worked example of spec/12-trace.md", EXAMPLE),
        ("header", "a header without entries", Segment([])),
        ("begun", "a record without a round does not count", Segment([(0, _BEGIN)])),
        ("long_draft_token", "one draft token writes three target tokens; X has no piece",
         Segment([(0, _BEGIN),
         (0, Round(2, _LONG, [6], 1, 1, [(5, 0, 0.5), (5, 0, 0.25), (5, 0, 1.0)]))])),
        ("several_tokens", "each token is written whole, with its own pieces and distributions",
         Segment([(0, _BEGIN), (0, Round(2, [
             _token("toy", _SPREAD, 0, pieces=[0], accepted=True), _token("toy", _FLOOR, 5, pieces=[1, 2, 3]),
         ], [0, 1], 2, 1, [(1, 0, 1.0), (1, 1, 0.5)])), (0, Round(6, [_FO]))])),
        ("all_kinds", "every kind of decision; one of kind 1 names the draft token of the END before it",
         Segment([(0,
         _BEGIN), (0, Round(2, [_FO], [1, 2, 0, 1, 5], 5, 4, [(1, 0, 1.0), (2, 1, 0.5), (3, 2, 1.0), (1, 2,
         0.75), (6, 3, 1.0), (4, 4, 0.0)]))])),
        ("two_records", "two sessions share a store: their rounds alternate", Segment([(0, _A), (1, _B), (1,
         Round(0, [_FO])), (0, Round(1, [_FO])), (1, Round(2, [_FO]))], number=7)),
        ("full_window", "2048 draft ids, and 5 before them",
         Segment([(0, RecordStart([1] * 2048, skipped=5)), (0,
         Round(2053, [_FO]))])),
        ("wide_ids", "4 bytes an id, 300 pieces",
         Segment([(0, RecordStart([70_000])), (0, Round(1, [_WIDE], [70_000],
         1, 1))], (70_002, 66_001))),
        ("width_border", "65,536 ids take 2 bytes",
         Segment([(0, RecordStart([65_535])), (0, Round(1, [_FO]))], (65_536,
         65_536))),
        ("large_vocabularies", "2^31 ids", Segment([(0, RecordStart([(1 << 31) - 1]))], (1 << 31, 1 << 31))),
    ]
]  # fmt: skip
_TWO = Segment([(0, _BEGIN), (0, _REJECTED), (0, replace(_REJECTED, position=4))], (8, 10))
_CUT, _SHORT = _TWO.pack(), EXAMPLE.pack()
TORN: list[tuple[str, str, bytes, Segment]] = [
    ("torn_payload", "the last round is cut: the round before it is kept", _CUT[:-9], EXAMPLE),
    ("torn_length", "cut inside the last round's length", _CUT[: len(_SHORT) + 3], EXAMPLE),
    ("torn_zeros", "the file grew, but its bytes were not written", _SHORT + bytes(40), EXAMPLE),
    (
        "torn_bit",
        "the last entry is damaged, which cannot be told from a cut",
        _CUT[:-1] + bytes([_CUT[-1] ^ 1]),
        EXAMPLE,
    ),
]


def write(writer: VectorWriter) -> None:
    writer.vectors("trace/rows", "rows", [_row(*case) for case in ROWS])
    writer.vectors("trace/rows", "halves", [_halves()])
    vectors = []
    for name, why, data, segment in VALID + TORN:
        writer.file(f"trace/valid/{name}.bin", data)
        expect = {"segment": segment.as_json(), "torn": len(data) - len(segment.pack())}
        vectors.append(vector(name, why, {"file": f"{name}.bin"}, expect))
    writer.vectors("trace/valid", "files", vectors)
    vectors = []
    for make in (_heads, _entries, _records, _rounds):
        for name, why, fault, data in make():
            writer.file(f"trace/invalid/{name}.bin", data)
            vectors.append(vector(name, why, {"file": f"{name}.bin", "map": None}, {"fault": fault}))
    for name, why, segment in _foreign():
        writer.file(f"trace/invalid/{name}.bin", segment.pack())
        given = {"file": f"{name}.bin", "map": "toy"}
        vectors.append(vector(name, why, given, {"fault": "foreign_vocabulary"}))
    writer.vectors("trace/invalid", "files", vectors)


def _row(name: str, why: str, map_name: str, logits: list[float]) -> dict[str, Any]:
    row = _distribution(map_name, logits)
    surprisals = [-math.log(p) for p in softmax(logits)]
    distribution, tops = (
        {"ids": k[0], "probabilities": k[1], "rest": k[2]} for k in (row["distribution"], row["roots"])
    )
    expect = {
        "distribution": distribution,
        "roots": tops,
        "unspelled": row["unspelled"],
        "surprisals": surprisals,
    }
    return vector(name, why, {"map": map_name, "logits": logits}, expect)


Case = tuple[str, str, str, bytes]  # name, why, fault, bytes
_HEAD = EXAMPLE.head()
_START, _ROUND = EXAMPLE.payload(_BEGIN), EXAMPLE.payload(_REJECTED)
_AT = len(_ROUND) - 40  # where the token begins


def _patch(data: bytes, at: int, form: str, *values: float) -> bytes:
    changed = bytearray(data)
    struct.pack_into("<" + form, changed, at, *values)
    return bytes(changed)


def _start(data: bytes) -> bytes:
    return _HEAD + entry(1, 0, data)


def _round(data: bytes) -> bytes:
    return _start(_START) + entry(2, 0, data)


def _heads() -> Iterator[Case]:
    yield "empty_file", "a file of no bytes has no magic", "not_a_trace", b""
    yield "other_file", "a PNG", "not_a_trace", b"\x89PNG\r\n\x1a\n" + bytes(200)
    yield (
        "magic_line_ends",
        "a transfer that changed the line ends",
        "not_a_trace",
        _SHORT.replace(b"\r\n", b"\n"),
    )
    yield "magic_only", "cut after the magic", "truncated", _SHORT[:8]
    yield "header_half", "cut inside the header", "truncated", _SHORT[:60]
    yield "version_2", "a later version", "version", replace(EXAMPLE, version=2).pack()
    yield (
        "header_flipped_bit",
        "a fingerprint changed, the checksum did not",
        "checksum",
        _patch(_SHORT, 24, "B", 1),
    )
    yield "reserved", "the reserved field is not 0", "reserved", replace(EXAMPLE, reserved=1).pack()
    yield "no_ids", "a vocabulary of 0 ids", "limits", replace(EXAMPLE, sizes=(0, 10)).head()
    huge = replace(EXAMPLE, sizes=(8, (1 << 31) + 1)).head()
    yield "too_many_ids", "2^31 + 1 target ids", "limits", huge


def _entries() -> Iterator[Case]:
    damaged = _patch(_SHORT, 120, "B", 1)
    yield (
        "damaged_amid",
        "an entry is damaged and a whole entry follows: not an interrupted write",
        "checksum",
        damaged,
    )
    yield "entry_kind", "an entry of kind 3", "kind", _HEAD + entry(3, 0, _START)
    yield "entry_reserved", "an entry's reserved field", "reserved", _HEAD + entry(1, 0, _START, 1)
    yield "record_1_first", "records are numbered from 0", "order", _HEAD + entry(1, 1, _START)
    yield "record_twice", "a record begins twice", "order", _start(_START) + entry(1, 0, _START)
    yield "round_of_none", "a round before its record", "order", _HEAD + entry(2, 0, _ROUND)
    lost = Segment([(0, _BEGIN), (0, replace(_REJECTED, position=4))], (8, 10)).pack()
    yield "round_lost", "the round before it is missing", "position", lost


def _records() -> Iterator[Case]:
    yield "start_cut", "a payload of 75 bytes", "length", _start(_START[:75])
    yield "start_odd", "half a draft id", "length", _start(_START + b"\0")
    yield "temperature_nan", "NaN", "number", _start(_patch(_START, 64, "f", math.nan))
    yield "temperature_minus_0", "another way to write 0", "number", _start(_patch(_START, 64, "f", -0.0))
    yield "mode_6", "an unknown mode", "kind", _start(_patch(_START, 68, "B", 6))
    yield "continues_2", "neither 0 nor 1", "kind", _start(_patch(_START, 69, "B", 2))
    yield "start_reserved", "a record's reserved field", "reserved", _start(_patch(_START, 70, "H", 1))
    yield (
        "skipped_early",
        "skipped is above 0 and the window is not full",
        "limits",
        _start(_patch(_START, 72, "I", 1)),
    )
    yield "window_long", "2049 draft ids", "limits", _start(_START[:76] + bytes(2 * 2049))
    yield "window_id", "draft id 8 of 8", "id_range", _start(_patch(_START, 76, "H", 8))


def _rounds() -> Iterator[Case]:
    def bad(at: int, form: str, *values: float) -> bytes:
        return _round(_patch(_ROUND, at, form, *values))

    yield "round_cut", "the last byte is missing", "length", _round(_ROUND[:-1])
    yield "round_long", "a byte after the last token", "length", _round(_ROUND + b"\0")
    yield "round_reserved", "a round's reserved field", "reserved", bad(9, "B", 1)
    yield "accepted_above_evaluated", "1 accepted of 0 evaluated draft tokens", "counts", bad(5, "2B", 0, 1)
    yield "tested_above_drafted", "2 of 1 drafted", "counts", bad(5, "B", 2)
    yield "nothing_emitted", "a round has at least one token", "counts", bad(8, "B", 0)
    yield "draft_id", "draft id 8 of 8", "id_range", bad(12, "H", 8)
    yield "test_kind_0", "kind 0 does not exist", "kind", bad(14, "B", 0)
    yield "test_kind_7", "an unknown kind", "kind", bad(14, "B", 7)
    yield (
        "label_not_evaluated",
        "a decision on a draft token that was not evaluated",
        "counts",
        bad(15, "B", 1),
    )
    yield "label_above_1", "a probability above 1", "number", bad(16, "f", 1.5)
    yield "label_nan", "NaN", "number", bad(16, "f", math.nan)
    falling = replace(_REJECTED, draft=[2, 2], evaluated=2, labels=[(1, 1, 1.0), (1, 0, 1.0)])
    yield "tests_fall", "the indices of draft tokens never fall", "order", _round(EXAMPLE.payload(falling))
    yield "token_id", "target id 10 of 10", "id_range", bad(_AT, "I", 10)
    yield "token_flags", "a third flag", "kind", bad(_AT + 4, "B", 4)
    yield "inside_first", "no token before it that it could be inside of", "counts", bad(_AT + 4, "B", 3)
    late = replace(_REJECTED, tokens=[_FO, replace(_FO, accepted=True)])
    yield "accepted_late", "accepted after a token that was not", "counts", _round(EXAMPLE.payload(late))
    yield "token_reserved", "a token's reserved field", "reserved", bad(_AT + 7, "B", 1)
    yield (
        "pieces_huge",
        "2^32 - 1 pieces: a reader must not reserve memory for them",
        "length",
        bad(_AT + 8, "I", (1 << 32) - 1),
    )
    yield "piece_id", "draft id 9 of 8", "id_range", bad(_AT + 30, "H", 9)
    yield "surprisal_infinite", "a token of probability 0", "number", bad(_AT + 12, "f", math.inf)
    yield "rest_negative", "a negative mass", "number", bad(_AT + 16, "f", -0.5)
    yield "distribution_too_much", "masses 0.5 and 0.6", "mass", bad(_AT + 16, "f", 0.6)
    yield "roots_too_little", "masses 0.5 and 0.3", "mass", bad(_AT + 20, "f", 0.3)
    yield "distribution_id", "target id 10 of 10", "id_range", bad(_AT + 32, "H", 10)
    yield "probability_2", "a probability above 1", "number", bad(_AT + 34, "e", 2.0)
    yield "probability_tiny", "a probability below 2^-14", "number", bad(_AT + 34, "e", 2.0**-15)
    yield "probability_nan", "NaN", "number", bad(_AT + 34, "e", math.nan)
    twice = replace(_FO, distribution=([6, 6], [0.25, 0.25], 0.5))
    yield (
        "distribution_ids_repeat",
        "ids must ascend",
        "order",
        _round(EXAMPLE.payload(replace(_REJECTED, tokens=[twice]))),
    )


def _foreign() -> Iterator[tuple[str, str, Segment]]:
    yield "foreign_drafter", "recorded with another drafter's tokenizer", Segment([], drafter="d0" * 32)
    yield "foreign_target", "recorded with another target's tokenizer", Segment([], target="e0" * 32)
    yield "foreign_width", "logits of another width", Segment([], sizes=(9, 14))
