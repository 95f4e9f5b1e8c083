"""Build a graph of plain ONNX operators node by node, for the static form of a decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

OPSET = 18
_IR_VERSION = 9


class Net:
    """Nodes and constants in the order in which they are added; a node has the name of its first output.

    Attributes:
        weights: every weight by name; a norm or a bias that has no weight is left out.
    """

    def __init__(self, weights: Mapping[str, TensorProto]) -> None:
        self.weights = weights
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}
        self._used: dict[str, TensorProto] = {}

    def op(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add a node with one output, called `name`."""
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def halves(self, value: str, name: str) -> tuple[str, str]:
        """The two halves of the last axis."""
        outputs = [f"{name}.0", f"{name}.1"]
        self._nodes.append(helper.make_node("Split", [value], outputs, name, axis=-1, num_outputs=2))
        return outputs[0], outputs[1]

    def part(self, value: str, begin: int, end: int, name: str) -> str:
        """[begin, end) of the last axis; for three unequal parts every accelerator supports Slice."""
        bounds = [self._ints([begin]), self._ints([end]), self._ints([-1])]
        return self.op("Slice", [value, *bounds], name)

    def reshape(self, value: str, shape: Sequence[int], name: str) -> str:
        """The same values in another shape."""
        return self.op("Reshape", [value, self._ints(shape)], name)

    def times(self, value: str, factor: float, name: str) -> str:
        """A product with a constant; no node if the constant is 1."""
        return value if factor == 1.0 else self.op("Mul", [value, self._floats(factor)], name)

    def linear(self, rows: str, name: str) -> str:
        """rows @ weight, plus the bias if there is one; the product is the node called `name`."""
        product = self.op("MatMul", [rows, self._weight(f"{name}.weight")], name)
        if f"{name}.bias" not in self.weights:
            return product
        return self.op("Add", [product, self._weight(f"{name}.bias")], f"{name}.biased")

    def norm(self, rows: str, name: str, epsilon: float) -> str:
        """RMSNorm over the last axis, x / sqrt(mean x^2 + epsilon) * weight, if there is such a weight.

        The graph divides, because a quantised Reciprocal is wrong on HTP.
        """
        if f"{name}.weight" not in self.weights:
            return rows
        squares = self.op("Mul", [rows, rows], f"{name}.squares")
        mean = self.op("ReduceMean", [squares, self._ints([-1])], f"{name}.mean", keepdims=1)
        root = self.op("Sqrt", [self.op("Add", [mean, self._floats(epsilon)], f"{name}.sum")], f"{name}.root")
        unit = self.op("Div", [rows, root], f"{name}.unit")
        return self.op("Mul", [unit, self._weight(f"{name}.weight")], name)

    def rename(self, value: str, name: str) -> str:
        """Rename the newest value of this name, as an output of the graph; no node may read it."""
        node = next(node for node in reversed(self._nodes) if value in node.output)
        for reader in self._nodes:
            assert value not in reader.input, f"{reader.name} reads {value}"
        node.output[list(node.output).index(value)] = name
        return name

    def model(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]
    ) -> ModelProto:
        """The graph of all nodes."""
        tensors = [*self._used.values(), *self._constants.values()]
        graph = helper.make_graph(self._nodes, name, list(inputs), list(outputs), tensors)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            graph, opset_imports=opset, ir_version=_IR_VERSION, producer_name="omnidraft"
        )

    def _weight(self, name: str) -> str:
        self._used[name] = self.weights[name]
        return name

    def _ints(self, values: Sequence[int]) -> str:
        return self._constant("ints." + ".".join(map(str, values)), np.array(values, np.int64))

    def _floats(self, value: float) -> str:
        return self._constant(f"float.{value!r}", np.array(value, np.float32))

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants[name] = numpy_helper.from_array(value, name)
        return name
