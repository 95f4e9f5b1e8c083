"""The spellings of all target tokens as one sorted array, and the nodes of its trie as ranges.

A node is a run of leaves that share their first `depth` draft tokens. So the trie of a 150,000-token
vocabulary needs no memory beyond the map. The n-gram cache decides which leaves are *active*.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.vocab.vocab_map import Ids, VocabMap

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Node:
    """Leaves low:high, whose spellings agree in their first `depth` draft tokens."""

    low: int
    high: int
    depth: int


def grown(array: npt.NDArray[Number], columns: int) -> npt.NDArray[Number]:
    """A copy with room for this number of columns and a quarter more, so that growing stays cheap."""
    wider = np.zeros((array.shape[0], columns + columns // 4 + 64), dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


class ActiveTrie:
    """The trie over the active leaves: direct pairs always, n-grams once learned.

    Attributes:
        active: whether each leaf is active, shape [leaves].
        root_mask: 1.0 for each draft token that some active spelling begins with, shape [draft vocab].
    """

    def __init__(self, vocab_map: VocabMap) -> None:
        self.map = vocab_map
        self.active: npt.NDArray[np.bool_] = vocab_map.leaf_lengths == 1
        self.root_mask = (vocab_map.direct >= 0).astype(np.float32)
        self._direct_drafts, self._direct_targets = vocab_map.direct_pairs
        # Active n-grams by ascending target token: that token, and the first draft token of its spelling.
        self._grams = np.empty((2, 64), dtype=np.intp)
        self._num_grams = 0

    def __len__(self) -> int:
        """Active n-grams."""
        return self._num_grams

    @property
    def grams(self) -> npt.NDArray[np.intp]:
        """Target tokens of the active n-grams, ascending; a view that the next change invalidates."""
        return self._grams[0, : self._num_grams]

    def activate(self, leaf: int) -> int:
        """Activate the leaf of an n-gram, which is inactive, and return its index in `grams`."""
        assert not self.active[leaf], f"leaf {leaf} is active already"
        size = self._num_grams
        if size == self._grams.shape[1]:
            self._grams = grown(self._grams, size + 1)
        target, first = self.map.leaves[leaf], self.map.leaf_firsts[leaf]
        at = int(np.searchsorted(self.grams, target))
        self._grams[:, at + 1 : size + 1] = self._grams[:, at:size]
        self._grams[:, at] = target, first
        self._num_grams += 1
        self.active[leaf] = True
        self.root_mask[first] = 1.0
        return at

    def activate_all(self, leaves: npt.NDArray[np.integer]) -> None:
        """Activate many leaves of n-grams at once; they are distinct and inactive."""
        assert not self.active[leaves].any(), "a leaf is active already"
        grams = np.array([self.map.leaves[leaves], self.map.leaf_firsts[leaves]], dtype=np.intp)
        merged = np.concatenate([self._grams[:, : self._num_grams], grams], axis=1)
        self._grams = merged[:, np.argsort(merged[0])]
        self._num_grams = merged.shape[1]
        self.active[leaves] = True
        self.root_mask[self.map.leaf_firsts[leaves]] = 1.0

    def deactivate(self, leaf: int) -> int:
        """Deactivate the leaf of an n-gram, and return the index that it had in `grams`."""
        target, first = self.map.leaves[leaf], int(self.map.leaf_firsts[leaf])
        at = int(np.searchsorted(self.grams, target))
        assert at < self._num_grams and self.grams[at] == target, f"leaf {leaf} is not an active n-gram"
        self._grams[:, at : self._num_grams - 1] = self._grams[:, at + 1 : self._num_grams]
        self._num_grams -= 1
        self.active[leaf] = False
        low, high = self.map.first_offsets[first : first + 2]
        self.root_mask[first] = float(self.map.direct[first] >= 0 or self.active[low:high].any())
        return at

    def root(self, token: int) -> Node | None:
        """The child of the root for a draft token, if an active spelling begins with it."""
        if not self.root_mask[token]:
            return None
        offsets = self.map.first_offsets
        return Node(int(offsets[token]), int(offsets[token + 1]), 1)

    def child(self, node: Node, token: int) -> Node | None:
        """The child of an inner node for a draft token, if an active spelling continues with it."""
        low = node.low + (int(self.map.leaf_lengths[node.low]) == node.depth)
        column = self._column(slice(low, node.high), node.depth)
        first, end = (low + int(column.searchsorted(token, side)) for side in ("left", "right"))
        below = Node(first, end, node.depth + 1)
        return below if self.active[below.low : below.high].any() else None

    def terminal(self, node: Node) -> int | None:
        """The target token spelled exactly by the path to a node, if it is active."""
        ends = self.active[node.low] and int(self.map.leaf_lengths[node.low]) == node.depth
        return int(self.map.leaves[node.low]) if ends else None

    def draft_token(self, node: Node) -> int:
        """The draft token that leads into a node."""
        return int(self.map.spellings.values[self.map.leaf_starts[node.low] + node.depth - 1])

    def targets(self, node: Node) -> Ids:
        """Active target tokens at or below a node, in trie order."""
        below: Ids = self.map.leaves[node.low : node.high]
        active: Ids = below[self.active[node.low : node.high]]
        return active

    def children(self, node: Node) -> tuple[Ids, Ids, Ids]:
        """Active children of a node.

        Returns:
            (tokens, targets, owner): the distinct draft tokens ascending, the active target tokens below
            them, and for each target token the index of its child in `tokens`.
        """
        low = node.low + (int(self.map.leaf_lengths[node.low]) == node.depth)
        leaves = low + np.flatnonzero(self.active[low : node.high])
        tokens, owner = np.unique(self._column(leaves, node.depth), return_inverse=True)
        return tokens.astype(np.int32), self.map.leaves[leaves], owner.astype(np.int32)

    @property
    def direct(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Draft and target ids of the direct pairs."""
        return self._direct_drafts, self._direct_targets

    @property
    def gram_roots(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Target ids of the active n-grams, and the first draft token of each spelling."""
        targets, firsts = self._grams[:, : self._num_grams]
        return targets, firsts

    def spelled(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Target tokens with an active spelling: those of the direct pairs, and those of the n-grams."""
        return self._direct_targets, self.grams

    def _column(self, leaves: npt.NDArray[np.integer] | slice, depth: int) -> Ids:
        """Draft token number `depth` of each leaf's spelling."""
        column: Ids = self.map.spellings.values[self.map.leaf_starts[leaves] + depth].astype(np.int32)
        return column
