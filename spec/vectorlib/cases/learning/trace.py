"""Vectors of `trace/rows` and `trace/valid`: what a trace keeps of a row, and files that are read.

trace_invalid.py has the files that are refused.
"""

import math
import struct
from typing import Any

from vectorlib.reference.learning.trace import (
    RecordStart,
    Round,
    Segment,
    Token,
    largest,
    roots,
    softmax,
)
from vectorlib.reference.vocab_map import MAPS
from vectorlib.writer import VectorWriter, vector

_HALF = ([6], [0.5], 0.5)
FO = Token(6, 0.5, _HALF, ([1], [0.5], 0.5))
BEGIN = RecordStart([1, 4])
ROUND = Round([FO])
EXAMPLE = Segment([(0, BEGIN), (0, ROUND)], (8, 10))  # the worked example of spec/12-trace.md


def _distribution(map_name: str, logits: list[float]) -> dict[str, Any]:
    p = softmax(logits)
    masses, unspelled = roots(MAPS[map_name], p)
    return {"distribution": largest(dict(enumerate(p))), "roots": largest(masses), "unspelled": unspelled}


_SURE = [0.0] * 5 + [30.0] + [0.0] * 7
_SPREAD = [0.3 * i for i in range(13)]
_FLOOR = [0.0] + [-9.0, -9.5, -10.5, -11.0] + [-40.0] * 8
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
_WIDE = Token(66_000, 1.0, _WIDE_ROW, ([70_001], [0.5], 0.25), 0.25)
_A, _B = RecordStart([0], 1, 0, 0, ("ab" * 32, "cd" * 32)), RecordStart([], 5, 1)

VALID: list[tuple[str, str, bytes, Segment]] = [
    (name, why, segment.pack(), segment)
    for name, why, segment in [
        ("example", "the worked example of spec/12-trace.md", EXAMPLE),
        ("header", "a header without entries", Segment([])),
        ("begun", "a record without a round does not count", Segment([(0, BEGIN)])),
        ("several_tokens", "each token is written whole, with its own distributions",
         Segment([(0, BEGIN), (0, Round([_token("toy", _SPREAD, 0, accepted=True),
                                         _token("toy", _FLOOR, 5)])), (0, ROUND)])),
        ("two_records", "two sessions share a store: their rounds alternate",
         Segment([(0, _A), (1, _B), (1, ROUND), (0, ROUND), (1, ROUND)], number=7)),
        ("full_window", "2048 draft ids, and 5 before them",
         Segment([(0, RecordStart([1] * 2048, skipped=5)), (0, ROUND)])),
        ("wide_ids", "4 bytes an id",
         Segment([(0, RecordStart([70_000])), (0, Round([_WIDE]))], (70_002, 66_001))),
        ("width_border", "65,536 ids take 2 bytes",
         Segment([(0, RecordStart([65_535])), (0, ROUND)], (65_536, 65_536))),
        ("large_vocabularies", "2^31 ids", Segment([(0, RecordStart([(1 << 31) - 1]))], (1 << 31, 1 << 31))),
    ]
]  # fmt: skip
_TWO = Segment([(0, BEGIN), (0, ROUND), (0, ROUND)], (8, 10))
_CUT, SHORT = _TWO.pack(), EXAMPLE.pack()
TORN: list[tuple[str, str, bytes, Segment]] = [
    ("torn_payload", "the last round is cut: the round before it is kept", _CUT[:-9], EXAMPLE),
    ("torn_length", "cut inside the last round's length", _CUT[: len(SHORT) + 3], EXAMPLE),
    ("torn_zeros", "the file grew, but its bytes were not written", SHORT + bytes(40), EXAMPLE),
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
