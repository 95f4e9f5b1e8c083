"""The vector of all that learns: its beginning, and its way into an adapter and back (spec/train-step.md)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.train_step_entry import StepLayout
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.models.adapter import Adapter, Floats

Pair = tuple[Floats, Floats]


def initial(layout: StepLayout, seed: int) -> Floats:
    """A is uniform within 1 / sqrt(its rows), B is zero: the drafter begins as it is.

    The n-th number of A's, in the layout's order, is 2 u - 1 of SplitMix64's n-th uniform u, times the bound.
    """
    rng, vector = SplitMix64(seed), np.zeros(layout.size, np.float32)
    for name, (start, end), shape in layout.spans():
        if name.endswith(".lora_a"):
            drawn = np.array([rng.uniform() for _ in range(end - start)])
            vector[start:end] = (2.0 * drawn - 1.0) * shape[0] ** -0.5
    return vector


def sites_of(vector: Floats, layout: StepLayout, lora: LoraSites, scale: float) -> dict[str, Pair]:
    """A and B of each site as an adapter has them: parts side by side, the scale folded into B."""
    tensors = {name: vector[start:end].reshape(shape) for name, (start, end), shape in layout.spans()}
    return {name: _pack(tensors, name, site, scale) for name, site in lora.sites.items()}


def _pack(tensors: dict[str, Floats], name: str, site: Site, scale: float) -> Pair:
    halves = [(tensors[f"{name}.{part}.lora_a"], tensors[f"{name}.{part}.lora_b"]) for part, _ in site.parts]
    a = np.concatenate([each for each, _ in halves], axis=1)
    b = np.zeros((a.shape[1], site.outputs), np.float32)
    row = column = 0
    for _, each in halves:
        b[row : row + each.shape[0], column : column + each.shape[1]] = each * np.float32(scale)
        row, column = row + each.shape[0], column + each.shape[1]
    return a, b


def vector_of(adapter: Adapter, layout: StepLayout, lora: LoraSites, scale: float) -> Floats:
    """The vector that an adapter which was packed so stands for; what it lacks is zero.

    Raises:
        AdapterError: it does not fit the graph, has another rank, or mixes parts of a site.
    """
    adapter.check_fits(lora)
    found: dict[str, Floats] = {}
    for name, (a, b) in adapter.tensors.items():
        site = lora.sites[name]
        rank = layout.tensors[f"{name}.{site.parts[0][0]}.lora_a"][1]
        if a.shape[1] != rank * len(site.parts):
            raise AdapterError(
                f"{name} has rank {a.shape[1]} and the training step takes {rank * len(site.parts)}",
                "begin without an adapter, or export with its rank as --train-rank",
                fault="rank",
            )
        left, column = b.copy(), 0
        for i, (part, width) in enumerate(site.parts):
            place = slice(i * rank, (i + 1) * rank), slice(column, column + width)
            found[f"{name}.{part}.lora_a"], found[f"{name}.{part}.lora_b"] = (
                a[:, place[0]],
                left[place] / scale,
            )
            left[place], column = 0.0, column + width
        if left.any():
            raise AdapterError(
                f"{name} mixes its parts, as no training step does", "begin without an adapter", fault="shape"
            )
    vector: npt.NDArray[np.float32] = np.zeros(layout.size, np.float32)
    for name, (start, end), _ in layout.spans():
        if name in found:
            vector[start:end] = found[name].reshape(-1)
    return vector
