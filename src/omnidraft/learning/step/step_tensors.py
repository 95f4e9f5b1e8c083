"""The vector of trained parameters, and its conversion to an adapter and back (spec/14-train-step.md)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.models.adapter import Adapter, Floats

LoraPair = tuple[Floats, Floats]  # A [inputs, rank], B [rank, outputs]


def initial_vector(layout: StepLayout, seed: int) -> Floats:
    """Initial parameters: A is uniform within 1 / sqrt(rows of A), B is zero, so the drafter is unchanged.

    The n-th value of all A, in the order of the layout, is (2 u - 1) times the bound, with u the n-th uniform
    value of SplitMix64.
    """
    rng, vector = SplitMix64(seed), np.zeros(layout.size, np.float32)
    for name, (start, end), shape in layout.spans():
        if name.endswith(".lora_a"):
            drawn = np.array([rng.uniform() for _ in range(end - start)])
            vector[start:end] = (2.0 * drawn - 1.0) * shape[0] ** -0.5
    return vector


def sites_of(vector: Floats, layout: StepLayout, lora: LoraSites, scale: float) -> dict[str, LoraPair]:
    """A and B of each site in the form of an adapter: parts side by side, the scale multiplied into B."""
    tensors = {name: vector[start:end].reshape(shape) for name, (start, end), shape in layout.spans()}
    return {name: _pack(tensors, name, site, scale) for name, site in lora.sites.items()}


def _pack(tensors: dict[str, Floats], name: str, site: Site, scale: float) -> LoraPair:
    halves = [(tensors[f"{name}.{part}.lora_a"], tensors[f"{name}.{part}.lora_b"]) for part, _ in site.parts]
    a = np.concatenate([each for each, _ in halves], axis=1)
    b = np.zeros((a.shape[1], site.outputs), np.float32)
    row = column = 0
    for _, each in halves:
        b[row : row + each.shape[0], column : column + each.shape[1]] = each * np.float32(scale)
        row, column = row + each.shape[0], column + each.shape[1]
    return a, b


def vector_of(adapter: Adapter, layout: StepLayout, lora: LoraSites, scale: float) -> Floats:
    """The vector of an adapter that `sites_of` packed; sites that the adapter does not have are zero.

    Raises:
        AdapterError: the adapter does not fit the graph, has another rank, or mixes the parts of a site.
    """
    adapter.check_fits(lora)
    tensors: dict[str, Floats] = {}
    for name, (a, b) in adapter.tensors.items():
        site = lora.sites[name]
        rank = layout.tensors[f"{name}.{site.parts[0][0]}.lora_a"][1]
        if a.shape[1] != rank * len(site.parts):
            raise AdapterError(
                f"{name} has rank {a.shape[1]} and the training step takes {rank * len(site.parts)}",
                "begin without an adapter, or export with its rank as train_rank in --config",
                fault="rank",
            )
        left, column = b.copy(), 0
        for i, (part, width) in enumerate(site.parts):
            place = slice(i * rank, (i + 1) * rank), slice(column, column + width)
            tensors[f"{name}.{part}.lora_a"] = a[:, place[0]]
            tensors[f"{name}.{part}.lora_b"] = left[place] / scale
            left[place], column = 0.0, column + width
        if left.any():
            raise AdapterError(
                f"{name} mixes its parts, which no training step does",
                "begin without an adapter",
                fault="shape",
            )
    vector: npt.NDArray[np.float32] = np.zeros(layout.size, np.float32)
    for name, (start, end), _ in layout.spans():
        if name in tensors:
            vector[start:end] = tensors[name].reshape(-1)
    return vector
