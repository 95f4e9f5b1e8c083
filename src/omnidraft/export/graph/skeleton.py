"""Checkpoint -> the graph that CPUs run: one graph for prefill, decode and verification, after any past.

The contract, also for phones: the same tensor is bound as `past_key_values.{i}.key` and `present.{i}.key`
(and `.value`), onnxruntime writes into it in place, and dropping positions is lowering the count.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

import torch
from onnx import ModelProto
from transformers import PreTrainedModel

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.thin_model import ThinModel
from omnidraft.export.graph import markers, passes, trace
from omnidraft.export.graph.contract import GraphContract, tensor_specs
from omnidraft.export.graph.weights import GraphWeights, give, parts_of

# A drafter is exported with several targets, and a trace is slow.
MOST_KEPT = 4  # graphs; each holds norms and no large weight
_kept: OrderedDict[str, bytes] = OrderedDict()  # the graph of each model, the latest last


@dataclass(frozen=True)
class Skeleton:
    """A graph whose large weights have names and shapes but no values."""

    proto: ModelProto  # the graph, in float32
    contract: GraphContract  # its inputs and outputs
    weights: GraphWeights  # reads the values of the large weights by name


def skeleton(
    checkpoint: Checkpoint,
    thin: ThinModel,
    max_length: int,
    progress: trace.Progress = lambda *_: None,
) -> Skeleton:
    """The float32 graph of a thin model of `checkpoint`; it stays small for a model of any size."""
    shape = checkpoint.shape
    proto = traced(thin.model, progress)
    tables = trace.rotary_tables(thin.model, max_length)
    sites = markers.place_weights(proto, parts_of(thin.stored), thin.tied)
    weights = GraphWeights(thin.stored, sites)
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
        quantization="fp32",
    )
    return Skeleton(proto, contract, weights)


def traced(model: PreTrainedModel, progress: trace.Progress = lambda *_: None) -> ModelProto:
    """The graph of a thin model (see `trace`), traced where no equal model was among the last ones.

    Args:
        model: of `thin_model`; its products and embeddings are empty.
        progress: as of `trace`.
    """
    key = _digest(model)
    if key not in _kept:
        _kept[key] = trace.trace(model, progress).SerializeToString()
    _kept.move_to_end(key)
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    proto: ModelProto = ModelProto.FromString(_kept[key])
    return proto


def forget() -> None:
    """Trace every model again from now on."""
    _kept.clear()


def _digest(model: PreTrainedModel) -> str:
    """SHA-256 of all that a trace depends on: code, configuration, names of modules, and every tensor."""
    kind = type(model)
    digest = hashlib.sha256(f"{kind.__module__}.{kind.__qualname__}\n".encode())
    digest.update(model.config.to_json_string(use_diff=False).encode())
    for name, module in model.named_modules():
        site = getattr(module, "site", "")
        digest.update(f"{name} {type(module).__qualname__} {module.extra_repr()} {site}\n".encode())
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
