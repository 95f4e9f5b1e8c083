"""Payloads of the entries of a trace's file: the beginning of a record, and a round (spec/12-trace.md)."""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import TraceFileError
from omnidraft.runtime.traces.trace import (
    FLOOR,
    WINDOW,
    Masses,
    Start,
    TracedRound,
    TracedToken,
    Vocabularies,
)

MODES = ("trie", "match", "direct", "paper", "lookup", "plain")
_START = struct.Struct("<32s32s2BHI")  # digests, mode, continues, reserved, skipped
# id, accepted, ids of distribution and roots, reserved, surprisal, rests of distribution and roots, unspelled
_TOKEN = struct.Struct("<I4B4f")
_NONE = bytes(32)
_NOTHING = Masses(np.zeros(0, np.int32), np.zeros(0, np.float16), 1.0)
_ROUNDING = 2.0**-8  # more than 64 roundings to float16 can add up to


def encode_start(start: Start, vocabularies: Vocabularies) -> bytes:
    """The payload of a record's beginning."""
    digests = [bytes.fromhex(d) if d else _NONE for d in (start.drafter_adapter, start.target_adapter)]
    mode = MODES.index(start.mode)
    fixed = _START.pack(*digests, mode, start.continues, 0, start.skipped)
    return fixed + _ids(start.context, vocabularies.draft_size)


def encode_round(traced: TracedRound, vocabularies: Vocabularies) -> bytes:
    """The payload of a round."""
    return b"".join(_token_bytes(token, vocabularies) for token in traced.tokens)


def _token_bytes(token: TracedToken, vocabularies: Vocabularies) -> bytes:
    distribution, roots = token.distribution, token.roots
    fixed = _TOKEN.pack(
        token.token_id, token.accepted, len(distribution.ids), len(roots.ids), 0,
        token.surprisal, distribution.rest, roots.rest, token.unspelled,
    )  # fmt: skip
    columns: list[bytes] = []
    for masses, size in ((distribution, vocabularies.target_size), (roots, vocabularies.draft_size)):
        columns += [masses.ids.astype(_id_type(size)).tobytes(), masses.probabilities.astype("<f2").tobytes()]
    return b"".join([fixed, *columns])


def decode_start(data: bytes, vocabularies: Vocabularies) -> Start:
    """The beginning of a record in its payload."""
    cursor = _Cursor(data)
    drafter, target, mode, continues, reserved, skipped = cursor.fields(_START)
    demand(reserved == 0, "reserved", f"the reserved field of a record is {reserved}, not 0")
    demand(mode < len(MODES), "kind", f"it has a mode {mode}, outside 0..{len(MODES) - 1}")
    demand(continues < 2, "kind", f"it has a record that continues {continues}, neither 0 nor 1")
    count, extra = divmod(len(data) - _START.size, int(_id_type(vocabularies.draft_size)[-1]))
    demand(extra == 0, "length", f"a record has {extra} bytes too many")
    demand(count <= WINDOW, "limits", f"a record begins with {count} draft ids, more than {WINDOW}")
    demand(skipped == 0 or count == WINDOW, "limits", f"a record keeps {count} draft ids and leaves some out")
    context = cursor.draft_ids(count, vocabularies.draft_size)
    drafter_adapter, target_adapter = (None if d == _NONE else d.hex() for d in (drafter, target))
    return Start(drafter_adapter, target_adapter, MODES[mode], bool(continues), skipped, context)


def decode_round(data: bytes, vocabularies: Vocabularies) -> TracedRound:
    """The round in its payload."""
    cursor, tokens = _Cursor(data), list[TracedToken]()
    demand(cursor.left > 0, "counts", "a round emitted nothing")
    while cursor.left:
        tokens.append(_token(cursor, vocabularies))
    accepted = [token.accepted for token in tokens]
    first_come = accepted == sorted(accepted, reverse=True)
    demand(first_come, "counts", "a token was accepted after one that was not")
    return TracedRound(tuple(tokens))


