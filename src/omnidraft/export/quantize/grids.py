"""Grids for blocks of weights: the scale and the zero point that a block is rounded with.

A grid is `scales` float32 [n, blocks] and `zeros` uint8 [n, blocks], or None if the middle code is zero; a
value w has the code rint(w / scale) + zero. Each method sees only the blocks [n, blocks, block] of a weight,
the last block padded with zeros; the method that needs calibration is in gptq.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]


def packed(codes: Codes, bits: int) -> Codes:
    """Codes as bytes; two 4-bit codes share a byte along the last axis, the first in the low half."""
    if bits == 8:
        return codes
    if codes.shape[-1] % 2:
        codes = np.concatenate([codes, np.zeros_like(codes[..., :1])], axis=-1)
    halves: Codes = codes[..., ::2] | codes[..., 1::2] * np.uint8(16)
    return halves


def unpacked(codes: Codes, count: int, bits: int) -> Codes:
    """The first `count` codes of each row of `packed` bytes."""
    if bits == 8:
        return codes
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)[:, :count]


Floats = NDArray[np.float32]
Grid = tuple[Floats, Codes | None]

_SHRINK, _SHRINKS = np.float32(0.93), 3  # the smaller 4-bit scales that are tried: times 0.93, 0.86, 0.80


def codes_on(values: Floats, grid: Grid, bits: int) -> Codes:
    """The nearest codes [n, blocks, block] of values on a grid."""
    scales, zeros = grid[0][..., None], _zeros(grid, bits)
    steps = np.divide(values, scales, out=np.zeros_like(values), where=scales != 0)
    return (np.rint(steps) + zeros).clip(0, (1 << bits) - 1).astype(np.uint8)


def values_of(codes: Codes, grid: Grid, bits: int) -> Floats:
    """The values of codes [n, blocks, block] on a grid."""
    values: Floats = (codes.astype(np.float32) - _zeros(grid, bits)) * grid[0][..., None]
    return values


def _zeros(grid: Grid, bits: int) -> Floats:
    if grid[1] is None:
        return np.full((1, 1, 1), 1 << (bits - 1), np.float32)
    return grid[1][..., None].astype(np.float32)


def rounding(values: Floats, bits: int) -> Grid:
    """Our symmetric grid: the value of largest magnitude in a block has the lowest code.

    The lowest code has no positive counterpart. With 4 bits a smaller scale, which clips that value, is used
    if it lowers the error of the block (4 to 7 % less error).
    """
    largest = np.take_along_axis(values, np.abs(values).argmax(axis=2, keepdims=True), axis=2)[..., 0]
    scales = largest / np.float32(-(1 << (bits - 1)))
    error = _error(values, scales, bits)
    for _ in range(_SHRINKS if bits == 4 else 0):
        smaller = scales * _SHRINK
        clipped = _error(values, smaller, bits)
        scales, error = np.where(clipped < error, smaller, scales), np.minimum(clipped, error)
    return scales, None


def _error(values: Floats, scales: Floats, bits: int) -> Floats:
    grid = scales, None
    squares: Floats = np.square(values - values_of(codes_on(values, grid, bits), grid, bits)).sum(axis=2)
    return squares


def nearest(values: Floats, bits: int) -> Grid:
    """Equal steps from the smallest to the largest value, with a zero point (onnxruntime's default)."""
    shipped = _shipped()
    config = shipped.DefaultWeightOnlyQuantConfig(values.shape[2], is_symmetric=False, bits=bits)
    flat = np.ascontiguousarray(values.reshape(len(values), -1).T)
    _, scales, zeros = shipped.DefaultWeightOnlyQuantizer(config).qbits_block_quant(flat)
    return scales, unpacked(zeros, values.shape[1], bits)


def k_quant(values: Floats, bits: int) -> Grid:
    """The best of 20 ranges by least squares with more weight on large values (onnxruntime's k-quant)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # in blocks of one value
        _, scales, zeros = _shipped_kernels().quant_tensor_k_quant_cpu(values, bits, values.shape[2])
    shape = values.shape[:2]
    return _flat_blocks_kept(values, scales.astype(np.float32).reshape(shape), zeros.reshape(shape), bits)


def _flat_blocks_kept(values: Floats, scales: Floats, zeros: Codes, bits: int) -> Grid:
    """Use our grid for blocks of one value, which k-quant would round to zero."""
    flat = values.min(axis=2) == values.max(axis=2)
    if flat.any():
        scales, zeros = scales.copy(), zeros.copy()
        scales[flat], zeros[flat] = rounding(values[flat][:, None], bits)[0][:, 0], 1 << (bits - 1)
    return scales, zeros


GRIDS: dict[str, Callable[[Floats, int], Grid]] = {
    "round": rounding,
    "rtn": nearest,
    "k-quant": k_quant,
    "gptq": nearest,  # the grid that gptq.py rounds on
}


def _shipped() -> Any:
    with quietly():
        from onnxruntime.quantization import matmul_nbits_quantizer
    return matmul_nbits_quantizer


def _shipped_kernels() -> Any:
    with quietly():
        from onnxruntime.quantization.neural_compressor import weight_only
    return weight_only


@contextmanager
def quietly() -> Iterator[None]:
    """Undo the changes of onnxruntime's quantiser to the root logger, and drop its advice."""
    root = logging.getLogger()
    level, handlers, disabled = root.level, root.handlers[:], logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.handlers[:] = handlers
