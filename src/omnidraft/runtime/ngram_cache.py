"""What was learned of a target's language: which of its tokens the drafter writes in several pieces.

An entry says that a run of draft tokens spells one target token. The run itself is in the vocabulary map,
so an entry is a target id and its counts (method section 3).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from omnidraft.runtime.trie import ActiveTrie
from omnidraft.runtime.vocab_map import VocabMap


@dataclass(frozen=True)
class Entry:
    """One cached n-gram: its target token, times emitted, times proposed and accepted, last round used."""

    target_id: int
    hits: int
    accepted: int
    tick: int


class NgramCache:
    """Cached n-grams of one (drafter, target) pair, learned while it runs.

    Attributes:
        trie: the active trie that the translator and the verifier read.
    """

    def __init__(self, vocab_map: VocabMap) -> None:
        self.map = vocab_map
        self.trie = ActiveTrie(vocab_map)
        self.tick = 0
        self._slots = np.full(vocab_map.target_size, -1, dtype=np.int32)
        self._targets = np.empty(64, dtype=np.int32)
        self._counts = np.zeros((64, 3), dtype=np.uint32)  # hits, accepted, tick

    def __len__(self) -> int:
        return len(self.trie)

    def __contains__(self, target_id: int) -> bool:
        return bool(self._slots[target_id] >= 0)

    def entries(self) -> list[Entry]:
        """All entries, by target id."""
        slots = np.argsort(self._targets[: len(self)])
        return [Entry(int(self._targets[s]), *(int(c) for c in self._counts[s])) for s in slots]

    def insert(self, target_id: int) -> bool:
        """Add the n-gram of a target token; False when there is none or it is known."""
        leaf = int(self.map.leaf_of[target_id])
        if leaf < 0 or target_id in self or int(self.map.leaf_lengths[leaf]) < 2:
            return False
        slot = len(self)
        if slot == len(self._targets):
            self._targets = np.resize(self._targets, 2 * slot)
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._targets[slot] = target_id
        self._counts[slot] = (0, 0, self.tick)
        self._slots[target_id] = slot
        self.trie.activate(leaf)
        return True

    def learn(self, emitted: Iterable[int], num_accepted: int) -> int:
        """Take in the target tokens of a round and return how many n-grams are new.

        Args:
            emitted: target ids of the round, accepted ones first.
            num_accepted: how many of them were proposed and accepted.
        """
        new = 0
        self.tick += 1
        for i, token in enumerate(emitted):
            new += self.insert(token)
            slot = self._slots[token]
            if slot >= 0:
                self._counts[slot] += np.array([1, i < num_accepted, 0], dtype=np.uint32)
                self._counts[slot, 2] = self.tick
        return new

    def prefill(self) -> int:
        """Insert every n-gram that the map knows, and return how many are new."""
        return sum(self.insert(int(t)) for t in self.map.leaves[self.map.leaf_lengths > 1])
