"""Weights as codes of 8 or 4 bits: rounded, or the codes of a GGUF file, which are not rounded again.

Codes that are centred, or have whole zero points, are a MatMulNBits. Codes with a minimum,
w = d (q - middle) + m, are that product plus (sums of x over blocks) times the small matrix of the minima:
exact, for about a fifth of a short pass. For fractional zero points MatMulNBits unpacks all weights in every
pass. The parts of a packed product may be stored in several types: parts of one form are one product, and the
products are joined. Types whose codes no graph holds are rounded to 8 bits.

The kernel rounds activations row by row, so a token changes only its own row. Dynamic int8 is not offered:
the rows of a block share one activation scale, so a rejected draft token changes the logits of the accepted
tokens, and speculation is not exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, helper

from omnidraft.checkpoints.gguf.codes import BlockCodes
from omnidraft.checkpoints.gguf.weights import FLOATS, PackedWeight
from omnidraft.export.graph.markers import EMBEDDING
from omnidraft.export.graph.passes import consumers
from omnidraft.export.graph.weights import GraphWeights
from omnidraft.export.quantize.gptq import compensate
from omnidraft.export.quantize.grids import GRIDS, Codes, Floats, codes_on, packed
from omnidraft.export.quantize.quantization import BLOCK, Quantization

if TYPE_CHECKING:
    from torch import Tensor

INT8_ACTIVATIONS = 4  # accuracy_level; at level 0 a block of two tokens costs as much as in fp32
_ROWS = 4096  # rounded at a time, because a large LM head takes much memory
Part = BlockCodes | Floats  # codes, or a float weight [rows, columns]
Factors = Iterator[tuple[str, Floats]]


def rounded(weight: Floats, bits: int, method: str = "round", factor: Floats | None = None) -> BlockCodes:
    """The codes of a weight.

    Args:
        weight: float32 [rows, columns]; columns that do not fill a block are padded with zeros.
        bits: 4 or 8.
        method: of `GRIDS`.
        factor: `inverse_factor` of the inputs, [columns, columns]; rows are then rounded by GPTQ.
    """
    parts: list[tuple[Codes, Floats, Codes | None]] = []
    for at in range(0, len(weight), _ROWS):
        rows = np.ascontiguousarray(weight[at : at + _ROWS], np.float32)
        if factor is None:
            blocks = np.pad(rows, ((0, 0), (0, -rows.shape[1] % BLOCK))).reshape(len(rows), -1, BLOCK)
            grid = GRIDS[method](blocks, bits)
            codes = codes_on(blocks, grid, bits)
        else:
            codes, grid = compensate(rows.T, factor, bits, BLOCK)
        parts.append((codes, *grid))
    packed, scales, zeros = zip(*parts, strict=True)
    whole = None if zeros[0] is None else np.concatenate(zeros)
    return BlockCodes(bits, np.concatenate(packed), np.concatenate(scales), zeros=whole)


def write_weight(
    graph: GraphProto, name: str, weights: GraphWeights, form: Quantization, factors: Factors | None
) -> dict[str, NDArray[Any]]:
    """Let the nodes that read a weight read it in the form to store.

    Args:
        factors: for the method gptq, `inverse_factor` of the inputs of each 4-bit product, in order.

    Returns:
        The constants that the nodes read.
    """
    product = name.removesuffix(".weight")
    bits = form.table_bits if name == EMBEDDING else form.bits_of(product)
    held, parts = weights.parts(name), list[Part]()
    if form.stored:
        if any(isinstance(each, PackedWeight) and each.kind not in FLOATS for each in held):
            parts = [_stored(each) for each in held]
    elif bits < 32 and not (name == EMBEDDING and held[0].shape[1] % BLOCK):  # rows of a table are not padded
        method, factor = form.method if bits == 4 else "round", None
        if method == "gptq":
            assert factors is not None, "gptq needs calibration rows"
            of, factor = next(factors)
            assert of == product, (of, product)
        parts = [rounded(each.float().numpy(), bits, method, factor) for each in held]
    if not parts:
        return {name: weights.read(name)}
    return _replaced(graph, name, _joined(parts), held[0].shape[1])


def _stored(held: Tensor | PackedWeight) -> Part:
    """The codes of a part of a GGUF file, or its values if they are float there."""
    if isinstance(held, PackedWeight) and held.kind not in FLOATS:
        return held.codes() or rounded(held.numpy(), 8)
    values: Floats = held.float().numpy()
    return values


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
    fields = [[getattr(part, field) for part in coded] for field in ("codes", "scales", "minima", "zeros")]
    whole: list[Any] = [None if each[0] is None else np.concatenate(each) for each in fields]
    return BlockCodes(coded[0].bits, *whole)


class _Nodes:
    """Nodes in the place of one that read a float weight, and their constants by name."""

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

    def codes(self, part: BlockCodes, label: str) -> list[str]:
        """The constants of codes [rows, blocks, bytes], scales [rows, blocks], and zero points if any."""
        names = [self.constant(f"{label}.q", packed(part.codes, part.bits))]
        names.append(self.constant(f"{label}.scales", part.scales))
        if part.zeros is not None:
            names.append(self.constant(f"{label}.zeros", packed(part.zeros, part.bits)))
        return names


def _replaced(graph: GraphProto, name: str, parts: Sequence[Part], columns: int) -> dict[str, NDArray[Any]]:
    made: dict[str, NDArray[Any]] = {}
    for node in consumers(graph, name):  # two, if the LM head reads the embedding
        new = _Nodes()
        if node.op_type == "Gather":
            assert len(parts) == 1 and isinstance(parts[0], BlockCodes), "an embedding has one part"
            _embedding(new, node, name, parts[0])
        else:
            _products(new, node, name, parts, columns)
        place = list(graph.node).index(node)
        del graph.node[place]
        for offset, each in enumerate(new.nodes):
            graph.node.insert(place + offset, each)
        made |= new.tensors
    return made


def _products(new: _Nodes, node: NodeProto, name: str, parts: Sequence[Part], columns: int) -> None:
    """The product of a node with a weight of one or several parts, of `columns` columns without padding."""
    x, output, sums = node.input[0], node.output[0], dict[int, str]()
    outputs = []
    for i, part in enumerate(parts):
        own, label = (node.name, name) if len(parts) == 1 else (f"{node.name}.{i}", f"{name}.{i}")
        end = output if len(parts) == 1 else f"{own}.columns"
        if not isinstance(part, BlockCodes):
            weight = new.constant(label, np.ascontiguousarray(part.T))
            outputs.append(new.add("MatMul", [x, weight], end, own))
            continue
        if part.minima is None:
            outputs.append(_coded(new, (x, columns), part, (own, label), end))
            continue
        if part.block not in sums:
            sums[part.block] = _sums(new, x, part, f"{node.name}.sums{part.block}")
        coded = _coded(new, (x, columns), part, (own, label), f"{own}.coded")
        minima = new.constant(f"{label}.minima", np.ascontiguousarray(part.minima.T))
        lifted = new.add("MatMul", [sums[part.block], minima], f"{own}.lifted", f"{own}.lifted")
        outputs.append(new.add("Add", [coded, lifted], end, f"{own}.whole"))
    if len(parts) > 1:
        new.add("Concat", outputs, output, f"{node.name}.joined", axis=-1)


def _coded(new: _Nodes, x: tuple[str, int], part: BlockCodes, names: tuple[str, str], output: str) -> str:
    """The product of a value, given with its width, and a part; `names` of the node and of the weight."""
    settings = {"K": x[1], "N": len(part.codes), "bits": part.bits, "block_size": part.block}
    inputs = [x[0], *new.codes(part, names[1])]
    return new.add("MatMulNBits", inputs, output, names[0], accuracy_level=INT8_ACTIVATIONS, **settings)


def _sums(new: _Nodes, x: str, part: BlockCodes, name: str) -> str:
    """The sums of x over blocks, [1, n, blocks]."""
    _, blocks, block = part.codes.shape
    shape = new.constant(f"{name}.shape", np.array([0, 0, blocks, block], np.int64))  # 0: as in the input
    axis = new.constant(f"{name}.axis", np.array([-1], np.int64))
    split = new.add("Reshape", [x, shape], f"{name}.blocks", f"{name}.blocks")
    return new.add("ReduceSum", [split, axis], name, name, keepdims=0)


def _embedding(new: _Nodes, node: NodeProto, name: str, part: BlockCodes) -> None:
    """The rows of a table, which a tied LM head may read, too."""
    _, blocks, block = part.codes.shape
    own, ids = node.name, node.input[1]
    codes, scales = new.codes(part, name)
    # A table of three axes needs scales of three axes; onnxruntime computes these once.
    axis = new.constant(f"{own}.axis", np.array([2], np.int64))
    apart = new.add("Unsqueeze", [scales, axis], f"{own}.scales", f"{own}.scales")
    settings = {"bits": part.bits, "block_size": block, "gather_axis": 0, "quantize_axis": 2}
    rows = new.add("GatherBlockQuantized", [codes, ids, apart], f"{own}.blocks", own, **settings)
    if part.minima is not None:  # [blocks, rows], as a product needs them
        minima = new.constant(f"{name}.minima", np.ascontiguousarray(part.minima.T))
        gathered = new.add("Gather", [minima, ids], f"{own}.columns", f"{own}.columns", axis=1)
        turned = new.add("Transpose", [gathered], f"{own}.turned", f"{own}.turned", perm=[1, 2, 0])
        last = new.constant(f"{own}.last", np.array([3], np.int64))
        lifts = new.add("Unsqueeze", [turned, last], f"{own}.minima", f"{own}.minima")
        rows = new.add("Add", [rows, lifts], f"{own}.whole", f"{own}.whole")
    shape = new.constant(f"{own}.shape", np.array([0, 0, blocks * block], np.int64))  # 0: as in the input
    new.add("Reshape", [rows, shape], node.output[0], f"{own}.rows")


def stored_table(graph: GraphProto) -> dict[str, Any] | None:
    """How a written graph holds the embedding: its bytes, and whether the LM head reads them too.

    None for a graph whose nodes have other names than an export gives them.
    """
    nodes = {node.name: node for node in graph.node if node.name in ("embedding", "lm_head")}
    if len(nodes) != 2:
        return None
    table = nodes["embedding"].input[0]
    tensor = next((each for each in graph.initializer if each.name == table), None)
    if tensor is None:
        return None
    size = math.prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return {"bytes": int(size), "shared": table in nodes["lm_head"].input}
