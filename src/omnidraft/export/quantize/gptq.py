"""GPTQ: weights are rounded one input at a time, and later inputs compensate each rounding error.

Frantar et al., 2023 (arXiv 2210.17323). onnxruntime's own implementation rounds its result again on another
grid, chooses the grid of a block from outdated weights, and reads the whole model for each tensor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from omnidraft.export.quantize.grids import GRIDS, Codes, Floats, Grid, codes_on, values_of

Doubles = NDArray[np.float64]

_DAMPING = 0.01  # share of the diagonal's mean that is added to the diagonal


def compensate(weight: Floats, factor: Floats, bits: int, block: int) -> tuple[Codes, Grid]:
    """Round a weight, and let later inputs compensate each error (algorithm 1 of the paper).

    Args:
        weight: float32 [k, n].
        factor: `inverse_factor` of its inputs, [k, k].
        bits: 4 or 8.

    Returns:
        Codes [n, blocks, block], and their grid.
    """
    k, n = weight.shape
    blocks = -(-k // block)
    left = np.zeros((blocks * block, n), np.float32)
    left[:k] = weight
    codes = np.zeros((n, blocks, block), np.uint8)
    scales = np.zeros((n, blocks), np.float32)
    zeros: Codes | None = None
    for at in range(blocks):
        start, end = at * block, min(k, (at + 1) * block)
        part = left[start : start + block]
        grid = GRIDS["gptq"](np.ascontiguousarray(part.T)[:, None], bits)
        codes[:, at], errors = _round_block(part, factor[start:end, start:end], grid, bits)
        left[end:k] -= factor[start:end, end:].T @ errors
        scales[:, at] = grid[0][:, 0]
        if grid[1] is not None:
            zeros = np.zeros((n, blocks), np.uint8) if zeros is None else zeros
            zeros[:, at] = grid[1][:, 0]
    return codes, (scales, zeros)


def _round_block(part: Floats, factor: Floats, grid: Grid, bits: int) -> tuple[Codes, Floats]:
    """Round the rows of `part` [block, n] one by one, in place; return codes [n, block] and errors."""
    codes = codes_on(np.ascontiguousarray(part.T)[:, None], grid, bits)[:, 0]  # also of the padding
    errors = np.zeros((len(factor), part.shape[1]), np.float32)
    for row in range(len(factor)):
        column = codes_on(part[row][:, None, None], grid, bits)
        codes[:, row] = column[:, 0, 0]
        errors[row] = (part[row] - values_of(column, grid, bits)[:, 0, 0]) / factor[row, row]
        part[row : len(factor)] -= np.outer(factor[row, row:], errors[row])
    return codes, errors


def inverse_factor(hessian: Floats) -> Floats:
    """The upper Cholesky factor [k, k] of the inverse of X^T X, damped in case the rows are too few."""
    damped: Doubles = hessian.astype(np.float64)
    diagonal = np.einsum("ii->i", damped)  # a view
    diagonal += _DAMPING * max(float(diagonal.mean()), 1e-12)
    factor: Floats = np.linalg.cholesky(np.linalg.inv(damped)).T.astype(np.float32)
    return factor
