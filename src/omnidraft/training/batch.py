"""Aligned responses as one batch of tensors.

Every response has its rows of logits one after another in a common list [R], and every law, token and label
says which of these rows it is of. So objectives know nothing of sequences, padding and prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omnidraft.runtime.learner.alignment import Aligned, SparseLaws

Value = TypeVar("Value")


@dataclass(frozen=True)
class Laws:
    """Laws over draft tokens: row of each [N], ids [N, K] (-1 fills up), probabilities, OTHER [N], weights
    [N].
    """

    rows: Tensor
    ids: Tensor
    probabilities: Tensor
    other: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Labels:
    """Draft tokens of the responses, shapes [M]: row that predicts each, its id, the target token it
    writes.
    """

    rows: Tensor
    ids: Tensor
    tokens: Tensor


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

    ids: Tensor
    before: Tensor
    sequences: Tensor
    rows: Tensor
    lengths: Tensor
    direct: Tensor
    probabilities: Tensor
    top: Tensor
    rest: Tensor
    hidden: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """Responses for one step.

    Attributes:
        input_ids: [B, L], filled up with 0 on the right, which no earlier position sees.
        first: the first position whose logits are wanted.
        sequences, positions: of each of the R rows of logits.
        direct_drafts: which draft tokens have a direct partner, [draft vocab].
    """

    input_ids: Tensor
    first: int
    sequences: Tensor
    positions: Tensor
    trie: Laws
    direct: Laws
    labels: Labels
    tokens: Tokens
    direct_drafts: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Batch:
        """On a device, its numbers in a float type if one is given."""
        return _moved(self, device, dtype)


def collate(responses: Sequence[Aligned]) -> Batch:
    """One batch of the responses, at least one, in float32."""
    longest = max(len(r.draft_ids) for r in responses)
    input_ids = np.zeros((len(responses), longest), dtype=np.int64)
    for b, response in enumerate(responses):
        input_ids[b, : len(response.draft_ids)] = response.draft_ids
    counts = [r.num_rows for r in responses]
    row_starts = np.cumsum([0, *counts[:-1]])
    token_starts = np.cumsum([0, *(len(r.tokens.ids) for r in responses[:-1])])
    starts = list(zip(responses, row_starts, token_starts, strict=True))
    labels = Labels(
        rows=_joined([np.arange(len(r.owners)) + row for r, row, _ in starts]),
        ids=_joined([r.draft_ids[r.prompt_length :].astype(np.int64) for r in responses]),
        tokens=_joined([r.owners + token for r, _, token in starts]),
    )
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        first=min(r.prompt_length for r in responses) - 1,
        sequences=_joined([np.repeat(b, n) for b, n in enumerate(counts)]),
        positions=_joined([np.arange(r.num_rows) + r.prompt_length - 1 for r in responses]),
        trie=_laws([(r.trie_laws, row) for r, row, _ in starts]),
        direct=_laws([(r.direct_laws, row) for r, row, _ in starts]),
        labels=labels,
        tokens=_tokens(responses, row_starts),
        direct_drafts=torch.from_numpy(responses[0].vocab_map.direct >= 0),
    )


def _tokens(responses: Sequence[Aligned], row_starts: npt.NDArray[np.integer]) -> Tokens:
    tops = [-np.sort(-r.target_rows.probabilities, axis=1) for r in responses]
    hidden = [r.target_hidden for r in responses if r.target_hidden is not None]
    return Tokens(
        ids=_joined([r.tokens.ids.astype(np.int64) for r in responses]),
        before=_joined([r.tokens.before.astype(np.int64) for r in responses]),
        sequences=_joined([np.repeat(b, len(r.tokens.ids)) for b, r in enumerate(responses)]),
        rows=_joined([r.tokens.rows + row for r, row in zip(responses, row_starts, strict=True)]),
        lengths=_joined([r.tokens.lengths for r in responses]),
        direct=_joined([r.tokens.direct for r in responses]),
        probabilities=_joined([r.tokens.probabilities.astype(np.float32) for r in responses]),
        top=_stacked(tops, 0.0).float(),
        rest=_joined([r.target_rows.rest.astype(np.float32) for r in responses]),
        hidden=_joined(hidden) if len(hidden) == len(responses) else None,
    )


def _laws(found: Sequence[tuple[SparseLaws, np.integer]]) -> Laws:
    return Laws(
        rows=_joined([laws.rows + row for laws, row in found]),
        ids=_stacked([laws.ids.astype(np.int64) for laws, _ in found], -1),
        probabilities=_stacked([laws.probabilities for laws, _ in found], 0.0).float(),
        other=_joined([laws.other.astype(np.float32) for laws, _ in found]),
        weights=_joined([laws.weights.astype(np.float32) for laws, _ in found]),
    )


def _joined(arrays: Sequence[npt.NDArray[np.generic]]) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays))


def _stacked(arrays: Sequence[npt.NDArray[np.generic]], fill: float) -> Tensor:
    """Tables below each other, filled up to the widest."""
    widest = max(a.shape[1] for a in arrays)
    filled = [np.pad(a, ((0, 0), (0, widest - a.shape[1])), constant_values=fill) for a in arrays]
    return torch.from_numpy(np.concatenate(filled))


def _moved(value: Value, device: torch.device | str, dtype: torch.dtype | None) -> Value:
    assert is_dataclass(value) and not isinstance(value, type)
    changes: dict[str, object] = {}
    for field in fields(value):
        found = getattr(value, field.name)
        if isinstance(found, Tensor):
            changes[field.name] = found.to(device, dtype if found.is_floating_point() else None)
        elif is_dataclass(found) and not isinstance(found, type):
            changes[field.name] = _moved(found, device, dtype)
    return replace(value, **changes)
