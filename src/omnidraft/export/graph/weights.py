"""The weights that a graph names, read one at a time from where they are stored.

A graph of markers has initializers without values; `GraphWeights` gives each of them when it is asked to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from omnidraft.export.graph.markers import EMBEDDING, MarkedSite, Part

if TYPE_CHECKING:
    from omnidraft.checkpoints.thin_model import Stored

Floats = NDArray[np.float32]


class GraphWeights:
    """The values of a graph's large initializers by name.

    Attributes:
        places: the initializers, and what each is packed of.
    """

    def __init__(self, stored: Mapping[str, Stored], places: Sequence[MarkedSite]) -> None:
        """
        Args:
            stored: what each module of the checkpoint holds.
            places: the initializers, and the modules that each is packed of.
        """
        self.places = tuple(places)
        self._held = {place.name: [stored[part.name] for part in place.parts] for place in places}

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def read(self, name: str) -> Floats:
        """A weight as the graph has it, float32 [rows, columns]; an embedding may be mapped from its file."""
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
        """What is added to the products with the weight `name`, float32 [1, 1, columns]."""
        biases = [each.bias for each in self._held[name]]
        return np.concatenate([bias.float().numpy() for bias in biases if bias is not None])[None, None]


def parts_of(stored: Mapping[str, Stored]) -> dict[str, Part]:
    """The sizes of the modules of a checkpoint by name."""
    return {
        name: Part(name, (held.weight.shape[0], held.weight.shape[1]), held.bias is not None)
        for name, held in stored.items()
    }


def fill(model: ModelProto, weights: GraphWeights) -> ModelProto:
    """Gives every initializer its values: the whole model in memory."""
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            give(tensor, weights.read(tensor.name))
    return model


def give(tensor: TensorProto, values: Floats) -> None:
    """Gives one initializer its values."""
    assert tuple(tensor.dims) == values.shape, (tensor.name, tuple(tensor.dims), values.shape)
    tensor.raw_data = values.tobytes()
