"""A pass of a model with rounded weights, whose products round their inputs as onnxruntime's kernel does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.checkpoints.patched import patched
from omnidraft.checkpoints.thin_model import ThinModel
from omnidraft.export.quantize.grids import codes_on, rounding, values_of

Weight = Callable[[str], "Tensor | None"]  # the weight [out, in] of a module; None for the source's

_EMBEDDING_BLOCK = 32


@contextmanager
def computing_with(thin: ThinModel, weight: Weight, embedding_bits: int) -> Iterator[None]:
    """Within it products use `weight`, and rounded inputs where that is not the source's."""

    def linear(module: Any, x: Tensor) -> Tensor:
        rounded = weight(module.site)
        if rounded is None:
            return source_product(thin, module, x)
        bias = thin.stored[module.site].bias
        return nn.functional.linear(_int8(x), rounded, None if bias is None else bias.float())

    def embedding(module: Any, ids: Tensor) -> Tensor:
        rows = thin.stored[module.site].weight[ids].float()
        return rows if embedding_bits in (0, 32) else _rounded_rows(rows, embedding_bits)

    with patched(nn.Linear, "forward", linear), patched(nn.Embedding, "forward", embedding):
        yield


def source_product(thin: ThinModel, module: Any, x: Tensor) -> Tensor:
    """The product of a module with the source's weight."""
    stored = thin.stored[module.site]
    bias = None if stored.bias is None else stored.bias.float()
    return nn.functional.linear(x, stored.weight.float(), bias)


def _int8(x: Tensor, block: int = 32) -> Tensor:
    """Inputs rounded to 8 bits in blocks, as the kernel rounds them."""
    width = x.shape[-1]
    blocks = nn.functional.pad(x, (0, -width % block)).reshape(*x.shape[:-1], -1, block)
    scale = blocks.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / 127.0
    back: Tensor = (torch.round(blocks / scale) * scale).flatten(-2)[..., :width]
    return back


def _rounded_rows(rows: Tensor, bits: int) -> Tensor:
    """Rows of an embedding as they come out of its codes."""
    width = rows.shape[-1]
    flat = nn.functional.pad(rows.reshape(-1, width), (0, -width % _EMBEDDING_BLOCK))
    values = flat.numpy().reshape(len(flat), -1, _EMBEDDING_BLOCK)
    grid = rounding(values, bits)
    back = values_of(codes_on(values, grid, bits), grid, bits).reshape(len(flat), -1)[:, :width]
    return torch.from_numpy(np.ascontiguousarray(back)).reshape(rows.shape)
