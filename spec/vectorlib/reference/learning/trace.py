"""What a trace keeps of a row of logits, and the bytes of a segment: spec/12-trace.md."""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vectorlib.reference.vocab_map import VocabMap

MAGIC = b"\x89ODT\r\n\x1a\n"
MODES = ["trie", "match", "direct", "paper", "lookup", "plain"]
Listed = tuple[list[int], list[float], float]  # ids, probabilities, mass of the rest


def half(x: float) -> float:
    """The nearest float16."""
    return float(struct.unpack("<e", struct.pack("<e", x))[0])


def single(x: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    total = math.fsum(weights)
    return [w / total for w in weights]


def largest(masses: dict[int, float], most: int = 64) -> Listed:
    """The ids that a trace lists, ascending, and the mass of the others."""
    ranked = sorted((i for i, m in masses.items() if m >= 2.0**-14), key=lambda i: (-masses[i], i))[:most]
    ids = sorted(ranked)
    rest = math.fsum(m for i, m in masses.items() if i not in ranked)
    return ids, [masses[i] for i in ids], rest


def roots(vocab_map: VocabMap, p: Sequence[float]) -> tuple[dict[int, float], float]:
    """P at the root of the trie of all leaves, by first draft id, and the mass outside the leaves."""
    masses: dict[int, list[float]] = {}
    for t in vocab_map.leaves:
        masses.setdefault(vocab_map.spelling(t)[0], []).append(p[t])
    root_masses = {d: math.fsum(parts) for d, parts in sorted(masses.items())}
    return root_masses, math.fsum(p[t] for t in range(len(p)) if t not in vocab_map.leaves)


@dataclass
class Token:
    """An emitted token, with the target's distribution before it."""

    id: int
    surprisal: float
    distribution: Listed
    roots: Listed
    unspelled: float = 0.0
    accepted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "token_id": self.id,
            "surprisal": single(self.surprisal),
            "accepted": self.accepted,
            "distribution": _listed_json(self.distribution),
            "roots": _listed_json(self.roots),
            "unspelled": single(self.unspelled),
        }


def _listed_json(listed: Listed) -> dict[str, Any]:
    return {"ids": listed[0], "probabilities": [half(p) for p in listed[1]], "rest": single(listed[2])}


@dataclass
class Round:
    """A round."""

    tokens: list[Token]

    def as_json(self) -> dict[str, Any]:
        return {"tokens": [t.as_json() for t in self.tokens]}


@dataclass
class RecordStart:
    """The beginning of a record; an adapter's digest is hexadecimal, 64 zeros for no adapter."""

    context: list[int]
    mode: int = 0
    continues: int = 0
    skipped: int = 0
    digests: tuple[str, str] = ("00" * 32, "00" * 32)

    def as_json(self) -> dict[str, Any]:
        drafter, target = (None if not int(d, 16) else d for d in self.digests)
        return {
            "drafter_adapter": drafter,
            "target_adapter": target,
            "mode": MODES[self.mode],
            "continues": bool(self.continues),
            "skipped": self.skipped,
            "context": self.context,
        }


@dataclass
class Segment:
    """A segment; an entry is the number of a record, with its start or one of its rounds."""

    entries: list[tuple[int, RecordStart | Round]]
    sizes: tuple[int, int] = (9, 13)
    number: int = 1
    drafter: str = "dd" * 32
    target: str = "ee" * 32
    version: int = 2
    reserved: int = 0

    def head(self) -> bytes:
        data = MAGIC + struct.pack("<4I", self.version, *self.sizes, self.reserved)
        return sealed(
            data + bytes.fromhex(self.drafter) + bytes.fromhex(self.target) + struct.pack("<Q", self.number)
        )

    def pack(self) -> bytes:
        return self.head() + b"".join(
            entry(1 if isinstance(e, RecordStart) else 2, record, self.payload(e))
            for record, e in self.entries
        )

    def payload(self, entry: RecordStart | Round) -> bytes:
        return self._start(entry) if isinstance(entry, RecordStart) else self._round(entry)

    def _start(self, start: RecordStart) -> bytes:
        data = b"".join(bytes.fromhex(d) for d in start.digests)
        data += struct.pack("<2BHI", start.mode, start.continues, 0, start.skipped)
        return data + self._ids(start.context, 0)

    def _round(self, round_: Round) -> bytes:
        return b"".join(self._token(t) for t in round_.tokens)

    def _token(self, t: Token) -> bytes:
        (ids, distribution, rest), (draft_ids, masses, others) = t.distribution, t.roots
        data = struct.pack(
            "<I4B4f", t.id, t.accepted, len(ids), len(draft_ids), 0, t.surprisal, rest, others, t.unspelled
        )
        data += self._ids(ids, 1) + struct.pack(f"<{len(distribution)}e", *distribution)
        return data + self._ids(draft_ids, 0) + struct.pack(f"<{len(masses)}e", *masses)

    def _ids(self, ids: Sequence[int], side: int) -> bytes:
        return struct.pack(f"<{len(ids)}{'H' if self.sizes[side] <= 65_536 else 'I'}", *ids)

    def as_json(self) -> dict[str, Any]:
        records: dict[int, Any] = {}
        for record, e in self.entries:
            if isinstance(e, RecordStart):
                records[record] = {"start": e.as_json(), "rounds": []}
            else:
                records[record]["rounds"].append(e.as_json())
        return {
            "draft_fingerprint": self.drafter,
            "target_fingerprint": self.target,
            "draft_size": self.sizes[0],
            "target_size": self.sizes[1],
            "number": self.number,
            "records": [r for r in records.values() if r["rounds"]],
        }


def sealed(data: bytes) -> bytes:
    """The data, with its CRC-32 behind it."""
    return data + struct.pack("<I", zlib.crc32(data))


def entry(kind: int, record: int, payload: bytes, reserved: int = 0) -> bytes:
    """The bytes of one entry."""
    return sealed(struct.pack("<IHHI", len(payload), kind, reserved, record) + payload)
