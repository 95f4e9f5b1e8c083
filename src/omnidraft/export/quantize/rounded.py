"""A weight as codes, scales and zero points in the layout of MatMulNBits."""

from __future__ import annotations

import numpy as np

from omnidraft.export.quantize.gptq import compensate
from omnidraft.export.quantize.grids import GRIDS, Floats, Grid, codes_on, values_of
from omnidraft.export.quantize.int4_packing import Codes, packed

_COLUMNS = 4096


def rounded(
    weight: Floats, bits: int, block: int, method: str = "round", factor: Floats | None = None
) -> list[Codes | Floats]:
    """Packed codes [n, blocks, block * bits / 8], scales [n, blocks] and, if not symmetric, packed zeros.

    A few thousand columns are rounded at a time, because a large LM head takes much memory.

    Args:
        weight: float32 [k, n].
        bits: 4 or 8.
        block: rows that share a scale.
        method: of `GRIDS`; gptq uses `factor` instead.
        factor: `inverse_factor` of the inputs, [k, k], for gptq.
    """
    parts = []
    for at in range(0, weight.shape[1], _COLUMNS):
        columns = np.ascontiguousarray(weight[:, at : at + _COLUMNS], np.float32)
        if factor is None:
            codes, grid = _nearest(columns, bits, block, method)
        else:
            codes, grid = compensate(columns, factor, bits, block)
        zeros = [] if grid[1] is None else [packed(grid[1], bits)]
        parts.append([packed(codes, bits), grid[0], *zeros])
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def values_as(
    weight: Floats, bits: int, block: int, method: str = "round", factor: Floats | None = None
) -> Floats:
    """The values [n, k] that a product computes with, where `rounded` of the same arguments is stored."""
    k, n = weight.shape
    values = np.empty((n, k), np.float32)
    for at in range(0, n, _COLUMNS):
        columns = np.ascontiguousarray(weight[:, at : at + _COLUMNS], np.float32)
        codes, grid = (
            _nearest(columns, bits, block, method)
            if factor is None
            else compensate(columns, factor, bits, block)
        )
        back = values_of(codes, grid, bits)
        values[at : at + _COLUMNS] = back.reshape(back.shape[0], -1)[:, :k]
    return values


def _nearest(weight: Floats, bits: int, block: int, method: str) -> tuple[Codes, Grid]:
    k, n = weight.shape
    values = np.pad(weight.T, ((0, 0), (0, -k % block))).reshape(n, -1, block)
    grid = GRIDS[method](values, bits)
    return codes_on(values, grid, bits), grid
