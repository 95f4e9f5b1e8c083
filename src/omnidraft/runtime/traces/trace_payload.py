"""What stands in the entries of a trace's file: how a record begins, and a round (spec/trace.md)."""

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import TraceFileError
from omnidraft.runtime.traces.trace import (
    FLOOR,
    WINDOW,
    DecisionLabel,
    Kind,
    Masses,
    Start,
    TracedRound,
    TracedToken,
    Vocabularies,
)

MODES = ("trie", "match", "direct", "paper", "lookup", "plain")
_START = struct.Struct("<32s32sf2BHI")  # digests, temperature, mode, continues, reserved, skipped
_ROUND = struct.Struct("<I5B3s")  # position, draft ids, tested, passed, judged, tokens, reserved
# id, flags, ids of distribution and roots, reserved, pieces, surprisal, rest of distribution and roots, unspelled
_TOKEN = struct.Struct("<I4BI4f")
_ACCEPTED, _INSIDE = 1, 2
_NONE = bytes(32)
_ROUNDING = 2.0**-8  # what 64 roundings to float16 can add up to, and more


@dataclass(frozen=True)
class PayloadLayout:
    """How wide ids are and where they end; 2 bytes hold the ids of a vocabulary of 65,536."""

    draft_size: int
    target_size: int

    @classmethod
    def of(cls, vocabularies: Vocabularies) -> "PayloadLayout":
        return cls(vocabularies.draft_size, vocabularies.target_size)

    @property
    def draft_type(self) -> str:
        return _id_type(self.draft_size)

    @property
    def target_type(self) -> str:
        return _id_type(self.target_size)


def encode_start(start: Start, layout: PayloadLayout) -> bytes:
    """The payload of a record's beginning."""
    digests = [bytes.fromhex(d) if d else _NONE for d in (start.drafter_adapter, start.target_adapter)]
    mode = MODES.index(start.mode)
    fixed = _START.pack(*digests, start.temperature, mode, start.continues, 0, start.skipped)
    return fixed + _ids(start.context, layout.draft_type)


def encode_round(found: TracedRound, layout: PayloadLayout) -> bytes:
    """The payload of a round."""
    judged, draft = found.judged, found.draft
    counts = (len(draft), found.tested, found.passed, len(judged), len(found.tokens))
    parts = [
        _ROUND.pack(found.position, *counts, bytes(3)),
        _ids(draft, layout.draft_type),
        bytes(j.kind for j in judged),
        bytes(j.draft for j in judged),
        np.array([j.label for j in judged], "<f4").tobytes(),
    ]
    return b"".join(parts + [_token_bytes(token, layout) for token in found.tokens])


def _token_bytes(token: TracedToken, layout: PayloadLayout) -> bytes:
    distribution, roots = token.distribution, token.roots
    flags = _ACCEPTED * token.accepted | _INSIDE * token.inside
    fixed = _TOKEN.pack(
        token.token_id, flags, len(distribution.ids), len(roots.ids), 0, len(token.pieces),
        token.surprisal, distribution.rest, roots.rest, token.unspelled,
    )  # fmt: skip
    columns = [_ids(token.pieces, layout.draft_type)]
    for masses, ids in ((distribution, layout.target_type), (roots, layout.draft_type)):
        columns += [masses.ids.astype(ids).tobytes(), masses.probabilities.astype("<f2").tobytes()]
    return b"".join([fixed, *columns])


def decode_start(data: bytes, layout: PayloadLayout) -> Start:
    """The beginning of a record in its payload.

    Raises:
        TraceFileError: with the name of the fault.
    """
    cursor = _Cursor(data)
    drafter, target, temperature, mode, continues, reserved, skipped = cursor.fields(_START)
    demand(reserved == 0, "reserved", f"the reserved field of a record is {reserved}, not 0")
    demand(_is_number(temperature), "number", f"it has a temperature of {temperature}")
    demand(mode < len(MODES), "kind", f"it has a mode {mode}, none of 0 to {len(MODES) - 1}")
    demand(continues < 2, "kind", f"it has a record that continues {continues}, neither 0 nor 1")
    count, extra = divmod(len(data) - _START.size, int(layout.draft_type[-1]))
    demand(extra == 0, "length", f"a record has {extra} bytes too many")
    demand(count <= WINDOW, "limits", f"a record begins with {count} draft ids, more than {WINDOW}")
    demand(skipped == 0 or count == WINDOW, "limits", f"a record keeps {count} draft ids and leaves some out")
    context = cursor.draft_ids(count, layout)
    drafter_adapter, target_adapter = (None if d == _NONE else d.hex() for d in (drafter, target))
    return Start(drafter_adapter, target_adapter, temperature, MODES[mode], bool(continues), skipped, context)


