"""Trace a torch model as an ONNX graph with transformers' exporter, without its output on the terminal.

Modules with large weights, and attention, are traced as markers: nodes `omnidraft::Product`, `Rows` or
`Attention` that name their module and hold no weight. So a model of any size is traced in little memory, and
the attention of an architecture need not be recognised in the graph. `markers` turns them into operators.
"""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import onnx_ir
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.exporters.configs import OnnxConfig
from transformers.exporters.exporter_onnx import OnnxExporter
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from omnidraft.checkpoints.thin_model import patched
from omnidraft.export.graph.markers import DOMAIN

Table = NDArray[np.float32]
Progress = Callable[[str], None]

_MARKERS = DOMAIN  # also the name of our attention in transformers' registry
_NOISY = (
    "transformers.exporters",  # "experimental", "version drift detected"
    "torch.onnx",  # torchvision operators that are not installed, untyped translations
)


def trace(model: PreTrainedModel, progress: Progress) -> ModelProto:
    """The graph of a thin model for one block of tokens: input `input_ids`, output `logits`, and markers.

    Attention markers read the unrotated keys and values of the new tokens only; past and positions are added
    when the marker becomes an operator.
    """
    config = OnnxConfig(dynamic_shapes={"input_ids": {1: torch.export.Dim.AUTO}}, ort_fusions="cpu")
    inputs: dict[str, Any] = {"input_ids": torch.ones(1, 3, dtype=torch.int64)}
    translating = quiet(lambda: progress("into operators of ONNX"))
    with translating, _light_collector(), _marking(model, progress), torch.no_grad():
        exported = OnnxExporter().export(model, inputs, config=config)  # type: ignore[no-untyped-call]
        proto: ModelProto = onnx_ir.to_proto(exported.program)
    return proto


def rotary_tables(model: PreTrainedModel, max_length: int) -> dict[str, tuple[Table, Table]]:
    """cos and sin of the first `max_length` positions, [max_length, rotated / 2] each, by kind of layer.

    The kind is "" where all layers rotate alike. The tables come from the model's own rotary module, so the
    formulas that scale frequencies are not written a second time.
    """
    rotary: Any = model.base_model.get_submodule("rotary_emb")
    tables = {}
    for kind in getattr(rotary, "layer_types", [""]):
        with torch.no_grad():
            cos, sin = rotary(torch.zeros(1), torch.arange(max_length)[None], *([kind] if kind else []))
        half = cos.shape[-1] // 2
        tables[kind] = tuple(table[0, :, :half].contiguous().numpy() for table in (cos, sin))
    return tables


def _product(module: Any, x: Tensor) -> Tensor:
    shape = (*x.shape[:-1], module.out_features)
    return _mark("Product", [x], {"site": module.site}, shape)


def _rows(module: Any, ids: Tensor) -> Tensor:
    return _mark("Rows", [ids], {"site": module.site}, (*ids.shape, module.embedding_dim))


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: None, scaling: float, **options: Any
) -> tuple[Tensor, None]:
    """The marker of one layer's attention.

    Args:
        query, key, value: [1, heads, n, head_dim], unrotated.
        options: `sliding_window` and `softcap` are read, None where the layer has none.
    """
    kinds = getattr(module, "rotary_kinds", ())
    settings = {
        "scale": float(scaling),
        "window": options.get("sliding_window") or -1,  # keys that a token sees, its own included
        "softcap": float(options.get("softcap") or 0.0),
        "num_heads": query.shape[1],
        "kv_num_heads": key.shape[1],
        "rotary": module.layer_type if kinds else "",
    }
    flat = [states.transpose(1, 2).flatten(2) for states in (query, key, value)]
    out = _mark("Attention", flat, settings, flat[0].shape)
    return out.unflatten(2, (query.shape[1], -1)), None  # type: ignore[no-untyped-call]


def _mark(kind: str, inputs: list[Tensor], settings: dict[str, Any], shape: Any) -> Tensor:
    return torch.onnx.ops.symbolic(
        f"{_MARKERS}::{kind}", inputs, settings, dtype=torch.float32, shape=shape, version=1
    )


def _unrotated(query: Tensor, key: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
    return query, key


def _no_angles(_: object, x: Tensor, *__: object, **___: object) -> tuple[Tensor, Tensor]:
    return x, x  # not read: `_unrotated` replaces the function that would read them


def _no_mask(*_: object, **__: object) -> None:
    return None


ALL_MASK_ATTENTION_FUNCTIONS.register(_MARKERS, _no_mask)


@contextmanager
def _marking(model: PreTrainedModel, progress: Progress) -> Iterator[None]:
    """Within this context the model computes markers."""
    module: Any = sys.modules[type(model).__module__]
    rotary: Any = model.base_model.get_submodule("rotary_emb")
    for layer in model.modules():
        if hasattr(layer, "layer_idx"):
            layer.__dict__["rotary_kinds"] = getattr(rotary, "layer_types", ())

    def attention(layer: Any, *states: Any, **options: Any) -> tuple[Tensor, None]:
        progress(f"layer {layer.layer_idx + 1} of {model.config.num_hidden_layers}")
        return _attention(layer, *states, **options)

    ALL_ATTENTION_FUNCTIONS.register(_MARKERS, attention)
    before = model.config._attn_implementation
    model.set_attn_implementation(_MARKERS)
    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (nn.Linear, "forward", _product),
        (nn.Embedding, "forward", _rows),
        (module, "apply_rotary_pos_emb", _unrotated),
        (type(rotary), "forward", _no_angles),
    ]
    with ExitStack() as stack:
        for owner, name, function in replaced:
            stack.enter_context(patched(owner, name, function))
        try:
            yield
        finally:
            model.set_attn_implementation(before)


@contextmanager
def quiet(begins: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Silence, by name, the exporter's messages about itself; other messages still come through.

    Args:
        begins: called when torch begins to translate a graph, which takes the longest.
    """
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    export = torch.onnx.export

    def silent(*arguments: Any, **settings: Any) -> Any:
        begins()
        return export(*arguments, **{**settings, "verbose": False})  # the exporter does not pass it on

    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), patched(torch.onnx, "export", silent):
            warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\).*", FutureWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _light_collector() -> Iterator[None]:
    """Hide existing objects from the garbage collector; scanning them takes a quarter of an export."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
