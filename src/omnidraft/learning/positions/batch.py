"""Aligned responses as one batch of arrays; numpy only, training/data/batch.py makes tensors of the same.

Every response has its rows of logits one after another in a common list [R], and every distribution, token and label
says which of these rows it is of. So objectives know nothing of sequences, padding and prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned, SparseDistributions

Whole = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Distributions:
    """Distributions over draft tokens: row of each [N], ids [N, K] (-1 fills up), probabilities, OTHER [N], weights
    [N].
    """

    rows: Whole
    ids: Whole
    probabilities: Floats
    other: Floats
    weights: Floats


@dataclass(frozen=True)
class Labels:
    """Draft tokens of the responses, shapes [M]: row that predicts each, its id, the target token it
    writes.
    """

    rows: Whole
    ids: Whole
    tokens: Whole


@dataclass(frozen=True)
class Tokens:
    """Target tokens of the responses, shapes [T].

    Attributes:
        ids, before, sequences: the id, the one in front of it (-1: unknown), and the response it is in.
        rows, lengths, direct, probabilities: see `alignment.TargetTokens`.
        top: the listed probabilities of each row, descending, zero-padded, [T, m]. rest: of what it lacks,
            [T].
        hidden: the target's hidden states [T, target width], for dskd alone.
    """

    ids: Whole
    before: Whole
    sequences: Whole
    rows: Whole
    lengths: Whole
    direct: npt.NDArray[np.bool_]
    probabilities: Floats
    top: Floats
    rest: Floats
    hidden: Floats | None = None


@dataclass(frozen=True)
class Batch:
    """Responses for one step.

    Attributes:
        input_ids: [B, L], filled up with 0 on the right, which no earlier position sees.
        first: the first position whose logits are wanted.
        sequences, positions: of each of the R rows of logits.
        direct_drafts: which draft tokens have a direct partner, [draft vocab].
    """

    input_ids: Whole
    first: int
    sequences: Whole
    positions: Whole
    trie: Distributions
    direct: Distributions
    labels: Labels
    tokens: Tokens
    direct_drafts: npt.NDArray[np.bool_]


def collate(responses: Sequence[Aligned]) -> Batch:
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


def _tokens(responses: Sequence[Aligned], row_starts: npt.NDArray[np.integer]) -> Tokens:
    tops = [-np.sort(-r.target_rows.probabilities, axis=1) for r in responses]
    hidden = [r.target_hidden for r in responses if r.target_hidden is not None]
    sizes = [len(r.tokens.ids) for r in responses]
    return Tokens(
        ids=np.concatenate([r.tokens.ids.astype(np.int64) for r in responses]),
        before=np.concatenate([r.tokens.before.astype(np.int64) for r in responses]),
        sequences=np.repeat(np.arange(len(sizes)), sizes),
        rows=np.concatenate([r.tokens.rows + row for r, row in zip(responses, row_starts, strict=True)]),
        lengths=np.concatenate([r.tokens.lengths for r in responses]),
        direct=np.concatenate([r.tokens.direct for r in responses]),
        probabilities=np.concatenate([r.tokens.probabilities.astype(np.float32) for r in responses]),
        top=_stacked(tops, 0.0).astype(np.float32),
        rest=np.concatenate([r.target_rows.rest.astype(np.float32) for r in responses]),
        hidden=np.concatenate(hidden) if len(hidden) == len(responses) else None,
    )


def _distributions(found: Sequence[tuple[SparseDistributions, np.integer]]) -> Distributions:
    return Distributions(
        rows=np.concatenate([distributions.rows + row for distributions, row in found]),
        ids=_stacked([distributions.ids.astype(np.int64) for distributions, _ in found], -1),
        probabilities=_stacked([distributions.probabilities for distributions, _ in found], 0.0).astype(
            np.float32
        ),
        other=np.concatenate([distributions.other.astype(np.float32) for distributions, _ in found]),
        weights=np.concatenate([distributions.weights.astype(np.float32) for distributions, _ in found]),
    )


def _stacked(arrays: Sequence[npt.NDArray[Any]], fill: float) -> npt.NDArray[Any]:
    """Tables below each other, filled up to the widest; a column at least, which a graph's input needs."""
    widest = max(1, *(a.shape[1] for a in arrays))
    return np.concatenate(
        [np.pad(a, ((0, 0), (0, widest - a.shape[1])), constant_values=fill) for a in arrays]
    )
