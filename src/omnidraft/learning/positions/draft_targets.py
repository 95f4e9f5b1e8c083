"""The target's distribution over *draft* tokens at each position of a draft context; numpy only.

A position is at the start of a spelling, inside one, or right after one (method section 5.2). Mass whose
draft token is unknown is in OTHER: the end of a token inside a spelling, and what a cut row does not list.
The distribution is conditional on a token with a spelling; the weight is the probability of that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.target_rows import Ids, Probabilities, TargetRows
from omnidraft.runtime.vocab.trie import ActiveTrie, Node
from omnidraft.runtime.vocab.vocab_map import VocabMap

_NOTHING = 1e-12  # mass below which a conditional distribution is rounding


@dataclass(frozen=True)
class DraftDistribution:
    """A distribution over draft tokens and OTHER, of sum 1.

    Attributes:
        ids: distinct draft ids, shape [K].
        probabilities: of these ids, shape [K].
        other: probability of OTHER, all draft tokens that are not listed.
        weight: probability that the target continues with a token that the drafter can write.
    """

    ids: Ids
    probabilities: Probabilities
    other: float
    weight: float = 1.0

    def top(self, count: int) -> DraftDistribution:
        """The `count` most likely ids; the mass of the others moves to OTHER."""
        if len(self.ids) <= count:
            return self
        kept = np.argpartition(-self.probabilities, count - 1)[:count]
        lost = float(self.probabilities.sum() - self.probabilities[kept].sum())
        return DraftDistribution(
            self.ids[kept], self.probabilities[kept], self.other + max(lost, 0.0), self.weight
        )


def full_trie(vocab_map: VocabMap) -> ActiveTrie:
    """The trie with every spelling active, as with a prefilled cache."""
    trie = ActiveTrie(vocab_map)
    trie.activate_all(np.flatnonzero(vocab_map.leaf_lengths > 1))
    return trie


def node_of(trie: ActiveTrie, spelling: npt.NDArray[np.generic]) -> Node | None:
    """The node of a spelling in the trie; None if the trie does not have it."""
    node = trie.root(int(spelling[0])) if len(spelling) else None
    for token in spelling[1:]:
        node = None if node is None else trie.child(node, int(token))
    return node


def has_children(trie: ActiveTrie, node: Node) -> bool:
    """Whether an active spelling continues below a node."""
    low = node.low + int(trie.map.leaf_lengths[node.low] == node.depth)
    return bool(trie.active[low : node.high].any())


def root_distribution(trie: ActiveTrie, rows: TargetRows, row: int) -> DraftDistribution | None:
    """At the start of a spelling: the mass below each child of the root; None where that mass is 0."""
    leaves, p = _leaves(trie, rows, row)
    ids, sums = _by_token(trie.map.leaf_firsts[leaves], p)
    rest = float(rows.rest[row])
    total = float(sums.sum()) + rest
    if total <= _NOTHING:
        return None
    return DraftDistribution(ids, sums / total, rest / total, min(total, 1.0))


def inside_distribution(trie: ActiveTrie, rows: TargetRows, row: int, node: Node) -> DraftDistribution | None:
    """Inside a spelling: P(child | node), and P(END | node) as OTHER; None where the row lists nothing below
    the node.

    The draft token after an END is unknown, because the target continued with another token than the one that
    ends here.
    """
    below = _below(trie, rows, row, node)
    return None if below is None else DraftDistribution(*below)


def after_distribution(
    trie: ActiveTrie, rows: TargetRows, row: int, node: Node, following: DraftDistribution | None
) -> DraftDistribution | None:
    """Right after the token that a node spells, emitted at `row`: the target could have continued to a child.

    Children have P(child | node). All other draft tokens have P(END | node) times the next row's root
    distribution (`following`) outside the children, renormalised: a draft token that is a child is never read
    as the start of a new spelling (`E` of method section 4.2).
    """
    below = _below(trie, rows, row, node)
    if below is None:
        return following
    ids, p, ending = below
    if following is None:  # after the END comes a token that the drafter cannot write
        total = float(p.sum())
        return None if total <= _NOTHING else DraftDistribution(ids, p / total, 0.0, total)
    outside = ~np.isin(following.ids, trie.children(node)[0])
    left = float(following.probabilities[outside].sum()) + following.other
    ended = ending * following.weight
    weight = 1.0 - ending + ended
    if weight <= _NOTHING:
        return None
    share = ended / weight / left if left > _NOTHING else 0.0
    other = following.other * share if left > _NOTHING else ended / weight
    return DraftDistribution(
        np.concatenate([ids, following.ids[outside]]),
        np.concatenate([p / weight, following.probabilities[outside] * share]),
        other,
        weight,
    )


def _leaves(trie: ActiveTrie, rows: TargetRows, row: int) -> tuple[npt.NDArray[np.integer], Probabilities]:
    listed, p = rows.listed(row)
    leaves = trie.map.leaf_of[listed]
    known = leaves >= 0
    known[known] = trie.active[leaves[known]]
    return leaves[known], p[known]


def _below(
    trie: ActiveTrie, rows: TargetRows, row: int, node: Node
) -> tuple[Ids, Probabilities, float] | None:
    """P(child | node) by draft token, and P(END | node); None where the row lists nothing below the node."""
    leaves, p = _leaves(trie, rows, row)
    below = (leaves >= node.low) & (leaves < node.high)
    leaves, p = leaves[below], p[below]
    mass = float(p.sum())
    if mass <= _NOTHING:
        return None
    ends = trie.map.leaf_lengths[leaves] == node.depth
    tokens = trie.map.spellings.values[trie.map.leaf_starts[leaves[~ends]] + node.depth]
    ids, sums = _by_token(tokens, p[~ends])
    return ids, sums / mass, float(p[ends].sum()) / mass


def _by_token(tokens: npt.NDArray[np.generic], p: Probabilities) -> tuple[Ids, Probabilities]:
    ids, owner = np.unique(tokens, return_inverse=True)
    return ids.astype(np.int32), np.bincount(owner, p, len(ids)).astype(np.float64)
