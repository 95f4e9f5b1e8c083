"""Aligned responses as one batch of arrays; numpy only, training/data/batch.py makes tensors of the same.

The rows of logits of all responses form one list [R]. Every distribution has the index of its row in that
list, so objectives need no sequences, padding or prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned, Array, Numpy, SparseDistributions
from omnidraft.learning.positions.alignment import Distributions as Distributions


@dataclass(frozen=True)
class Batch(Generic[Array]):
    """Responses for one step.

    Attributes:
        input_ids: [B, L], int64, padded with 0 on the right; no earlier position attends to the padding.
        first: the first position whose logits are needed.
        sequences: the response of each of the R rows of logits, [R], int64.
        positions: the position of each row in its response, [R], int64.
        trie: the target's distributions in the drafter's vocabulary.
    """

    input_ids: Array
    first: int
    sequences: Array
    positions: Array
    trie: Distributions[Array]


def collate(responses: Sequence[Aligned]) -> Batch[Numpy]:
    """One batch of the responses, at least one; its numbers are float32."""
    longest = max(len(r.draft_ids) for r in responses)
    input_ids = np.zeros((len(responses), longest), dtype=np.int64)
    for b, response in enumerate(responses):
        input_ids[b, : len(response.draft_ids)] = response.draft_ids
    counts = [r.num_rows for r in responses]
    return Batch(
        input_ids=input_ids,
        first=min(r.prompt_length for r in responses) - 1,
        sequences=np.repeat(np.arange(len(counts)), counts),
        positions=np.concatenate([np.arange(r.num_rows) + r.prompt_length - 1 for r in responses]),
        trie=stacked(responses, [r.trie_distributions for r in responses]),
    )


def row_starts(responses: Sequence[Aligned]) -> list[int]:
    """The row of the batch at which each response begins."""
    return [sum(r.num_rows for r in responses[:b]) for b in range(len(responses))]


def stacked(responses: Sequence[Aligned], each: Sequence[SparseDistributions]) -> SparseDistributions:
    """The distributions of each response below each other, at the rows of the batch."""
    placed = list(zip(each, row_starts(responses), strict=True))
    return Distributions(
        rows=np.concatenate([distributions.rows + row for distributions, row in placed]),
        ids=_filled([distributions.ids.astype(np.int64) for distributions in each], -1),
        probabilities=_filled([distributions.probabilities for distributions in each], 0.0).astype(
            np.float32
        ),
        other=np.concatenate([distributions.other.astype(np.float32) for distributions in each]),
        weights=np.concatenate([distributions.weights.astype(np.float32) for distributions in each]),
    )


def _filled(arrays: Sequence[npt.NDArray[Any]], fill: float) -> npt.NDArray[Any]:
    """Tables below each other, filled up to the widest; a column at least, which a graph's input needs."""
    widest = max(1, *(a.shape[1] for a in arrays))
    return np.concatenate(
        [np.pad(a, ((0, 0), (0, widest - a.shape[1])), constant_values=fill) for a in arrays]
    )
