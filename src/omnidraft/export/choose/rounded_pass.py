"""A pass of a model with rounded weights, whose products round their inputs as onnxruntime's kernel does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from omnidraft.checkpoints.patched import patched
from omnidraft.checkpoints.thin_model import ThinModel, reading
from omnidraft.export.quantize.coded import rounded
from omnidraft.export.quantize.quantization import BLOCK

Weight = Callable[[str], "Tensor | None"]  # the weight [out, in] of a module; None for the source's


@contextmanager
def computing_with(thin: ThinModel, weight: Weight, *, table: bool) -> Iterator[None]:
    """Within it products use `weight`, and rounded inputs where that is not the source's.

    Args:
        thin: the model.
        weight: of each module.
        table: whether the embedding is rounded to 8 bits.
    """

    with reading(thin):
        product, rows_of = nn.Linear.forward, nn.Embedding.forward

        def linear(module: Any, x: Tensor) -> Tensor:
            found = weight(module.site)
            if found is None:
                return product(module, x)
            bias = thin.stored[module.site].bias
            return nn.functional.linear(_int8(x), found, None if bias is None else bias.float())

        def embedding(module: Any, ids: Tensor) -> Tensor:
            rows = rows_of(module, ids)
            return _rounded_rows(rows) if table else rows

        with patched(nn.Linear, "forward", linear), patched(nn.Embedding, "forward", embedding):
            yield


def _int8(x: Tensor, block: int = BLOCK) -> Tensor:
    """Inputs rounded to 8 bits in blocks, as the kernel rounds them."""
    width = x.shape[-1]
    blocks = nn.functional.pad(x, (0, -width % block)).reshape(*x.shape[:-1], -1, block)
    scale = blocks.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / 127.0
    back: Tensor = (torch.round(blocks / scale) * scale).flatten(-2)[..., :width]
    return back


def _rounded_rows(rows: Tensor) -> Tensor:
    """Rows of an embedding as they come out of its codes."""
    width = rows.shape[-1]
    if width % BLOCK:
        return rows
    values = rounded(rows.reshape(-1, width).numpy(), 8).values()
    return torch.from_numpy(values).reshape(rows.shape)
