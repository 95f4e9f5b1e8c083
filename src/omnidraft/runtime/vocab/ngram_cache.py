"""The n-gram cache: target tokens that the drafter writes in several pieces, learned while generating.

An entry says that a run of draft tokens spells one target token. The run itself is in the vocabulary map,
so an entry is a target id and its counts (method section 3). A cache changes only between rounds.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import SettingError
from omnidraft.runtime.vocab.cache_table import (
    MAX_COUNT,
    MAX_PIECES,
    CacheTable,
    eviction_order,
    first_to_evict,
    rows,
)
from omnidraft.runtime.vocab.trie import ActiveTrie, grown
from omnidraft.runtime.vocab.vocab_map import VocabMap

CAPACITY = defaults.CACHE_CAPACITY

_TICK, _HITS, _ACCEPTED = 0, 1, 2  # rows of the counts


@dataclass(frozen=True)
class Entry:
    """One cached n-gram: its target token, times emitted, times proposed and accepted, last round emitted."""

    target_id: int
    hits: int
    accepted: int
    tick: int


class NgramCache:
    """Cached n-grams of one (drafter, target) pair.

    Attributes:
        capacity: entries at most; inserting another evicts the entry with the fewest hits.
    """

    def __init__(self, vocab_map: VocabMap, *, capacity: int = CAPACITY) -> None:
        """
        Raises:
            SettingError: a capacity below 1.
        """
        if capacity < 1:
            raise SettingError(
                f"cache capacity {capacity} is less than 1", "give room for at least one n-gram"
            )
        self.map, self.capacity = vocab_map, capacity
        self.trie = ActiveTrie(vocab_map)
        self.tick = 0
        # Column i belongs to trie.grams[i].
        self._counts = np.zeros((3, 64), dtype=np.uint32)

    def __len__(self) -> int:
        return len(self.trie)

    def entries(self) -> list[Entry]:
        """All entries, by target id."""
        columns = self.trie.grams, *self._counts[[_HITS, _ACCEPTED, _TICK], : len(self)]
        return [Entry(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def insert(self, target_id: int) -> bool:
        """Add the n-gram of a target token; False if there is none or it is cached. A full cache evicts."""
        leaf = int(self.map.leaf_of[target_id])
        if leaf < 0 or self.trie.active[leaf] or not 2 <= int(self.map.leaf_lengths[leaf]) <= MAX_PIECES:
            return False
        if len(self) >= self.capacity:
            # Before inserting: the new entry would always be the first to be evicted.
            self._evict(first_to_evict(*self._counts[[_HITS, _TICK], : len(self)]))
        size = len(self)
        if size == self._counts.shape[1]:
            self._counts = grown(self._counts, size + 1)
        at = self.trie.activate(leaf)
        self._counts[:, at + 1 : size + 1] = self._counts[:, at:size]
        self._counts[:, at] = 0
        self._counts[_TICK, at] = self.tick
        return True

    def learn(self, emitted: Iterable[int], num_accepted: int) -> int:
        """Learn from the target tokens of a verified round, and return the number of new n-grams.

        Args:
            emitted: target ids of the round, accepted ones first.
            num_accepted: how many of them were proposed and accepted.
        """
        new = 0
        self.tick = min(self.tick + 1, MAX_COUNT)
        for i, token in enumerate(emitted):
            new += self.insert(token)
            at = self._place(token)
            if at is not None:
                column = self._counts[:, at]
                column[_TICK] = self.tick
                column[_HITS] += column[_HITS] < MAX_COUNT
                column[_ACCEPTED] += i < num_accepted and column[_ACCEPTED] < MAX_COUNT
        return new

    def prefill(self) -> int:
        """Insert every n-gram of the map, make room for them, and return the number of new n-grams."""
        lengths = self.map.leaf_lengths
        leaves = np.flatnonzero((lengths > 1) & (lengths <= MAX_PIECES) & ~self.trie.active)
        self._insert_all(leaves)
        self.capacity = max(self.capacity, len(self))
        return len(leaves)

    def table(self) -> CacheTable:
        """The contents as a value."""
        grams = self.trie.grams.astype(np.int32)
        return CacheTable(
            self.map.draft_fingerprint, self.map.target_fingerprint, self.tick,
            grams, rows(self.map.spellings, grams), *self._counts[:, : len(self)].copy(),
        )  # fmt: skip

    @classmethod
    def of_table(cls, table: CacheTable, vocab_map: VocabMap, *, capacity: int = CAPACITY) -> "NgramCache":
        """The cache with the contents of a table; entries beyond the capacity are evicted."""
        cache = cls(vocab_map, capacity=capacity)
        order = eviction_order(table.hits, table.ticks)
        kept = table.keep(np.sort(order[max(0, len(table) - capacity) :]))
        cache.tick = table.tick
        cache._insert_all(vocab_map.leaf_of[kept.targets])
        cache._counts[:] = kept.ticks, kept.hits, kept.accepted
        return cache

    def _insert_all(self, leaves: npt.NDArray[np.integer]) -> None:
        before, counts = self.trie.grams.copy(), self._counts[:, : len(self)]
        self.trie.activate_all(leaves)
        self._counts = np.zeros((len(counts), len(self)), dtype=np.uint32)
        self._counts[_TICK] = self.tick
        self._counts[:, np.searchsorted(self.trie.grams, before)] = counts

    def _evict(self, at: int) -> None:
        self.trie.deactivate(int(self.map.leaf_of[self.trie.grams[at]]))
        self._counts[:, at : len(self)] = self._counts[:, at + 1 : len(self) + 1]

    def _place(self, target_id: int) -> int | None:
        """The column of a target token's entry, if it has one."""
        grams = self.trie.grams
        at = int(grams.searchsorted(target_id))  # np.searchsorted takes three times as long for one id
        return at if at < len(grams) and grams[at] == target_id else None
