"""Aligned responses as one batch of tensors, with what the objectives of torch alone need.

The paper's losses and forward KL compare the two models on the intersection of their vocabularies, and read
the draft tokens of a response as labels. A bundle's training step has neither (spec/14-train-step.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnidraft import defaults
from omnidraft.learning.positions import batch as arrays
from omnidraft.learning.positions.alignment import Aligned, SparseDistributions, sparse
from omnidraft.learning.positions.draft_targets import DraftDistribution

DistributionTensors = arrays.Distributions[Tensor]


@dataclass(frozen=True)
class TensorBatch(arrays.Batch[Tensor]):
    """Responses for one step.

    Attributes:
        direct: for each of the D target tokens with a direct partner, the target's row on the intersection of
            the vocabularies. `other` is the mass that the row does not list, `weights` the listed mass on the
            intersection plus `other`.
        direct_drafts: which draft tokens have a direct partner, [draft vocab], bool.
        label_rows: row of logits that predicts each of the M draft tokens of the responses, [M], int64.
        label_ids: these draft tokens, [M], int64.
        in_ngrams: which of them are of a spelling of two or more, [M], bool.
    """

    direct: DistributionTensors
    direct_drafts: Tensor
    label_rows: Tensor
    label_ids: Tensor
    in_ngrams: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> TensorBatch:
        """The same batch on a device.

        Args:
            dtype: of the floating-point tensors; unchanged when None.
        """

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, dtype if tensor.is_floating_point() else None)

        return TensorBatch(**_fields(self, Tensor, move))


def collate(responses: Sequence[Aligned]) -> TensorBatch:
    """One batch of the responses, at least one; numbers are float32."""
    lengths = [r.vocab_map.spellings.lengths[r.tokens] for r in responses]
    starts = arrays.row_starts(responses)
    labels = {
        "direct": arrays.stacked(responses, [direct_distributions(r) for r in responses]),
        "direct_drafts": responses[0].vocab_map.direct >= 0,
        "label_rows": np.concatenate(
            [np.arange(r.num_rows - 1) + row for r, row in zip(responses, starts, strict=True)]
        ),
        "label_ids": np.concatenate([r.draft_ids[r.prompt_length :].astype(np.int64) for r in responses]),
        "in_ngrams": np.concatenate([np.repeat(each > 1, each) for each in lengths]),
    }
    made = _fields(arrays.collate(responses), np.ndarray, torch.from_numpy)
    return TensorBatch(
        **made, **{name: _changed(value, np.ndarray, torch.from_numpy) for name, value in labels.items()}
    )


def direct_distributions(response: Aligned) -> SparseDistributions:
    """The row of each target token with a direct partner, on the intersection of the vocabularies."""
    vocab_map, rows, placed = response.vocab_map, response.target_rows, []
    for i, token in enumerate(response.tokens):
        spelling = vocab_map.spell(int(token))
        if len(spelling) != 1 or vocab_map.direct[spelling[0]] != token:
            continue
        listed, p = rows.listed(i)
        leaves = vocab_map.leaf_of[listed]
        lengths = np.where(leaves >= 0, vocab_map.leaf_lengths[leaves], 0)
        firsts = vocab_map.leaf_firsts[leaves]
        inside = (lengths == 1) & (vocab_map.direct[firsts] == listed)
        weight = max(0.0, 1.0 - float(p[~inside].sum()))
        direct = DraftDistribution(firsts[inside], p[inside], float(rows.rest[i]), weight)
        placed.append((int(response.rows[i]), direct.top(defaults.LEARNER_KEEP)))
    return sparse(placed)


def _fields(value: Any, kind: type, change: Callable[[Any], Tensor]) -> dict[str, Any]:
    return {field.name: _changed(getattr(value, field.name), kind, change) for field in fields(value)}


def _changed(value: Any, kind: type, change: Callable[[Any], Tensor]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return type(value)(**_fields(value, kind, change))
