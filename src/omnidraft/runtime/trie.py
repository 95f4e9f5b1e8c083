"""The spellings of all target tokens as one sorted array, and the nodes of its trie as ranges.

A node is a run of leaves that share their first `depth` draft tokens, so the whole trie of a 150,000-token
vocabulary costs nothing beyond the map itself; which leaves are *active* is the n-gram cache's business.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.vocab_map import Ids, VocabMap


@dataclass(frozen=True)
class Node:
    """Leaves low:high, whose spellings agree in their first `depth` draft tokens."""

    low: int
    high: int
    depth: int


class ActiveTrie:
    """The trie over the active leaves: direct pairs always, n-grams once they are learned.

    Attributes:
        active: shape [leaves].
        is_root_child: whether some active spelling begins with a draft token, shape [draft vocab].
    """

    def __init__(self, vocab_map: VocabMap) -> None:
        self.map = vocab_map
        self.active: npt.NDArray[np.bool_] = vocab_map.leaf_lengths == 1
        self._direct_drafts = np.flatnonzero(vocab_map.direct >= 0).astype(np.int32)
        self._direct_targets = vocab_map.direct[self._direct_drafts]
        self._grams = np.empty(0, dtype=np.int32)  # active leaves longer than one draft token
        self._num_grams = 0
        self.is_root_child: npt.NDArray[np.bool_] = vocab_map.direct >= 0
        self._root_children = self._direct_drafts

    def __len__(self) -> int:
        """Active n-grams."""
        return self._num_grams

    def activate(self, leaf: int) -> None:
        """Let the leaf of an n-gram take part. It must be inactive."""
        assert not self.active[leaf], f"leaf {leaf} is active already"
        if self._num_grams == len(self._grams):
            self._grams = np.resize(self._grams, max(64, 2 * self._num_grams))
        self._grams[self._num_grams] = leaf
        self._num_grams += 1
        self.active[leaf] = True
        first = self.map.leaf_firsts[leaf]
        if not self.is_root_child[first]:
            self.is_root_child[first] = True
            self._root_children = np.flatnonzero(self.is_root_child).astype(np.int32)

    def root_children(self) -> Ids:
        """Draft tokens that some active spelling begins with, ascending."""
        return self._root_children

    def root(self, token: int) -> Node | None:
        """The child of the root for a draft token, if an active spelling begins with it."""
        if not self.is_root_child[token]:
            return None
        offsets = self.map.first_offsets
        return Node(int(offsets[token]), int(offsets[token + 1]), 1)

    def child(self, node: Node, token: int) -> Node | None:
        """The child of an inner node for a draft token, if an active spelling goes on with it."""
        low = node.low + (int(self.map.leaf_lengths[node.low]) == node.depth)
        column = self._column(np.arange(low, node.high), node.depth)
        found = Node(
            low + int(np.searchsorted(column, token)),
            low + int(np.searchsorted(column, token, side="right")),
            node.depth + 1,
        )
        return found if self.active[found.low : found.high].any() else None

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
        found: Ids = below[self.active[node.low : node.high]]
        return found

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

    def root_targets(self) -> tuple[Ids, Ids]:
        """Every active target token and the draft token its spelling begins with, in parallel arrays."""
        grams = self._grams[: self._num_grams]
        return (
            np.concatenate([self._direct_targets, self.map.leaves[grams]]),
            np.concatenate([self._direct_drafts, self.map.leaf_firsts[grams]]),
        )

    def orphans(self) -> Ids:
        """Target tokens without an active spelling: the drafter cannot propose them now."""
        spelled = np.zeros(self.map.target_size, dtype=np.bool_)
        spelled[self.map.leaves[self.active]] = True
        return np.flatnonzero(~spelled).astype(np.int32)

    def _column(self, leaves: npt.NDArray[np.integer], depth: int) -> Ids:
        """Draft token number `depth` of each leaf's spelling."""
        found: Ids = self.map.spellings.values[self.map.leaf_starts[leaves] + depth].astype(np.int32)
        return found
