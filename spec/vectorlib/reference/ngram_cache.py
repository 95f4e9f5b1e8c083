"""The n-gram cache as a dictionary, the bytes of its file, and the merge: spec/06-ngram-cache.md."""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vectorlib.reference.vocab_map import VocabMap

MAGIC = b"\x89ODNC\r\n\x1a"
VERSION = 2
MOST = (1 << 32) - 1


class CacheEntry(NamedTuple):
    """One n-gram: the draft tokens that spell its target token, and its counts."""

    spelling: tuple[int, ...]
    tick: int = 0
    hits: int = 0
    accepted: int = 0


@dataclass
class CacheTable:
    """The contents of a cache file.

    Attributes:
        drafter, target: fingerprints, hexadecimal.
        tick: rounds learned from.
        entries: by target id.
    """

    drafter: str = "dd" * 32
    target: str = "ee" * 32
    tick: int = 0
    entries: dict[int, CacheEntry] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The table as vectors show it."""
        return {
            "draft_fingerprint": self.drafter,
            "target_fingerprint": self.target,
            "tick": self.tick,
            "entries": [
                {
                    "target_id": t,
                    "spelling": list(entry.spelling),
                    "hits": entry.hits,
                    "accepted": entry.accepted,
                    "tick": entry.tick,
                }
                for t, entry in sorted(self.entries.items())
            ],
        }


@dataclass
class FileColumns:
    """A file before it is packed: a case of an invalid file spoils single fields here."""

    version: int
    widths: list[int]
    head: list[Any]  # drafter, target, n, tick, reserved
    columns: list[list[int]]  # targets, lengths, pieces, ticks, counts

    def pack(self, spoil: Callable[[list[bytes]], object] | None = None) -> bytes:
        """The bytes of the file; `spoil` may change the sections before they are measured."""
        targets, pieces, ticks, counts = self.widths
        sections = [
            b"".join(x.to_bytes(width, "little") for x in column)
            for column, width in zip(self.columns, [targets, 1, pieces, ticks, counts], strict=True)
        ]
        if spoil:
            spoil(sections)
        head = struct.pack("<8sI4B32s32sIII", MAGIC, self.version, *self.widths, *self.head)
        head += b"".join(struct.pack("<II", len(s), zlib.crc32(s)) for s in sections)
        return head + struct.pack("<I", zlib.crc32(head)) + b"".join(sections)


def columns_of(table: CacheTable) -> FileColumns:
    """The columns of a table, each with the smallest width."""
    targets = sorted(table.entries)
    entries = [table.entries[t] for t in targets]
    pieces = [d for entry in entries for d in entry.spelling]
    ticks = [entry.tick for entry in entries]
    counts = [entry.hits for entry in entries] + [entry.accepted for entry in entries]
    prints = [bytes.fromhex(table.drafter), bytes.fromhex(table.target)]
    return FileColumns(
        VERSION,
        [_width(column) for column in (targets, pieces, ticks, counts)],
        [*prints, len(targets), table.tick, 0],
        [targets, [len(entry.spelling) for entry in entries], pieces, ticks, counts],
    )


def encode(table: CacheTable) -> bytes:
    """The one way to write a table."""
    return columns_of(table).pack()


def _width(column: Sequence[int]) -> int:
    top = max(column, default=0)
    return 1 if top < 256 else 2 if top < 65536 else 4


def merge(a: CacheTable, b: CacheTable) -> CacheTable:
    """The union of the entries, with the maximum of every number."""
    entries = dict(a.entries)
    for t, entry in b.entries.items():
        own = entries.get(t, CacheEntry(entry.spelling))
        numbers = (max(pair) for pair in zip(own[1:], entry[1:], strict=True))
        entries[t] = CacheEntry(entry.spelling, *numbers)
    return CacheTable(a.drafter, a.target, max(a.tick, b.tick), entries)


def eviction_rank(target: int, entry: CacheEntry) -> tuple[int, int, int]:
    """The entry with the lowest rank is evicted first."""
    return entry.hits, entry.tick, target


class NgramCache:
    """A cache that learns round by round.

    Attributes:
        tick: rounds learned from.
        entries: by target id.
    """

    def __init__(self, vocab_map: VocabMap, capacity: int = 1 << 15) -> None:
        self._map, self._capacity = vocab_map, capacity
        self.tick = 0
        self.entries: dict[int, CacheEntry] = {}

    def insert(self, target: int) -> int:
        """Insert the n-gram of a target token; 1 if the n-gram is new, else 0."""
        known = target not in self._map.leaves or target in self.entries
        if known or not 2 <= len(self._map.spelling(target)) <= 255:
            return 0
        if len(self.entries) >= self._capacity:
            rank = {t: eviction_rank(t, entry) for t, entry in self.entries.items()}
            del self.entries[min(rank, key=rank.__getitem__)]
        self.entries[target] = CacheEntry(tuple(self._map.spelling(target)), self.tick)
        return 1

    def prefill(self) -> None:
        """Insert every n-gram of the map that is missing, with room for all of them."""
        asked, self._capacity = self._capacity, len(self._map.target)
        for target in self._map.leaves:
            self.insert(target)
        self._capacity = max(asked, len(self.entries))

    def learn(self, emitted: Sequence[int], num_accepted: int) -> int:
        """Learn from the emitted tokens of a round; return the number of new n-grams."""
        self.tick, new = min(self.tick + 1, MOST), 0
        for i, target in enumerate(emitted):
            new += self.insert(target)
            if target in self.entries:
                spelling, _, hits, accepted = self.entries[target]
                numbers = (hits + 1, accepted + (i < num_accepted))
                self.entries[target] = CacheEntry(spelling, self.tick, *(min(x, MOST) for x in numbers))
        return new
