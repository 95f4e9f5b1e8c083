"""Weights as the file has them: codes of a GGUF file become products of the same codes, not rounded again.

Codes that are centred are a MatMulNBits. Codes with a minimum, w = d (q - middle) + m, are that product plus
(sums of x over blocks) times the small matrix of the minima: exact, and about as fast. For fractional zero
points MatMulNBits unpacks all weights in every pass. The parts of a packed product may be stored in several
types: parts of one form are one product, and the products are joined. Types whose codes no graph holds are
rounded to 8 bits; floats stay float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, helper

from omnidraft.checkpoints.gguf.codes import BlockCodes
from omnidraft.checkpoints.gguf.weights import FLOATS, PackedWeight
from omnidraft.export.graph.passes import consumers
from omnidraft.export.graph.weights import GraphWeights
from omnidraft.export.quantize.grids import GRIDS, Floats, codes_on
from omnidraft.export.quantize.int4_packing import packed
from omnidraft.export.quantize.quantize import INT8_ACTIVATIONS

if TYPE_CHECKING:
    from torch import Tensor

_ROUNDED_BLOCK = 32  # of types whose codes no graph holds
_ROWS = 4096  # rounded at a time
Part = BlockCodes | Floats  # codes, or a float weight [rows, columns]


class StoredWeight:
    """Nodes and constants of one weight.

    Attributes:
        nodes: that replace the node which read the float weight.
        tensors: their constants, by name.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.tensors: dict[str, NDArray[Any]] = {}

    def add(self, operator: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> str:
        """Add a node with one output; returns the output."""
        domain = "com.microsoft" if operator in ("MatMulNBits", "GatherBlockQuantized") else ""
        self.nodes.append(helper.make_node(operator, inputs, [output], name, domain=domain, **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant; returns its name."""
        self.tensors[name] = value
        return name


def write_stored(graph: GraphProto, name: str, weights: GraphWeights) -> dict[str, NDArray[Any]] | None:
    """Let the nodes that read a weight read the codes of the file instead.

    Args:
        graph: it is edited.
        name: of the weight.
        weights: of the graph.

    Returns:
        The constants of the new nodes; None where the weight is float in the file, and nothing is changed.
    """
    held = weights.parts(name)
    if not any(isinstance(each, PackedWeight) and each.kind not in FLOATS for each in held):
        return None
    made: dict[str, NDArray[Any]] = {}
    parts = _joined([_part(each) for each in held])
    for node in consumers(graph, name):
        stored = StoredWeight()
        if node.op_type == "Gather":
            assert len(parts) == 1 and isinstance(parts[0], BlockCodes), "an embedding has one part"
            _embedding(stored, node, name, parts[0])
        else:
            _products(stored, node, name, parts)
        _replace(graph, node, stored.nodes)
        made |= stored.tensors
    return made


def _part(held: Tensor | PackedWeight) -> Part:
    """The codes of a part, or its values if they are float in the file."""
    if isinstance(held, PackedWeight) and held.kind not in FLOATS:
        codes = held.codes()
        return _rounded(held.numpy()) if codes is None else codes
    values: Floats = held.float().numpy()
    return values


def _rounded(values: Floats) -> BlockCodes:
    """8 bits in blocks of 32, of a type whose codes no graph holds."""
    codes, scales = [], []
    for at in range(0, len(values), _ROWS):
        blocks = values[at : at + _ROWS].reshape(len(values[at : at + _ROWS]), -1, _ROUNDED_BLOCK)
        grid = GRIDS["round"](blocks, 8)
        codes.append(codes_on(blocks, grid, 8))
        scales.append(grid[0])
    return BlockCodes(8, np.concatenate(codes), np.concatenate(scales))


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The parts, neighbours of one form as one."""
    groups: list[list[Part]] = []
    for part in parts:
        if groups and _form(groups[-1][0]) == _form(part):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [group[0] if len(group) == 1 else _stacked(group) for group in groups]


def _form(part: Part) -> tuple[object, ...]:
    if isinstance(part, BlockCodes):
        return part.bits, part.block, part.minima is None
    return (32,)


def _stacked(group: Sequence[Part]) -> Part:
    """Parts of one form, one below the other."""
    coded = [part for part in group if isinstance(part, BlockCodes)]
    if not coded:
        return np.concatenate([part for part in group if not isinstance(part, BlockCodes)])
    minima = [part.minima for part in coded if part.minima is not None]
    return BlockCodes(
        coded[0].bits,
        np.concatenate([part.codes for part in coded]),
        np.concatenate([part.scales for part in coded]),
        np.concatenate(minima) if minima else None,
    )


def _products(stored: StoredWeight, node: NodeProto, name: str, parts: Sequence[Part]) -> None:
    """The product of a node with a weight of one or several parts."""
    x, output, sums = node.input[0], node.output[0], dict[int, str]()
    outputs = []
    for i, part in enumerate(parts):
        own, label = (node.name, name) if len(parts) == 1 else (f"{node.name}.{i}", f"{name}.{i}")
        end = output if len(parts) == 1 else f"{own}.columns"
        if not isinstance(part, BlockCodes):
            weight = stored.constant(label, np.ascontiguousarray(part.T))
            outputs.append(stored.add("MatMul", [x, weight], end, own))
            continue
        if part.minima is None:
            outputs.append(_coded(stored, x, part, (own, label), end))
            continue
        if part.block not in sums:
            sums[part.block] = _sums(stored, x, part, f"{node.name}.sums{part.block}")
        coded = _coded(stored, x, part, (own, label), f"{own}.coded")
        minima = stored.constant(f"{label}.minima", np.ascontiguousarray(part.minima.T))
        lifted = stored.add("MatMul", [sums[part.block], minima], f"{own}.lifted", f"{own}.lifted")
        outputs.append(stored.add("Add", [coded, lifted], end, f"{own}.whole"))
    if len(parts) > 1:
        stored.add("Concat", outputs, output, f"{node.name}.joined", axis=-1)


def _coded(stored: StoredWeight, x: str, part: BlockCodes, names: tuple[str, str], output: str) -> str:
    """The product with the centred codes of a part, `names` of the node and of the weight."""
    rows, blocks, block = part.codes.shape
    codes, scales = _codes(stored, part, names[1])
    settings = {"K": blocks * block, "N": rows, "bits": part.bits, "block_size": block}
    return stored.add(
        "MatMulNBits", [x, codes, scales], output, names[0], accuracy_level=INT8_ACTIVATIONS, **settings
    )


def _codes(stored: StoredWeight, part: BlockCodes, label: str) -> tuple[str, str]:
    """The constants of codes [rows, blocks, bytes] and of scales [rows, blocks]."""
    codes = stored.constant(f"{label}.q", packed(part.codes, part.bits))
    return codes, stored.constant(f"{label}.scales", part.scales)


def _sums(stored: StoredWeight, x: str, part: BlockCodes, name: str) -> str:
    """The sums of x over blocks, [1, n, blocks]."""
    _, blocks, block = part.codes.shape
    shape = stored.constant(f"{name}.shape", np.array([0, 0, blocks, block], np.int64))  # 0: as in the input
    axis = stored.constant(f"{name}.axis", np.array([-1], np.int64))
    split = stored.add("Reshape", [x, shape], f"{name}.blocks", f"{name}.blocks")
    return stored.add("ReduceSum", [split, axis], name, name, keepdims=0)


def _embedding(stored: StoredWeight, node: NodeProto, name: str, part: BlockCodes) -> None:
    """The rows of a table, which a tied LM head may read, too."""
    _, blocks, block = part.codes.shape
    own, ids = node.name, node.input[1]
    codes, scales = _codes(stored, part, name)
    # A table of three axes needs scales of three axes; onnxruntime computes these once.
    axis = stored.constant(f"{own}.axis", np.array([2], np.int64))
    apart = stored.add("Unsqueeze", [scales, axis], f"{own}.scales", f"{own}.scales")
    settings = {"bits": part.bits, "block_size": block, "gather_axis": 0, "quantize_axis": 2}
    rows = stored.add("GatherBlockQuantized", [codes, ids, apart], f"{own}.blocks", own, **settings)
    if part.minima is not None:  # [blocks, rows], as a product needs them
        minima = stored.constant(f"{name}.minima", np.ascontiguousarray(part.minima.T))
        gathered = stored.add("Gather", [minima, ids], f"{own}.columns", f"{own}.columns", axis=1)
        turned = stored.add("Transpose", [gathered], f"{own}.turned", f"{own}.turned", perm=[1, 2, 0])
        last = stored.constant(f"{own}.last", np.array([3], np.int64))
        lifts = stored.add("Unsqueeze", [turned, last], f"{own}.minima", f"{own}.minima")
        rows = stored.add("Add", [rows, lifts], f"{own}.whole", f"{own}.whole")
    shape = stored.constant(f"{own}.shape", np.array([0, 0, blocks * block], np.int64))  # 0: as in the input
    stored.add("Reshape", [rows, shape], node.output[0], f"{own}.rows")


def _replace(graph: GraphProto, node: NodeProto, made: Sequence[NodeProto]) -> None:
    place = list(graph.node).index(node)
    del graph.node[place]
    for offset, new in enumerate(made):
        graph.node.insert(place + offset, new)
