"""A torch model as an ONNX graph, by transformers' exporter, with what the exporter prints kept off the terminal.

It does not know our graph contract: the result still has growing KV tensors, position ids and an attention mask.
`passes` makes the contract of it.
"""

from __future__ import annotations

import functools
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
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

_NOISY = (
    "transformers.exporters",  # "experimental", "version drift", "dynamic=True marks every axis"
    "torch.onnx",  # torchvision operators that are not installed
    "torch._export",  # axes that are fixed after all
)


def trace(model: torch.nn.Module) -> ModelProto:
    """The graph of `model` for one block of tokens after any past: prefill, decode and verify alike.

    Inputs `input_ids`, `position_ids` and past keys and values; outputs `logits` and the grown keys and values.
    """
    with quiet(), torch.no_grad():
        exported = OnnxExporter().export(model, _block(model), config=OnnxConfig(dynamic=True, ort_fusions="cpu"))
    proto: ModelProto = onnx_ir.to_proto(exported.program)
    return proto


def _block(model: torch.nn.Module) -> dict[str, Any]:
    """Two tokens after three: one token would fix the block length at 1, an empty past its length at 0."""
    past = model(input_ids=torch.ones(1, 3, dtype=torch.int64), use_cache=True).past_key_values
    return {
        "input_ids": torch.ones(1, 2, dtype=torch.int64),
        "position_ids": torch.tensor([[3, 4]]),
        "past_key_values": past,
    }


def rotary_tables(model: torch.nn.Module, max_length: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """cos and sin of the first `max_length` positions, [max_length, rotary_dim / 2] each, from the model's own
    rotary module, so that a scaling of the frequencies is the model's and not a second copy of its formula."""
    with torch.no_grad():
        cos, sin = model.model.rotary_emb(torch.zeros(1), torch.arange(max_length)[None])  # type: ignore[operator, union-attr]
    half = cos.shape[-1] // 2
    return cos[0, :, :half].numpy().copy(), sin[0, :, :half].numpy().copy()


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
