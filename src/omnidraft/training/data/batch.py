"""Aligned responses as one batch of tensors: what learning/positions/batch.py collates, as torch has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.positions import batch as arrays
from omnidraft.learning.positions.alignment import Aligned

Value = TypeVar("Value")


@dataclass(frozen=True)
class DistributionTensors:
    """DistributionTensors over draft tokens; fields and shapes as of the arrays."""

    rows: Tensor
    ids: Tensor
    probabilities: Tensor
    other: Tensor
    weights: Tensor


@dataclass(frozen=True)
class LabelTensors:
    """Draft tokens of the responses; fields and shapes as of the arrays."""

    rows: Tensor
    ids: Tensor
    tokens: Tensor


@dataclass(frozen=True)
class TokenTensors:
    """Target tokens of the responses; fields and shapes as of the arrays."""

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
class TensorBatch:
    """Responses for one step; fields and shapes as of the arrays."""

    input_ids: Tensor
    first: int
    sequences: Tensor
    positions: Tensor
    trie: DistributionTensors
    direct: DistributionTensors
    labels: LabelTensors
    tokens: TokenTensors
    direct_drafts: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> TensorBatch:
        """On a device, its numbers in a float type if one is given."""
        return _moved(self, device, dtype)


_KINDS: dict[type, type] = {
    arrays.Distributions: DistributionTensors, arrays.Labels: LabelTensors, arrays.Tokens: TokenTensors, arrays.Batch: TensorBatch,
}  # fmt: skip


def collate(responses: Sequence[Aligned]) -> TensorBatch:
    """One batch of the responses, at least one, in float32."""
    found = _tensors(arrays.collate(responses))
    assert isinstance(found, TensorBatch)
    return found


def _tensors(value: Any) -> Any:
    """The same with tensors for arrays, whose memory they share."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    kind = _KINDS.get(type(value))
    if kind is None:
        return value
    return kind(**{field.name: _tensors(getattr(value, field.name)) for field in fields(value)})


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
