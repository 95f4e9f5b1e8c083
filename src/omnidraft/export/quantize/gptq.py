"""GPTQ: weights are rounded one input at a time, and later inputs compensate each rounding error.

Frantar et al., 2023 (arXiv 2210.17323). onnxruntime's own implementation is not used: it rounds its result
again on another grid, chooses the grid of a block from outdated weights, and reads the whole model into
memory for each tensor that it calibrates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper

from omnidraft.export.quantize.grids import GRIDS, Floats, Grid, codes_on, values_of
from omnidraft.export.quantize.int4_packing import Codes
from omnidraft.runtime.models.onnx_session import NO_PREPACKING, session_options

Doubles = NDArray[np.float64]

_DAMPING = 0.01  # share of the diagonal's mean that is added to the diagonal
_ROW = 512  # most tokens of a calibration row that are used
_BUDGET = 1 << 30  # bytes of Hessians in memory; each group of sites reads all rows again


@dataclass(frozen=True)
class Calibration:
    """The data of GPTQ.

    Attributes:
        graph: a float32 graph on disk; its tensors have the same names as those of the model.
        rows: token ids.
    """

    graph: Path
    rows: Sequence[Sequence[int]]


@dataclass(frozen=True)
class CalibrationSite:
    """A product to calibrate: the name of its input, and the width of the input."""

    value: str
    width: int


def compensate(weight: Floats, factor: Floats, bits: int, block: int) -> tuple[Codes, Grid]:
    """Round a weight, and let later inputs compensate each error (algorithm 1 of the paper).

    Args:
        weight: float32 [k, n].
        factor: `inverse_factor` of its inputs, [k, k].
        bits: 4 or 8.
        block: rows that share a scale.

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


def hessians(calibration: Calibration, sites: Sequence[CalibrationSite]) -> Iterator[Floats]:
    """X^T X of the inputs of each site over all calibration rows, float32 [width, width], in site order."""
    for group in _groups(sites):
        yield from _hessians(calibration, group)


def _groups(sites: Sequence[CalibrationSite]) -> Iterator[list[CalibrationSite]]:
    group: list[CalibrationSite] = []
    for site in sites:
        if group and sum(4 * s.width**2 for s in (*group, site)) > _BUDGET:
            yield group
            group = []
        group.append(site)
    if group:
        yield group


def _hessians(calibration: Calibration, sites: Sequence[CalibrationSite]) -> list[Floats]:
    names = list(dict.fromkeys(site.value for site in sites))
    session = _session(calibration.graph, names)
    sums = {site.value: np.zeros((site.width, site.width), np.float32) for site in sites}
    for row in calibration.rows:
        outputs = session.run(names, _feeds(session, row[:_ROW]))
        for name, rows in zip(names, outputs, strict=True):
            flat = rows.reshape(-1, rows.shape[-1])
            sums[name] += flat.T @ flat
    return [sums[site.value] for site in sites]


def _session(graph: Path, names: Sequence[str]) -> ort.InferenceSession:
    """A session of the graph up to some of its tensors; the weights are mapped from their file."""
    model = onnx.load(graph, load_external_data=False)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    options = session_options(os.cpu_count() or 1, NO_PREPACKING)
    file = graph.with_name(f"{graph.name}.calibration")  # beside the weights that it names
    try:
        file.write_bytes(model.SerializeToString())
        return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    finally:
        file.unlink(missing_ok=True)


def _feeds(session: ort.InferenceSession, row: Sequence[int]) -> dict[str, NDArray[Any]]:
    counts: dict[str, NDArray[Any]] = {
        "seqlens_k": np.array([len(row) - 1], np.int32),
        "total_sequence_length": np.array([len(row)], np.int32),
        "num_logits": np.array([len(row)], np.int64),
        "input_ids": np.array([row], np.int64),
    }
    # onnxruntime removes inputs that the sites do not need.
    return {
        i.name: counts[i.name] if i.name in counts else np.zeros(i.shape, np.float32)
        for i in session.get_inputs()
    }