def _token(cursor: "_Cursor", vocabularies: Vocabularies) -> TracedToken:
    fields, target_size = cursor.fields(_TOKEN), vocabularies.target_size
    token, accepted, num_distribution, num_roots, reserved, surprisal, rest, root_rest, unspelled = fields
    demand(reserved == 0, "reserved", f"the reserved field of a token is {reserved}, not 0")
    demand(token < target_size, "id_range", f"it holds target id {token} of {target_size}")
    demand(accepted < 2, "kind", f"it has a token that was accepted {accepted}, neither 0 nor 1")
    demand(_is_number(surprisal), "number", f"it has a surprisal of {surprisal}")
    demand(_is_share(unspelled), "number", f"it has an unspelled mass of {unspelled}")
    distribution = _masses(cursor, num_distribution, target_size, rest, 0.0)
    roots = _masses(cursor, num_roots, vocabularies.draft_size, root_rest, unspelled)
    return TracedToken(token, surprisal, bool(accepted), distribution, roots, unspelled)


def _masses(cursor: "_Cursor", count: int, size: int, rest: float, beside: float) -> Masses:
    if not count:  # of most tokens of a hostile file, and not worth a few arrays each
        _demand_whole(rest, beside)
        return _NOTHING if rest == 1.0 else Masses(_NOTHING.ids, _NOTHING.probabilities, rest)
    ids = cursor.column(_id_type(size), count).astype(
        np.int64
    )  # 2^31 or more stays itself until it is refused
    probabilities = cursor.column("<f2", count).astype(np.float16)
    demand(bool((np.diff(ids) > 0).all()), "order", "the ids of a distribution do not ascend")
    demand(int(ids[-1]) < size, "id_range", f"it holds id {ids[-1]} of {size}")
    # As a comparison that NaN fails too.
    right = bool(((probabilities >= FLOOR) & (probabilities <= 1.0)).all())
    demand(right, "number", "a distribution has a probability outside 2^-14 to 1")
    _demand_whole(rest, beside, float(probabilities.sum(dtype=np.float64)))
    return Masses(ids.astype(np.int32), probabilities, rest)


def _demand_whole(rest: float, beside: float, listed: float = 0.0) -> None:
    demand(_is_share(rest), "number", f"it has a rest of {rest}")
    whole = listed + rest + beside
    demand(
        abs(whole - 1.0) <= _ROUNDING, "mass", f"the masses of a distribution add up to {whole:.4f}, not 1"
    )


class _Cursor:
    """Reads fields from the front of a payload."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        at = self._take(form.size)
        return form.unpack_from(self._data, at)

    def column(self, kind: str, count: int) -> npt.NDArray[np.generic]:
        at = self._take(count * int(kind[-1]))
        return np.frombuffer(self._data, kind, count, at)

    def draft_ids(self, count: int, size: int) -> tuple[int, ...]:
        ids = self.column(_id_type(size), count).tolist()
        largest = max(ids, default=0)
        demand(largest < size, "id_range", f"it holds draft id {largest} of {size}")
        return tuple(ids)

    @property
    def left(self) -> int:
        """Number of bytes that were not read."""
        return len(self._data) - self._at

    def _take(self, count: int) -> int:
        at, self._at = self._at, self._at + count
        missing = self._at - len(self._data)
        demand(missing <= 0, "length", f"an entry lacks {missing} bytes")
        return at


def demand(holds: bool, fault: str, sentence: str) -> None:
    """Refuse a file with the name of a fault unless a condition holds."""
    if not holds:
        raise TraceFileError(sentence, fault=fault)


def _ids(ids: tuple[int, ...], size: int) -> bytes:
    return np.array(ids, dtype=_id_type(size)).tobytes()


def _id_type(size: int) -> str:
    """The width of ids of a vocabulary: 2 bytes up to 65,536 ids, else 4."""
    return "<u2" if size <= 1 << 16 else "<u4"


def _is_number(x: float) -> bool:
    """Whether a number is finite, not negative and not -0: each number is written in one way."""
    return 0.0 <= x < float("inf") and struct.pack("<f", x)[3] < 0x80


def _is_share(x: float) -> bool:
    return _is_number(x) and x <= 1.0
