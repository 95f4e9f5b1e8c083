"""The weights that a graph names, read one at a time from the checkpoint.

A graph that was traced with markers has initializers without values; `GraphWeights` reads their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from omnidraft.export.graph.markers import EMBEDDING, MarkedSite, Part

if TYPE_CHECKING:
    from torch import Tensor

    from omnidraft.checkpoints.gguf.weights import PackedWeight
    from omnidraft.checkpoints.thin_model import Stored

Floats = NDArray[np.float32]


class GraphWeights:
    """The values of the large initializers of a graph, by name.

    Attributes:
        sites: the initializers, and the modules that are packed in each.
    """

    def __init__(self, stored: Mapping[str, Stored], sites: Sequence[MarkedSite]) -> None:
        self.sites = tuple(sites)
        self._held = {site.name: [stored[part.name] for part in site.parts] for site in sites}

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def parts(self, name: str) -> list[Tensor | PackedWeight]:
        """The weights that are packed in a weight of the graph, each [out, in] as stored."""
        return [each.weight for each in self._held[name]]

    def read(self, name: str) -> Floats:
        """A weight in the graph's layout, float32 [rows, columns]; an embedding may be mapped from a file."""
        import torch

        held = self._held[name]
        if name == EMBEDDING:
            embedding: Floats = held[0].weight.float().numpy()
            return embedding
        joined = torch.empty((held[0].weight.shape[1], sum(len(each.weight) for each in held)))
        at = 0
        for each in held:
            joined[:, at : at + len(each.weight)] = each.weight.t()
            at += len(each.weight)
        values: Floats = joined.numpy()
        return values

    def bias(self, name: str) -> Floats:
        """The bias of the product with the weight `name`, float32 [1, 1, columns]."""
        biases = [each.bias for each in self._held[name]]
        return np.concatenate([bias.float().numpy() for bias in biases if bias is not None])[None, None]


def parts_of(stored: Mapping[str, Stored]) -> dict[str, Part]:
    """The sizes of the modules of a checkpoint by name."""
    return {
        name: Part(name, (held.weight.shape[0], held.weight.shape[1]), held.bias is not None)
        for name, held in stored.items()
    }


def give(tensor: TensorProto, values: Floats) -> None:
    """Give one initializer its values."""
    assert tuple(tensor.dims) == values.shape, (tensor.name, tuple(tensor.dims), values.shape)
    tensor.raw_data = values.tobytes()