def decode_round(data: bytes, layout: PayloadLayout) -> TracedRound:
    """The round in its payload.

    Raises:
        TraceFileError: with the name of the fault.
    """
    cursor = _Cursor(data)
    position, drafted, tested, passed, num_judged, num_tokens, reserved = cursor.fields(_ROUND)
    demand(reserved == bytes(3), "reserved", "a reserved field of a round is not 0")
    demand(
        passed <= tested <= drafted,
        "counts",
        f"it has {passed} accepted of {tested} tested of {drafted} draft tokens",
    )
    demand(num_tokens > 0, "counts", "a round emitted nothing")
    draft = cursor.draft_ids(drafted, layout)
    kinds, places = (cursor.column("u1", num_judged).tolist() for _ in range(2))
    labels = cursor.column("<f4", num_judged).tolist()
    for kind, place, label in zip(kinds, places, labels, strict=True):
        demand(1 <= kind <= len(Kind), "kind", f"it has a judgement of kind {kind}, none of 1 to {len(Kind)}")
        demand(place < tested, "counts", f"draft token {place} is judged and {tested} were tested")
        demand(_is_share(label), "number", f"it has a label of {label}")
    demand(all(a <= b for a, b in pairwise(places)), "order", "judgements are not in the order of the draft")
    tokens = tuple(_token(cursor, layout) for _ in range(num_tokens))
    cursor.end()
    _check_flags(tokens)
    judged = (DecisionLabel(Kind(k), p, x) for k, p, x in zip(kinds, places, labels, strict=True))
    return TracedRound(position, draft, tested, passed, tuple(judged), tokens)


def _token(cursor: "_Cursor", layout: PayloadLayout) -> TracedToken:
    fields = cursor.fields(_TOKEN)
    token, flags, num_distribution, num_roots, reserved, num_pieces, surprisal, rest, root_rest, unspelled = (
        fields
    )
    demand(reserved == 0, "reserved", f"the reserved field of a token is {reserved}, not 0")
    demand(token < layout.target_size, "id_range", f"it holds target id {token} of {layout.target_size}")
    demand(flags < 4, "kind", f"it has a token with flags {flags}")
    demand(_is_number(surprisal), "number", f"it has a surprisal of {surprisal}")
    demand(_is_share(unspelled), "number", f"it has an unspelled mass of {unspelled}")
    pieces = cursor.draft_ids(num_pieces, layout)
    distribution = _masses(cursor, (layout.target_type, num_distribution, layout.target_size), rest, 0.0)
    roots = _masses(cursor, (layout.draft_type, num_roots, layout.draft_size), root_rest, unspelled)
    return TracedToken(
        token,
        surprisal,
        bool(flags & _ACCEPTED),
        bool(flags & _INSIDE),
        pieces,
        distribution,
        roots,
        unspelled,
    )


def _masses(cursor: "_Cursor", column: tuple[str, int, int], rest: float, beside: float) -> Masses:
    """A distribution of `column` = (type of its ids, how many, size of the vocabulary); `beside`: mass outside it."""
    kind, count, size = column
    ids = cursor.column(kind, count).astype(np.int32 if size < 1 << 31 else np.int64)
    probabilities = cursor.column("<f2", count).astype(np.float16)
    demand(bool((np.diff(ids) > 0).all()), "order", "the ids of a distribution do not ascend")
    demand(count == 0 or int(ids[-1]) < size, "id_range", f"it holds id {ids.max(initial=0)} of {size}")
    # Written so that NaN fails too.
    right = bool(((probabilities >= FLOOR) & (probabilities <= 1.0)).all())
    demand(right, "number", "a distribution has a probability outside 2^-14 to 1")
    demand(_is_share(rest), "number", f"it has a rest of {rest}")
    whole = float(probabilities.sum(dtype=np.float64)) + rest + beside
    demand(
        abs(whole - 1.0) <= _ROUNDING, "mass", f"the masses of a distribution add up to {whole:.4f}, not 1"
    )
    return Masses(ids, probabilities, rest)


def _check_flags(tokens: tuple[TracedToken, ...]) -> None:
    """What was accepted comes first, and a token inside another's draft token has none of its own."""
    accepted = [token.accepted for token in tokens]
    demand(
        accepted == sorted(accepted, reverse=True), "counts", "a token was accepted after one that was not"
    )
    for i, token in enumerate(tokens):
        right = not token.inside or (i > 0 and token.accepted and not token.pieces)
        demand(right, "counts", "a token is inside a draft token that it cannot be inside of")


class _Cursor:
    """Takes fields off the front of a payload."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        at = self._take(form.size)
        return form.unpack_from(self._data, at)

    def column(self, kind: str, count: int) -> npt.NDArray[np.generic]:
        at = self._take(count * int(kind[-1]))
        return np.frombuffer(self._data, kind, count, at)

    def draft_ids(self, count: int, layout: PayloadLayout) -> tuple[int, ...]:
        found = self.column(layout.draft_type, count).tolist()
        worst = max(found, default=0)
        size = layout.draft_size
        demand(worst < size, "id_range", f"it holds draft id {worst} of {size}")
        return tuple(found)

    def end(self) -> None:
        extra = len(self._data) - self._at
        demand(extra == 0, "length", f"an entry has {extra} bytes too many")

    def _take(self, count: int) -> int:
        at, self._at = self._at, self._at + count
        missing = self._at - len(self._data)
        demand(missing <= 0, "length", f"an entry lacks {missing} bytes")
        return at


def demand(holds: bool, fault: str, sentence: str) -> None:
    """Refuse a file with the name of a fault unless something holds."""
    if not holds:
        raise TraceFileError(sentence, fault=fault)


def _ids(ids: tuple[int, ...], kind: str) -> bytes:
    return np.array(ids, dtype=kind).tobytes()


def _id_type(size: int) -> str:
    return "<u2" if size <= 1 << 16 else "<u4"


def _is_number(x: float) -> bool:
    """Whether it is finite, not negative and not -0: one way to write a number."""
    return 0.0 <= x < float("inf") and struct.pack("<f", x)[3] < 0x80


def _is_share(x: float) -> bool:
    return _is_number(x) and x <= 1.0
