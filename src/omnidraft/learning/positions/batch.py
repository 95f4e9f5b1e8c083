"""Aligned responses as one batch of arrays; numpy only, training/data/batch.py makes tensors of the same.

The rows of logits of all responses form one list [R]. Every distribution, token and label has the index of
its row in that list, so objectives need no sequences, padding or prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned, Array, Numpy, SparseDistributions
from omnidraft.learning.positions.alignment import Distributions as Distributions

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Labels(Generic[Array]):
    """Draft tokens of the responses, shapes [M], int64.

    Attributes:
        rows: row of logits that predicts each token.
        tokens: the target token that each draft token helps to write, by its index in `Tokens`.
    """

    rows: Array
    ids: Array
    tokens: Array


@dataclass(frozen=True)
class Tokens(Generic[Array]):
    """Target tokens of the responses, shapes [T], int64 where nothing else is said.

    Attributes:
        direct: see `alignment.TargetTokens`, bool.
        probabilities: see `alignment.TargetTokens`, float32.
        top: the listed probabilities of each row, descending, padded with 0, [T, m], float32.
        rest: the mass that each row does not list, float32.
    """

    ids: Array
    rows: Array
    lengths: Array
    direct: Array
    probabilities: Array
    top: Array
    rest: Array


@dataclass(frozen=True)
class Batch(Generic[Array]):
    """Responses for one step.

    Attributes:
        input_ids: [B, L], int64, padded with 0 on the right; no earlier position attends to the padding.
        first: the first position whose logits are needed.
        sequences: the response of each of the R rows of logits, [R], int64.
        positions: the position of each row in its response, [R], int64.
        trie: the target's distributions in the drafter's vocabulary.
        direct: the target's distributions on the intersection of the vocabularies.
        direct_drafts: which draft tokens have a direct partner, [draft vocab], bool.
    """

    input_ids: Array
    first: int
    sequences: Array
    positions: Array
    trie: Distributions[Array]
    direct: Distributions[Array]
    labels: Labels[Array]
    tokens: Tokens[Array]
    direct_drafts: Array


def collate(responses: Sequence[Aligned]) -> Batch[Numpy]:
    """One batch of the responses, at least one; its numbers are float32."""
    longest = max(len(r.draft_ids) for r in responses)
    input_ids = np.zeros((len(responses), longest), dtype=np.int64)
    for b, response in enumerate(responses):
        input_ids[b, : len(response.draft_ids)] = response.draft_ids
    counts = [r.num_rows for r in responses]
    row_starts = np.cumsum([0, *counts[:-1]])
    token_starts = np.cumsum([0, *(len(r.tokens.ids) for r in responses[:-1])])
    starts = list(zip(responses, row_starts, token_starts, strict=True))
    labels = Labels(
        rows=np.concatenate([np.arange(len(r.owners)) + row for r, row, _ in starts]),
        ids=np.concatenate([r.draft_ids[r.prompt_length :].astype(np.int64) for r in responses]),
        tokens=np.concatenate([r.owners + token for r, _, token in starts]),
    )
    return Batch(
        input_ids=input_ids,
        first=min(r.prompt_length for r in responses) - 1,
        sequences=np.repeat(np.arange(len(counts)), counts),
        positions=np.concatenate([np.arange(r.num_rows) + r.prompt_length - 1 for r in responses]),
        trie=_distributions([(r.trie_distributions, row) for r, row, _ in starts]),
        direct=_distributions([(r.direct_distributions, row) for r, row, _ in starts]),
        labels=labels,
        tokens=_tokens(responses, row_starts),
        direct_drafts=responses[0].vocab_map.direct >= 0,
    )


def _tokens(responses: Sequence[Aligned], row_starts: npt.NDArray[np.integer]) -> Tokens[Numpy]:
    tops = [-np.sort(-r.target_rows.probabilities, axis=1) for r in responses]
    return Tokens(
        ids=np.concatenate([r.tokens.ids.astype(np.int64) for r in responses]),
        rows=np.concatenate([r.tokens.rows + row for r, row in zip(responses, row_starts, strict=True)]),
        lengths=np.concatenate([r.tokens.lengths for r in responses]),
        direct=np.concatenate([r.tokens.direct for r in responses]),
        probabilities=np.concatenate([r.tokens.probabilities.astype(np.float32) for r in responses]),
        top=_stacked(tops, 0.0).astype(np.float32),
        rest=np.concatenate([r.target_rows.rest.astype(np.float32) for r in responses]),
    )


def _distributions(placed: Sequence[tuple[SparseDistributions, np.integer]]) -> Distributions[Numpy]:
    return Distributions(
        rows=np.concatenate([distributions.rows + row for distributions, row in placed]),
        ids=_stacked([distributions.ids.astype(np.int64) for distributions, _ in placed], -1),
        probabilities=_stacked([distributions.probabilities for distributions, _ in placed], 0.0).astype(
            np.float32
        ),
        other=np.concatenate([distributions.other.astype(np.float32) for distributions, _ in placed]),
        weights=np.concatenate([distributions.weights.astype(np.float32) for distributions, _ in placed]),
    )


def _stacked(arrays: Sequence[npt.NDArray[Any]], fill: float) -> npt.NDArray[Any]:
    """Tables below each other, filled up to the widest; a column at least, which a graph's input needs."""
    widest = max(1, *(a.shape[1] for a in arrays))
    return np.concatenate(
        [np.pad(a, ((0, 0), (0, widest - a.shape[1])), constant_values=fill) for a in arrays]
    )
