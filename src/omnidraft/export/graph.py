"""A torch model as an ONNX graph, by transformers' exporter, with what it prints kept off the terminal.

It does not know our graph contract: the result still has growing KV tensors, position ids and an attention
mask. `passes` makes the contract of it.
"""

from __future__ import annotations

import functools
import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx_ir
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from transformers import PreTrainedModel
from transformers.exporters.configs import OnnxConfig
from transformers.exporters.exporter_onnx import OnnxExporter

Table = NDArray[np.float32]

_NOISY = (
    "transformers.exporters",  # "experimental", "version drift detected"
    "torch.onnx",  # torchvision operators that are not installed, untyped translations
)


def trace(model: PreTrainedModel) -> ModelProto:
    """The graph of `model` for one block of tokens after any past: prefill, decode and verify alike.

    Inputs `input_ids`, `position_ids`, past keys and values; outputs `logits`, the grown keys and values.
    """
    with quiet(), _light_collector(), torch.no_grad():
        inputs, varying = _block(model)
        config = OnnxConfig(dynamic_shapes=varying, ort_fusions="cpu")
        exported = OnnxExporter().export(model, inputs, config=config)  # type: ignore[no-untyped-call]
        proto: ModelProto = onnx_ir.to_proto(exported.program)
    return proto


def _block(model: PreTrainedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two tokens after three, and the axes that vary: one token would fix the length of a block at 1."""
    past = model(input_ids=torch.ones(1, 3, dtype=torch.int64), use_cache=True).past_key_values
    inputs = {
        "input_ids": torch.ones(1, 2, dtype=torch.int64),
        "position_ids": torch.tensor([[3, 4]]),
        "past_key_values": past,
    }
    auto = torch.export.Dim.AUTO
    varying = {
        "input_ids": {1: auto},
        "position_ids": {1: auto},
        "past_key_values": [{2: auto}] * 2 * len(past),
    }
    return inputs, varying


def rotary_tables(model: PreTrainedModel, max_length: int) -> tuple[Table, Table]:
    """cos and sin of the first `max_length` positions, [max_length, head_dim / 2] each.

    They come from the model's own rotary module: no second copy of a formula that scales frequencies.
    """
    with torch.no_grad():
        rotary: torch.nn.Module = model.base_model.get_submodule("rotary_emb")
        cos, sin = rotary(torch.zeros(1), torch.arange(max_length)[None])
    half = cos.shape[-1] // 2
    return cos[0, :, :half].contiguous().numpy(), sin[0, :, :half].contiguous().numpy()


@contextmanager
def quiet() -> Iterator[None]:
    """Silences, by name, what the exporter says about itself; anything else still comes through."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    silent = functools.partial(torch.onnx.export, verbose=False)  # the exporter does not pass `verbose` on
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), patch.object(torch.onnx, "export", silent):
            warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\).*", FutureWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _light_collector() -> Iterator[None]:
    """Hides what exists from the garbage collector, which takes a quarter of an export to scan it."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
