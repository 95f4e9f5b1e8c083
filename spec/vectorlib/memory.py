"""The n-gram cache as a dictionary, its file's bytes, and the merge: spec/ngram-cache.md."""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vectorlib.reference.vocab_map import VocabMap

Count = tuple[int, int]  # hits, accepted
MAGIC = b"\x89ODNC\r\n\x1a"


@dataclass
class Table:
    """What a cache file holds.

    Attributes:
        drafter, target: fingerprints, hexadecimal.
        entries: target id -> (spelling, tick).
        counts: replica -> target id -> (hits, accepted); absent: both 0.
    """

    drafter: str = "dd" * 32
    target: str = "ee" * 32
    writer: int = 0
    tick: int = 0
    entries: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    counts: dict[int, dict[int, Count]] = field(default_factory=dict)

    def canonical(self) -> "Table":
        """Without replicas that counted nothing; of the others the 16 with the highest ids."""
        counted = sorted(r for r, c in self.counts.items() if any(any(pair) for pair in c.values()))
        return replace(self, counts={r: self.counts[r] for r in counted[-16:]})

    def as_json(self) -> dict[str, Any]:
        """64-bit ids as text: not every language's JSON holds them."""
        return {
            "draft_fingerprint": self.drafter,
            "target_fingerprint": self.target,
            "writer": f"{self.writer:#018x}",
            "tick": self.tick,
            "entries": [
                {"target_id": t, "spelling": list(spelling), "tick": tick}
                for t, (spelling, tick) in sorted(self.entries.items())
            ],
            "replicas": [
                {"id": f"{r:#018x}", "hits": [c[0] for c in pairs], "accepted": [c[1] for c in pairs]}
                for r, pairs in ((r, self.pairs(r)) for r in sorted(self.counts))
            ],
        }

    def pairs(self, replica: int) -> list[Count]:
        """A replica's counts, entry by entry."""
        return [self.counts[replica].get(t, (0, 0)) for t in sorted(self.entries)]


@dataclass
class Columns:
    """A file before it is packed: here single fields can be spoilt for the invalid ones."""

    version: int
    widths: list[int]
    head: list[Any]  # drafter, target, n, r, writer, tick, reserved
    columns: list[list[int]]  # targets, lengths, pieces, ticks, replicas, counts

    def pack(self, spoil: Callable[[list[bytes]], object] | None = None) -> bytes:
        """The file's bytes; `spoil` may change the sections before they are measured."""
        widths = [self.widths[0], 1, self.widths[1], self.widths[2], 8, self.widths[3]]
        sections = [
            b"".join(x.to_bytes(width, "little") for x in column)
            for column, width in zip(self.columns, widths, strict=True)
        ]
        if spoil:
            spoil(sections)
        lines = [struct.pack("<II", len(s), zlib.crc32(s)) for s in sections]
        head = struct.pack("<8sI4B32s32sIIQII", MAGIC, self.version, *self.widths, *self.head) + b"".join(
            lines
        )
        return head + struct.pack("<I", zlib.crc32(head)) + b"".join(sections)


def columns_of(table: Table) -> Columns:
    """The canonical columns of a table."""
    table = table.canonical()
    ids = sorted(table.entries)
    spellings = [table.entries[t][0] for t in ids]
    pieces = [d for s in spellings for d in s]
    ticks = [table.entries[t][1] for t in ids]
    replicas = sorted(table.counts)
    counts = [pair[which] for r in replicas for which in (0, 1) for pair in table.pairs(r)]
    bytes_of = [bytes.fromhex(table.drafter), bytes.fromhex(table.target)]
    return Columns(
        1,
        [_width(column) for column in (ids, pieces, ticks, counts)],
        [*bytes_of, len(ids), len(replicas), table.writer, table.tick, 0],
        [ids, [len(s) for s in spellings], pieces, ticks, replicas, counts],
    )


def encode(table: Table) -> bytes:
    """The one way to write a table."""
    return columns_of(table).pack()


def _width(column: Sequence[int]) -> int:
    top = max(column, default=0)
    return 1 if top < 256 else 2 if top < 65536 else 4


def merge(a: Table, b: Table) -> Table:
    """Union of entries, maximum of every number."""
    ids = {**a.entries, **b.entries}
    entries = {
        t: (ids[t][0], max(table.entries[t][1] for table in (a, b) if t in table.entries)) for t in ids
    }
    counts: dict[int, dict[int, Count]] = {}
    for table in (a, b):
        for replica, pairs in table.counts.items():
            mine = counts.setdefault(replica, {})
            for t, (hits, accepted) in pairs.items():
                before = mine.get(t, (0, 0))
                mine[t] = (max(before[0], hits), max(before[1], accepted))
    writer = a.writer if a.writer == b.writer else 0
    return Table(a.drafter, a.target, writer, max(a.tick, b.tick), entries, counts).canonical()


class Memory:
    """A cache while it learns: target id -> [hits, accepted, tick]."""

    def __init__(self, words: VocabMap, capacity: int = 1 << 15, policy: str = "lfu") -> None:
        self._words, self._capacity, self._policy = words, capacity, policy
        self.tick = 0
        self.entries: dict[int, list[int]] = {}

    def insert(self, token: int) -> int:
        """1 when the token's n-gram is new."""
        known = token not in self._words.leaves or token in self.entries
        if known or not 2 <= len(self._words.spelling(token)) <= 255:
            return 0
        if len(self.entries) >= self._capacity:
            del self.entries[min(self.entries, key=self._rank)]
        self.entries[token] = [0, 0, self.tick]
        return 1

    def learn(self, emitted: Sequence[int], num_accepted: int) -> int:
        """Take in a round's tokens; how many n-grams are new."""
        self.tick, new = self.tick + 1, 0
        for i, token in enumerate(emitted):
            new += self.insert(token)
            if token in self.entries:
                hits, accepted, _ = self.entries[token]
                self.entries[token] = [hits + 1, accepted + (i < num_accepted), self.tick]
        return new

    def _rank(self, token: int) -> tuple[int, int, int]:
        hits, _, tick = self.entries[token]
        return (hits, tick, token) if self._policy == "lfu" else (tick, hits, token)
