"""Align a response of the target with the drafter's positions (method sections 5.1 and 5.2); numpy only.

The drafter reads its own prompt and then the spelling of every emitted token; no text is encoded again.
Row j of a response is the drafter's logits after the prompt and j draft tokens; it predicts draft token j.
Row i of the target was computed after the target tokens before i; it is the distribution of token i.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import SettingError
from omnidraft.learning.positions.draft_targets import (
    DraftDistribution,
    after_distribution,
    has_children,
    inside_distribution,
    node_of,
    root_distribution,
)  # fmt: skip
from omnidraft.learning.positions.target_rows import Ids, TargetRows
from omnidraft.runtime.vocab.trie import ActiveTrie
from omnidraft.runtime.vocab.vocab_map import VocabMap

Offsets = npt.NDArray[np.int64]


Numpy = npt.NDArray[Any]
Array = TypeVar("Array", bound=Sized)  # Numpy here; torch tensors in training/data/batch.py


@dataclass(frozen=True)
class Distributions(Generic[Array]):
    """N distributions over draft tokens, each with at most K listed ids.

    Attributes:
        rows: the row of the response that each distribution belongs to, shape [N]. Two distributions may
            belong to one row.
        ids: draft ids, shape [N, K]; -1 is padding.
        probabilities: of these ids, shape [N, K]; 0 at padding.
        other: probability of all ids that are not listed, shape [N].
        weights: see `DraftDistribution`, shape [N].
    """

    rows: Array
    ids: Array
    probabilities: Array
    other: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.rows)


SparseDistributions = Distributions[Numpy]


@dataclass(frozen=True)
class Aligned:
    """One response of n target tokens.

    Attributes:
        draft_ids: prompt and response in draft tokens.
        prompt_length: draft tokens of the prompt, >= 1.
        tokens: the target ids, shape [n].
        rows: the row of the response where the spelling of each target token begins, shape [n].
        trie_distributions: the target's distribution in the drafter's vocabulary, at each position that has
            one.
        target_rows: the target's rows, for the objectives that torch alone has (training/objectives).
    """

    draft_ids: Ids
    prompt_length: int
    tokens: Ids
    rows: Offsets
    trie_distributions: SparseDistributions
    target_rows: TargetRows
    vocab_map: VocabMap

    @property
    def num_rows(self) -> int:
        """Rows of logits: one after the prompt, and one after each draft token of the response."""
        return len(self.draft_ids) - self.prompt_length + 1


@dataclass(frozen=True)
class Aligner:
    """Options of the alignment.

    Attributes:
        trie: its active spellings are taught; `full_trie` for all spellings.
        max_length: draft tokens of prompt and response together; later target tokens are dropped.
        keep: draft ids in a distribution at most.
    """

    trie: ActiveTrie
    max_length: int
    keep: int = defaults.LEARNER_KEEP

    def align(
        self,
        draft_prompt: Sequence[int],
        tokens: Sequence[int],
        rows: TargetRows,
        *,
        roots: Sequence[DraftDistribution | None] | None = None,
    ) -> Aligned:
        """The training positions of one response.

        Args:
            draft_prompt: the prompt in draft ids, with the start token; at least one id.
            rows: the target's distribution before each of them, n rows.
            roots: the distribution of each row at the root of this trie, computed from the whole row; None
                computes it from `rows`.

        Raises:
            SettingError: there is no prompt, rows and tokens differ in number, a row is not a distribution,
                or ids outside a vocabulary.
        """
        self._check(draft_prompt, tokens, rows)
        vocab_map = self.trie.map
        known = [root_distribution(self.trie, rows, i) for i in range(len(rows))] if roots is None else roots
        lengths = vocab_map.spellings.lengths[np.asarray(tokens, dtype=np.int64)].astype(np.int64)
        count = int(np.searchsorted(np.cumsum(lengths), self.max_length - len(draft_prompt), side="right"))
        ids, lengths = np.asarray(tokens[:count], dtype=np.int32), lengths[:count]
        response = [d for t in ids for d in vocab_map.spell(int(t))]
        starts = np.cumsum(lengths) - lengths
        return Aligned(
            draft_ids=np.array([*draft_prompt, *response], dtype=np.int32),
            prompt_length=len(draft_prompt),
            tokens=ids,
            rows=starts,
            trie_distributions=self._trie_distributions(ids, starts, rows, known),
            target_rows=TargetRows(rows.ids[:count], rows.probabilities[:count], rows.rest[:count]),
            vocab_map=vocab_map,
        )

    def _check(self, draft_prompt: Sequence[int], tokens: Sequence[int], rows: TargetRows) -> None:
        vocab_map = self.trie.map
        if not len(draft_prompt):
            raise SettingError("the draft prompt is empty", "give it the drafter's start token at least")
        if len(tokens) != len(rows):
            raise SettingError(
                f"a response of {len(tokens)} tokens has {len(rows)} target rows", "give one each"
            )
        if not rows.finite:
            raise SettingError(
                "a target row is not a distribution (finite, not negative, of sum 1)",
                "leave the response out",
            )
        for name, ids, size in (
            ("draft prompt", draft_prompt, vocab_map.draft_size),
            ("response", tokens, vocab_map.target_size),
            ("target rows", rows.ids[rows.ids != -1], vocab_map.target_size),
        ):
            values = np.asarray(ids)
            if len(values) and not (int(values.min()) >= 0 and int(values.max()) < size):
                raise SettingError(
                    f"the {name} hold an id outside 0..{size - 1}", "use the vocabulary map of this pair"
                )

    def _trie_distributions(
        self, tokens: Ids, starts: Offsets, rows: TargetRows, roots: Sequence[DraftDistribution | None]
    ) -> SparseDistributions:
        trie, placed = self.trie, list[tuple[int, DraftDistribution | None]]()
        for i, token in enumerate(tokens):
            row, spelling = int(starts[i]), trie.map.spellings.row(int(token))
            node = node_of(trie, self._spelling_in_trie(tokens, i - 1))
            if node is not None and has_children(trie, node):
                placed.append((row, after_distribution(trie, rows, i - 1, node, roots[i])))
            else:
                placed.append((row, roots[i]))
            if len(self._spelling_in_trie(tokens, i)) < 2:
                continue
            for depth in range(1, len(spelling)):
                node = node_of(trie, spelling[:depth])
                assert node is not None
                placed.append((row + depth, inside_distribution(trie, rows, i, node)))
        return sparse(
            [(row, distribution.top(self.keep)) for row, distribution in placed if distribution is not None]
        )

    def _spelling_in_trie(self, tokens: Ids, i: int) -> npt.NDArray[np.generic]:
        """The spelling of token i if it is active in the trie; empty for aliases and for inactive tokens."""
        leaf = int(self.trie.map.leaf_of[tokens[i]]) if i >= 0 else -1
        active = leaf >= 0 and bool(self.trie.active[leaf])
        return self.trie.map.spellings.row(int(tokens[i])) if active else np.empty(0, dtype=np.int32)


def sparse(distributions: Sequence[tuple[int, DraftDistribution]]) -> SparseDistributions:
    """Rows of a response with their distributions, as arrays."""
    widest = max((len(distribution.ids) for _, distribution in distributions), default=0)
    ids = np.full((len(distributions), widest), -1, dtype=np.int32)
    probabilities = np.zeros((len(distributions), widest))
    for n, (_, distribution) in enumerate(distributions):
        ids[n, : len(distribution.ids)], probabilities[n, : len(distribution.ids)] = (
            distribution.ids,
            distribution.probabilities,
        )
    return SparseDistributions(
        np.array([row for row, _ in distributions], dtype=np.int64),
        ids,
        probabilities,
        np.array([distribution.other for _, distribution in distributions]),
        np.array([distribution.weight for _, distribution in distributions]),
    )
