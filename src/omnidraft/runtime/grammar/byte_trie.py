"""The bytes of all tokens of a target as a trie, level by level. spec/17-grammar.md."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


Nodes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Level:
    """The nodes of one depth, sorted by their bytes.

    Attributes:
        parents: the node of the level before; shape [nodes].
        bytes: the last byte of each node; shape [nodes].
        tokens: ids of the tokens that end at this depth; shape [tokens].
        nodes: the node of each of them; shape [tokens].
    """

    parents: Ids
    bytes: npt.NDArray[np.uint8]
    tokens: Ids
    nodes: Ids

    @cached_property
    def _starts(self) -> Nodes:
        """The first child of each node of the level before, and the number of all nodes."""
        return np.searchsorted(self.parents, np.arange(int(self.parents[-1]) + 2))

    def children(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """The nodes below some nodes of the level before, which are ascending, and the parent of each."""
        starts = self._starts
        parents = nodes[nodes < len(starts) - 1]
        first, counts = starts[parents], starts[parents + 1] - starts[parents]
        offsets = np.cumsum(counts) - counts
        below = np.repeat(first - offsets, counts) + np.arange(int(counts.sum()))
        return below, np.repeat(parents, counts)


class ByteTrie:
    """All tokens that have bytes; control tokens and unused ids are in no level."""

    def __init__(self, tokens: Sequence[bytes | None], width: int) -> None:
        """
        Args:
            tokens: bytes of each id; None for control tokens and unused ids.
            width: of the logits, which may have more ids.
        """
        self.width, self.tokens = width, tokens
        order = sorted((i for i, text in enumerate(tokens) if text), key=lambda i: tokens[i] or b"")
        texts = [tokens[i] or b"" for i in order]
        self._texts, self._ids = texts, np.array(order, np.int32)
        self.known = frozenset(texts)
        self.longest = max(map(len, texts), default=0)
        self.levels = _levels(texts, self._ids)
        self.silent = np.ones(width, np.bool_)  # whether an id has no bytes
        self.silent[order] = False

    def beyond(self, data: bytes) -> Ids:
        """The ids of the tokens that begin with some bytes and have more."""
        first, end = (bisect_right(self._texts, data + b"\xff" * more) for more in (0, self.longest))
        return self._ids[first:end]


def _levels(texts: list[bytes], ids: Ids) -> list[Level]:
    """The levels of sorted texts."""
    if not texts:
        return []
    lengths = np.array([len(text) for text in texts])
    table = np.zeros((len(texts), int(lengths.max())), np.uint8)
    flat = np.frombuffer(b"".join(texts), np.uint8)
    table[np.arange(table.shape[1]) < lengths[:, None]] = flat
    differs = np.ones(
        len(texts), bool
    )  # whether the bytes up to this depth differ from those of the text before
    differs[1:] = False
    node = np.zeros(len(texts), np.int32)
    levels = []
    for depth in range(table.shape[1]):
        there = lengths > depth
        differs[1:] |= table[1:, depth] != table[:-1, depth]
        before = np.maximum.accumulate(np.where(there, np.arange(len(texts)), -1))
        last = np.append(-1, before[:-1])  # the text before that is as long
        gap = np.add.accumulate(differs)
        starts = there & ((last < 0) | (gap != gap[np.maximum(last, 0)]))
        numbers = (np.add.accumulate(starts) - 1).astype(np.int32)
        first = np.flatnonzero(starts)
        ends = np.flatnonzero(lengths == depth + 1)
        levels.append(Level(node[first], table[first, depth], ids[ends], numbers[ends]))
        node = np.where(there, numbers, node)
    return levels
