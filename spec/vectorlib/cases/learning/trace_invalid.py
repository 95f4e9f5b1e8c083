"""Vectors of `trace/invalid`: for each fault of a trace, files that are refused by it."""

import math
import struct
from collections.abc import Iterator
from dataclasses import replace

from vectorlib.cases.learning.trace import BEGIN, EXAMPLE, FO, ROUND, SHORT
from vectorlib.reference.learning.trace import RecordStart, Round, Segment, Token, entry
from vectorlib.writer import VectorWriter, vector

Case = tuple[str, str, str, bytes]  # name, why, fault, bytes
_HEAD = EXAMPLE.head()
_START, _ROUND = EXAMPLE.payload(BEGIN), EXAMPLE.payload(ROUND)


def write(writer: VectorWriter) -> None:
    vectors = []
    for make in (_heads, _entries, _records, _rounds, _unsigned):
        for name, why, fault, data in make():
            writer.file(f"trace/invalid/{name}.bin", data)
            vectors.append(vector(name, why, {"file": f"{name}.bin", "map": None}, {"fault": fault}))
    for name, why, segment in _foreign():
        writer.file(f"trace/invalid/{name}.bin", segment.pack())
        given = {"file": f"{name}.bin", "map": "toy"}
        vectors.append(vector(name, why, given, {"fault": "foreign_vocabulary"}))
    writer.vectors("trace/invalid", "files", vectors)


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
        SHORT.replace(b"\r\n", b"\n"),
    )
    yield "magic_only", "cut after the magic", "truncated", SHORT[:8]
    yield "header_half", "cut inside the header", "truncated", SHORT[:60]
    yield "version_3", "a later version", "version", replace(EXAMPLE, version=3).pack()
    yield (
        "header_flipped_bit",
        "a fingerprint changed, the checksum did not",
        "checksum",
        _patch(SHORT, 24, "B", 1),
    )
    yield "reserved", "the reserved field is not 0", "reserved", replace(EXAMPLE, reserved=1).pack()
    yield "no_ids", "a vocabulary of 0 ids", "limits", replace(EXAMPLE, sizes=(0, 10)).head()
    huge = replace(EXAMPLE, sizes=(8, (1 << 31) + 1)).head()
    yield "too_many_ids", "2^31 + 1 target ids", "limits", huge


def _entries() -> Iterator[Case]:
    damaged = _patch(SHORT, 120, "B", 1)
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


def _records() -> Iterator[Case]:
    yield "start_cut", "a payload of 71 bytes", "length", _start(_START[:71])
    yield "start_odd", "half a draft id", "length", _start(_START + b"\0")
    yield "mode_6", "an unknown mode", "kind", _start(_patch(_START, 64, "B", 6))
    yield "continues_2", "neither 0 nor 1", "kind", _start(_patch(_START, 65, "B", 2))
    yield "start_reserved", "a record's reserved field", "reserved", _start(_patch(_START, 66, "H", 1))
    yield (
        "skipped_early",
        "skipped is above 0 and the window is not full",
        "limits",
        _start(_patch(_START, 68, "I", 1)),
    )
    yield "window_long", "2049 draft ids", "limits", _start(_START[:72] + bytes(2 * 2049))
    yield "window_id", "draft id 8 of 8", "id_range", _start(_patch(_START, 72, "H", 8))


def _rounds() -> Iterator[Case]:
    def bad(at: int, form: str, *values: float) -> bytes:
        return _round(_patch(_ROUND, at, form, *values))

    yield "round_cut", "the last byte is missing", "length", _round(_ROUND[:-1])
    yield "round_long", "a byte after the last token", "length", _round(_ROUND + b"\0")
    yield "nothing_emitted", "a round has at least one token", "counts", _round(b"")
    yield "token_id", "target id 10 of 10", "id_range", bad(0, "I", 10)
    yield "accepted_2", "neither 0 nor 1", "kind", bad(4, "B", 2)
    late = replace(ROUND, tokens=[FO, replace(FO, accepted=True)])
    yield "accepted_late", "accepted after a token that was not", "counts", _round(EXAMPLE.payload(late))
    yield "token_reserved", "a token's reserved field", "reserved", bad(7, "B", 1)
    yield "surprisal_infinite", "a token of probability 0", "number", bad(8, "f", math.inf)
    yield "surprisal_minus_0", "another way to write 0", "number", bad(8, "f", -0.0)
    yield "rest_negative", "a negative mass", "number", bad(12, "f", -0.5)
    yield "distribution_too_much", "masses 0.5 and 0.6", "mass", bad(12, "f", 0.6)
    yield "roots_too_little", "masses 0.5 and 0.3", "mass", bad(16, "f", 0.3)
    yield "distribution_id", "target id 10 of 10", "id_range", bad(24, "H", 10)
    yield "probability_2", "a probability above 1", "number", bad(26, "e", 2.0)
    yield "probability_tiny", "a probability below 2^-14", "number", bad(26, "e", 2.0**-15)
    yield "probability_nan", "NaN", "number", bad(26, "e", math.nan)
    twice = replace(FO, distribution=([6, 6], [0.25, 0.25], 0.5))
    yield (
        "distribution_ids_repeat",
        "ids must ascend",
        "order",
        _round(EXAMPLE.payload(replace(ROUND, tokens=[twice]))),
    )


def _unsigned() -> Iterator[Case]:
    """Ids of 4 bytes from 2^31 on, which are negative as signed numbers; the vocabularies have 2^31 ids."""
    first = 1 << 31

    def of(token: Token) -> bytes:
        return Segment([(0, BEGIN), (0, Round([token]))], (first, first)).pack()

    def listed(*ids: int) -> tuple[list[int], list[float], float]:
        return [*ids], [0.25] * len(ids), 1.0 - 0.25 * len(ids)

    window = Segment([(0, RecordStart([first]))], (first, first)).pack()
    yield "window_id_2_31", "an id is unsigned: 2^31 of 2^31 draft ids", "id_range", window
    yield "token_id_2_31", "2^31 of 2^31 target ids", "id_range", of(replace(FO, id=first))
    largest = of(replace(FO, id=2 * first - 1))
    yield "token_id_largest", "2^32 - 1 of 2^31 target ids", "id_range", largest
    rising = of(replace(FO, distribution=listed(6, first)))
    yield "distribution_id_2_31", "6 and 2^31 ascend; the last id is too large", "id_range", rising
    falling = of(replace(FO, distribution=listed(first, 6)))
    yield "distribution_falls", "2^31 and 6 do not ascend", "order", falling
    roots = of(replace(FO, roots=listed(1, 2 * first - 1)))
    yield "roots_id_largest", "1 and 2^32 - 1 ascend; the last draft id is too large", "id_range", roots


def _foreign() -> Iterator[tuple[str, str, Segment]]:
    yield "foreign_drafter", "recorded with another drafter's tokenizer", Segment([], drafter="d0" * 32)
    yield "foreign_target", "recorded with another target's tokenizer", Segment([], target="e0" * 32)
    yield "foreign_width", "logits of another width", Segment([], sizes=(9, 14))
