"""Checkpoint -> the graph that CPUs run: one for prefill, decode and verification, at any past.

The contract, also for the phones: the same tensor is bound as `past_key_values.{i}.key` and `present.{i}.key`
(and `.value`), onnxruntime writes into it in place, and dropping positions is lowering the count.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from onnx import ModelProto

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.thin_model import ThinModel, thin_model
from omnidraft.errors import ExportError
from omnidraft.export.graph import markers, passes, trace
from omnidraft.export.graph.contract import GraphContract, tensor_specs
from omnidraft.export.graph.weights import GraphWeights, fill, give, parts_of
from omnidraft.export.quantize.quantize import FP32, Quantization, quantize


@dataclass(frozen=True)
class Skeleton:
    """A graph whose large weights have names and shapes and no values, and what gives their values."""

    proto: ModelProto
    contract: GraphContract
    weights: GraphWeights


def export_cpu(
    checkpoint: Checkpoint, max_length: int, quantization: Quantization
) -> tuple[ModelProto, GraphContract]:
    """The graph of `checkpoint` with KV buffers of `max_length` positions, whole in memory, and its contract.

    Raises CheckpointError when the weights do not load and ExportError when `max_length` is out of range.
    """
    check_length(checkpoint, max_length)
    found = skeleton(checkpoint, thin_model(checkpoint), max_length)
    proto = quantize(fill(found.proto, found.weights), quantization)
    return proto, dataclasses.replace(found.contract, quantization=quantization.name)


def check_length(checkpoint: Checkpoint, max_length: int) -> None:
    """Refuse a context that a model does not hold.

    Raises:
        ExportError: naming the lengths that it does.
    """
    most = checkpoint.shape.max_positions
    if not 1 <= max_length <= most:
        raise ExportError(
            f"a context of {max_length} positions does not fit {checkpoint.name}", f"give 1 to {most}"
        )


def skeleton(checkpoint: Checkpoint, thin: ThinModel, max_length: int) -> Skeleton:
    """The graph of a thin model of `checkpoint` in float32, small however large the model is."""
    shape = checkpoint.shape
    proto = trace.trace(thin.model)
    tables = trace.rotary_tables(thin.model, max_length)
    places = markers.place_weights(proto, parts_of(thin.stored), thin.tied)
    weights = GraphWeights(thin.stored, places)
    for tensor in proto.graph.initializer:
        if tensor.name.endswith(".bias") and (name := tensor.name[: -len("bias")] + "weight") in weights:
            give(tensor, weights.bias(name))
    markers.share_buffers(proto, tables, max_length)
    passes.keep_last_rows(proto)
    passes.fix_shapes(proto, (1, shape.num_kv_heads, max_length, shape.head_dim), shape.vocab_size)
    passes.drop_dead(proto)
    markers.forget_domain(proto)
    contract = GraphContract(
        inputs=tensor_specs(proto.graph.input),
        outputs=tensor_specs(proto.graph.output),
        num_layers=len(passes.attention_nodes(proto.graph)),
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        max_length=max_length,
        vocab_size=shape.vocab_size,
        quantization=FP32.name,
    )
    return Skeleton(proto, contract, weights)
