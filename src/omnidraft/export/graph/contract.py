"""The contract of a graph: what a runtime must know to bind its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ValueInfoProto, helper


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a graph; a dimension of variable size is a name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class GraphContract:
    """What a runtime must know of a graph to bind it.

    With `past` positions in the buffers and n new tokens: seqlens_k = past + n - 1, total_sequence_length =
    past + n <= max_length, and logits has one row for each of the last num_logits (1 to n) tokens. An adopted
    graph has the inputs of layout `concat` instead (spec/03-bundle.md).
    """

    # inputs, outputs: in the order of the graph
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    # num_layers, num_kv_heads, head_dim: sizes of the KV buffers
    num_layers: int
    num_kv_heads: int
    head_dim: int
    max_length: int  # positions of the KV buffers
    vocab_size: int  # width of the logits
    quantization: str  # how the weights are stored
    half_kv: bool = False  # whether the KV buffers are float16, not float32


def tensor_specs(infos: Iterable[ValueInfoProto]) -> tuple[TensorSpec, ...]:
    """The inputs or the outputs of a graph."""
    return tuple(
        TensorSpec(
            info.name,
            helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type).name,
            tuple(dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim),
        )
        for info in infos
    )
