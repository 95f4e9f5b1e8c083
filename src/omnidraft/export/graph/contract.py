"""What a runtime must know of a graph to bind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from onnx import ValueInfoProto, helper


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of the graph; a dimension that varies is a name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class GraphContract:
    """All that a runtime must know of a graph to bind it; `vocab_size` is the width of the logits.

    With `past` positions in the buffers and n new tokens: seqlens_k = past + n - 1, total_sequence_length =
    past + n <= max_length, and logits has one row for each of the last num_logits (1 to n) tokens. An adopted
    graph has the inputs of spec/bundle.md, layout `concat`, instead.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    num_layers: int
    num_kv_heads: int
    head_dim: int
    max_length: int
    vocab_size: int
    quantization: str

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def tensor_specs(infos: Iterable[ValueInfoProto]) -> tuple[TensorSpec, ...]:
    """Inputs or outputs of a graph."""
    return tuple(
        TensorSpec(
            info.name,
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type).name,
            tuple(dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim),
        )
        for info in infos
    )
