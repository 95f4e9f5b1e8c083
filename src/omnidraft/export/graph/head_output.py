"""The adaptive head in a graph: an output `acceptance` beside the logits.

The tensors of the head are overridable initializers with the values of an untrained head: feeding them is
optional, and without them every acceptance is 1. They stay in float32 when the graph is quantised.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from omnidraft.errors import ExportError
from omnidraft.export.graph.passes import LAST_ROWS
from omnidraft.runtime.bundle.head import BIAS, MAX_BLOCKS, OUTPUT, WEIGHT, HeadShape, block_name


def add_head(model: ModelProto, hidden: int, blocks: int = 1) -> HeadShape:
    """Add the output `acceptance` [1, num_logits]: for each row of logits, the acceptance of the token read.

    Args:
        model: a graph of our contract before quantisation; it is edited.
        hidden: width of the hidden states that the LM head reads.
        blocks: number of blocks x + SiLU(x W), 1 to 3.

    Raises:
        ExportError: `blocks` is out of range.
    """
    if not 1 <= blocks <= MAX_BLOCKS:
        raise ExportError(
            f"a head of {blocks} blocks is outside 1..{MAX_BLOCKS}", "give 1, or leave it out with --no-head"
        )
    shape, graph = HeadShape(hidden, blocks), model.graph
    model.ir_version = max(model.ir_version, 4)  # since version 4 an initializer may be an input too
    for name, values in shape.untrained().items():
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, values.shape))
        graph.initializer.append(numpy_helper.from_array(values, name))
    x = LAST_ROWS
    for i in range(blocks):
        x = _block(model, x, i)
    for operator, inputs, output in (
        ("MatMul", [x, WEIGHT], "head.column"),
        ("Add", ["head.column", BIAS], "head.sum"),
        ("Sigmoid", ["head.sum"], "head.sigmoid"),
        ("Squeeze", ["head.sigmoid", "head.axis"], OUTPUT),
    ):
        graph.node.append(helper.make_node(operator, inputs, [output], output))
    graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), "head.axis"))
    graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, "num_logits"]))
    return shape


def _block(model: ModelProto, x: str, i: int) -> str:
    """Add x + SiLU(x W) and return the name of its value."""
    product, gate, silu, total = (f"head.{i}.{part}" for part in ("product", "gate", "silu", "sum"))
    for operator, inputs, output in (
        ("MatMul", [x, block_name(i)], product),
        ("Sigmoid", [product], gate),
        ("Mul", [product, gate], silu),
        ("Add", [x, silu], total),
    ):
        model.graph.node.append(helper.make_node(operator, inputs, [output], output))
    return total
