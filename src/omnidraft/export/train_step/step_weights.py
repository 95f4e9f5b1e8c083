"""The frozen weights of a training step: references to the weights in the file of the drafter's graph.

A quantised weight is dequantised inside the step, so the drafter learns with the weights that will run, and
no weight is on disk twice. onnxruntime refuses files outside a graph's folder; spec/14-train-step.md says how
the step is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from omnidraft.export.graph.markers import EMBEDDING
from omnidraft.export.graph.passes import initializer
from omnidraft.export.quantize.grids import packed, unpacked

_TYPES = {4: TensorProto.UINT4, 8: TensorProto.UINT8}  # of codes
_QUANTISED = ("MatMulNBits", "GatherBlockQuantized")


@dataclass(frozen=True)
class Shipped:
    """The drafter's graph in the bundle."""

    graph: GraphProto  # the graph without its external data
    path: Path  # its file

    @classmethod
    def read(cls, path: Path) -> Shipped:
        """Read the graph in a file."""
        return cls(onnx.load(path, load_external_data=False).graph, path)

    def node(self, weight: str) -> NodeProto:
        """The node that reads a weight of the float32 graph, also if the node is quantised now."""
        name = "embedding" if weight == EMBEDDING else weight.removesuffix(".weight")
        reader: NodeProto = next(node for node in self.graph.node if node.name == name)
        return reader

    def is_quantised(self, weight: str) -> bool:
        """Whether a weight is stored as codes."""
        return self.node(weight).op_type in _QUANTISED

    def codes(self, weight: str) -> tuple[str, str]:
        """The names of the codes and scales of a quantised weight."""
        return f"{weight}.q", f"{weight}.scales"

    def shared(self, name: str, dims: Sequence[int] | None = None, kind: int | None = None) -> TensorProto:
        """A reference to the same bytes, with a path from the folder above the graph's folder.

        Args:
            dims: another shape; None for the same.
            kind: another ONNX type; None for the same.
        """
        tensor = TensorProto()
        tensor.CopyFrom(initializer(self.graph, name))
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = f"{self.path.parent.name}/{entry.value}"
        if dims is not None:
            tensor.ClearField("dims")
            tensor.dims.extend(dims)
        tensor.data_type = tensor.data_type if kind is None else kind
        return tensor

    def values(self, name: str) -> NDArray[Any]:
        """The values of a small constant."""
        return numpy_helper.to_array(initializer(self.graph, name), str(self.path.parent))


def bind_weights(step: ModelProto, shipped: Shipped) -> ModelProto:
    """Turn the weights that are inputs of a step into constants; the step is edited and returned."""
    first: list[NodeProto] = []
    for name in [value.name for value in step.graph.input if value.name.endswith(".weight")]:
        if shipped.is_quantised(name):
            tensors, nodes = _dequantised(shipped, name)
            step.graph.initializer.extend(tensors)
            first += nodes
        else:
            step.graph.initializer.append(shipped.shared(name))
        del step.graph.input[[value.name for value in step.graph.input].index(name)]
    nodes = [*first, *step.graph.node]
    step.graph.ClearField("node")
    step.graph.node.extend(nodes)
    return step


def _dequantised(shipped: Shipped, name: str) -> tuple[list[TensorProto], list[NodeProto]]:
    """The constants and nodes that compute a float32 weight from its codes."""
    node = shipped.node(name)
    settings: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    bits, block = settings["bits"], settings["block_size"]
    is_table = node.op_type == "GatherBlockQuantized"
    codes, scales = shipped.codes(name)
    rows, *rest = initializer(shipped.graph, codes).dims
    columns = int(np.prod(rest)) * 8 // bits  # the last block of a product is padded
    blocks = -(-columns // block)
    middle = np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    zeros = middle
    if not is_table and len(node.input) > 3:  # packed rows are padded to whole bytes
        stored = shipped.values(node.input[3]).reshape(rows, -1)
        zeros = np.ascontiguousarray(unpacked(stored, blocks, bits))
    tensors = [
        shipped.shared(codes, (rows, columns), _TYPES[bits]),
        shipped.shared(scales, (rows, blocks)),
        helper.make_tensor(
            f"{name}.zeros", _TYPES[bits], zeros.shape, packed(zeros.reshape(-1), bits).tobytes(), raw=True
        ),
    ]
    inputs, whole = [tensor.name for tensor in tensors], f"{name}.rows"
    made = helper.make_node("DequantizeLinear", inputs, [whole], f"{name}.values", axis=1, block_size=block)
    if is_table:
        made.output[0] = name
        return tensors, [made]
    width = settings["K"]
    bounds = {f"{name}.{at}": value for at, value in (("start", 0), ("end", width), ("axis", 1))}
    tensors += [numpy_helper.from_array(np.array([value], np.int64), at) for at, value in bounds.items()]
    cut = helper.make_node("Slice", [whole, *bounds], [f"{name}.cut"], f"{name}.cut")
    turn = helper.make_node("Transpose", [f"{name}.cut"], [name], f"{name}.turn", perm=[1, 0])
    return tensors, [made, cut, turn]
