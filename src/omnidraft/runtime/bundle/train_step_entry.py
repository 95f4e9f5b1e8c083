"""The training step in the manifest: its graph, and the layout of the vector of trainable parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnidraft.runtime.bundle import bundle_limits as limits
from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.disk.json_fields import array, integer, mapping, text

Span = tuple[int, int]


@dataclass(frozen=True)
class StepLayout:
    """How the vector of trainable parameters is cut into tensors, one after another in row-major order.

    Attributes:
        tensors: shape [rows, columns] of each by name, `{site}.{part}.lora_a` and `.lora_b`.
    """

    tensors: dict[str, tuple[int, int]]

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(math.prod(shape) for shape in self.tensors.values())

    def spans(self) -> Iterator[tuple[str, Span, tuple[int, int]]]:
        """Name, first and last index (exclusive) and shape of each tensor."""
        at = 0
        for name, shape in self.tensors.items():
            yield name, (at, at := at + math.prod(shape)), shape


@dataclass(frozen=True)
class StepEntry:
    """The training step of a bundle's drafter; spec/14-train-step.md.

    Attributes:
        folder: the folder that the paths of the graph's weights are relative to.
    """

    graph: str
    folder: str
    rank: int
    layout: StepLayout


def read_step(data: dict[str, Any]) -> StepEntry:
    """The object `train` of a drafter.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    layout = StepLayout(_tensors(data["tensors"]))
    paths = text(data["graph"], limits.MAX_PATH), text(data["folder"], limits.MAX_PATH)
    return StepEntry(*paths, integer(data["rank"], 1, limits.MAX_RANK), layout)


def _tensors(data: object) -> dict[str, tuple[int, int]]:
    tensors: dict[str, tuple[int, int]] = {}
    for each in array(data, limits.MAX_TENSORS):
        name = text(mapping(each)["name"], limits.MAX_TENSOR_NAME)
        if name in tensors:
            raise ValueError(f"two tensors {name!r:.80}")
        tensors[name] = _shape(each["shape"])
    if not tensors:
        raise ValueError("a training step without tensors")
    return tensors


def step_object(entry: StepEntry) -> dict[str, Any]:
    """The object that `read_step` reads back."""
    return {
        "graph": entry.graph,
        "folder": entry.folder,
        "rank": entry.rank,
        "tensors": [{"name": name, "shape": list(s)} for name, s in entry.layout.tensors.items()],
    }


def _shape(value: object) -> tuple[int, int]:
    sizes = [integer(size, 1) for size in array(value)]
    if len(sizes) != 2:
        raise ValueError(f"shape {value!r:.80}")
    return sizes[0], sizes[1]


def layout_of(lora: LoraSites, rank: int) -> StepLayout:
    """The layout of LoRA of a rank at every part of a graph's sites."""
    tensors = {}
    for name, site in lora.sites.items():
        for part, width in site.parts:
            tensors[f"{name}.{part}.lora_a"] = site.inputs, rank
            tensors[f"{name}.{part}.lora_b"] = rank, width
    return StepLayout(tensors)


def check_layout(entry: StepEntry, lora: LoraSites) -> None:
    """Check that a step learns the tensors that the graph takes.

    Raises:
        ValueError: the tensors differ.
    """
    if entry.layout.tensors != layout_of(lora, entry.rank).tensors:
        raise ValueError("the tensors of the training step are not those of lora")
