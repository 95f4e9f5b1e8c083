"""Traces: what they keep of a row, and the bytes of their segments, from the rules of spec/trace.md."""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.vocab_map import Words

MAGIC = b"\x89ODT\r\n\x1a\n"
MODES = ["trie", "match", "direct", "paper", "lookup", "plain"]
Kept = tuple[list[int], list[float], float]  # ids, probabilities, rest


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


def largest(masses: dict[int, float], most: int = 64) -> Kept:
    """The ids that are kept, ascending, and the mass of the others."""
    ranked = sorted((i for i, m in masses.items() if m >= 2.0**-14), key=lambda i: (-masses[i], i))[:most]
    ids = sorted(ranked)
    rest = math.fsum(m for i, m in masses.items() if i not in ranked)
    return ids, [masses[i] for i in ids], rest


def roots(words: Words, p: Sequence[float]) -> tuple[dict[int, float], float]:
    """P at the root of the trie of all leaves, by first draft id, and what no leaf has."""
    masses: dict[int, list[float]] = {}
    for t in words.leaves:
        masses.setdefault(words.spelling(t)[0], []).append(p[t])
    found = {d: math.fsum(parts) for d, parts in sorted(masses.items())}
    return found, math.fsum(p[t] for t in range(len(p)) if t not in words.leaves)


@dataclass
class Token:
    """An emitted token. distribution, roots: (ids, probabilities, rest)."""

    id: int
    surprisal: float
    distribution: Kept
    roots: Kept
    unspelled: float = 0.0
    pieces: list[int] = field(default_factory=list)
    accepted: bool = False
    inside: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "token_id": self.id,
            "surprisal": single(self.surprisal),
            "accepted": self.accepted,
            "inside": self.inside,
            "pieces": self.pieces,
            "distribution": _kept_json(self.distribution),
            "roots": _kept_json(self.roots),
            "unspelled": single(self.unspelled),
        }


def _kept_json(kept: Kept) -> dict[str, Any]:
    return {"ids": kept[0], "probabilities": [half(p) for p in kept[1]], "rest": single(kept[2])}


@dataclass
class Pass:
    """A round; judged: (kind, draft index, label)."""

    position: int
    tokens: list[Token]
    draft: list[int] = field(default_factory=list)
    tested: int = 0
    passed: int = 0
    judged: list[tuple[int, int, float]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "draft": self.draft,
            "tested": self.tested,
            "passed": self.passed,
            "judged": [{"kind": k, "draft": d, "label": single(x)} for k, d, x in self.judged],
            "tokens": [t.as_json() for t in self.tokens],
        }


@dataclass
class Begin:
    """The beginning of a record; digests hexadecimal, 64 zeros for none."""

    context: list[int]
    temperature: float = 0.0
    mode: int = 0
    continues: int = 0
    skipped: int = 0
    digests: tuple[str, str] = ("00" * 32, "00" * 32)

    def as_json(self) -> dict[str, Any]:
        drafter, target = (None if not int(d, 16) else d for d in self.digests)
        return {
            "drafter_adapter": drafter,
            "target_adapter": target,
            "temperature": single(self.temperature),
            "mode": MODES[self.mode],
            "continues": bool(self.continues),
            "skipped": self.skipped,
            "context": self.context,
        }


@dataclass
class Tape:
    """A segment: entries are (number of the record, what it holds)."""

    entries: list[tuple[int, Begin | Pass]]
    sizes: tuple[int, int] = (9, 13)
    number: int = 1
    drafter: str = "dd" * 32
    target: str = "ee" * 32
    version: int = 1
    reserved: int = 0

    def head(self) -> bytes:
        data = MAGIC + struct.pack("<4I", self.version, *self.sizes, self.reserved)
        return sealed(
            data + bytes.fromhex(self.drafter) + bytes.fromhex(self.target) + struct.pack("<Q", self.number)
        )

    def pack(self) -> bytes:
        return self.head() + b"".join(
            entry(1 if isinstance(e, Begin) else 2, record, self.payload(e)) for record, e in self.entries
        )

    def payload(self, what: Begin | Pass) -> bytes:
        if isinstance(what, Begin):
            data = b"".join(bytes.fromhex(d) for d in what.digests)
            data += struct.pack("<f2BHI", what.temperature, what.mode, what.continues, 0, what.skipped)
            return data + self._ids(what.context, 0)
        counts = len(what.draft), what.tested, what.passed, len(what.judged), len(what.tokens)
        data = struct.pack("<I5B3x", what.position, *counts) + self._ids(what.draft, 0)
        data += bytes(k for k, _, _ in what.judged) + bytes(d for _, d, _ in what.judged)
        data += b"".join(struct.pack("<f", x) for _, _, x in what.judged)
        return data + b"".join(self._token(t) for t in what.tokens)

    def _token(self, t: Token) -> bytes:
        (ids, distribution, rest), (draft_ids, masses, others) = t.distribution, t.roots
        data = struct.pack(
            "<I4BI4f", t.id, t.accepted + 2 * t.inside, len(ids), len(draft_ids), 0, len(t.pieces),
            t.surprisal, rest, others, t.unspelled,
        )  # fmt: skip
        data += self._ids(t.pieces, 0)
        data += self._ids(ids, 1) + struct.pack(f"<{len(distribution)}e", *distribution)
        return data + self._ids(draft_ids, 0) + struct.pack(f"<{len(masses)}e", *masses)

    def _ids(self, ids: Sequence[int], side: int) -> bytes:
        return struct.pack(f"<{len(ids)}{'H' if self.sizes[side] <= 65_536 else 'I'}", *ids)

    def as_json(self) -> dict[str, Any]:
        records: dict[int, Any] = {}
        for record, e in self.entries:
            if isinstance(e, Begin):
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
    return data + struct.pack("<I", zlib.crc32(data))


def entry(kind: int, record: int, payload: bytes, reserved: int = 0) -> bytes:
    """The bytes of one entry."""
    return sealed(struct.pack("<IHHI", len(payload), kind, reserved, record) + payload)
