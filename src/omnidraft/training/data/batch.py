"""Aligned responses as one batch of tensors, in the dataclasses of learning/positions/batch.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.positions import batch as arrays
from omnidraft.learning.positions.alignment import Aligned

DistributionTensors = arrays.Distributions[Tensor]
LabelTensors = arrays.Labels[Tensor]
TokenTensors = arrays.Tokens[Tensor]


@dataclass(frozen=True)
class TensorBatch(arrays.Batch[Tensor]):
    """Responses for one step; fields and shapes are those of `Batch`."""

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
    return TensorBatch(**_fields(arrays.collate(responses), np.ndarray, torch.from_numpy))


def _fields(value: Any, kind: type, change: Callable[[Any], Tensor]) -> dict[str, Any]:
    return {field.name: _changed(getattr(value, field.name), kind, change) for field in fields(value)}


def _changed(value: Any, kind: type, change: Callable[[Any], Tensor]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return type(value)(**_fields(value, kind, change))
