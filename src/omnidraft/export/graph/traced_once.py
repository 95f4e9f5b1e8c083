"""Graphs that this process traced before: a drafter is exported with several targets, and a trace is slow."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import torch
from onnx import ModelProto
from transformers import PreTrainedModel

from omnidraft.export.graph.trace import Progress, trace

MOST_KEPT = 4  # graphs; each holds norms and no large weight
_kept: OrderedDict[str, bytes] = OrderedDict()  # the graph of each model, the latest last


def traced(model: PreTrainedModel, progress: Progress = lambda *_: None) -> ModelProto:
    """The graph of a thin model (see `trace`), traced where no equal model was among the last ones.

    Args:
        model: of `thin_model`; its products and embeddings are empty.
        progress: as of `trace`.
    """
    key = _digest(model)
    if key not in _kept:
        _kept[key] = trace(model, progress).SerializeToString()
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
