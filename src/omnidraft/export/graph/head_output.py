"""The adaptive head in a graph: one more output, `acceptance`, beside the logits.

Its tensors are overridable initializers with the values of a head that was never trained: nobody need feed
them, and then every acceptance is 1. They stay in float32, whatever the graph's weights become.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from omnidraft.errors import ExportError
from omnidraft.export.graph.passes import LAST_ROWS
from omnidraft.runtime.bundle.head import BIAS, MAX_BLOCKS, OUTPUT, WEIGHT, HeadShape, block_name


def add_head(model: ModelProto, hidden: int, blocks: int = 1) -> HeadShape:
    """Adds the output `acceptance` [1, num_logits]: one for each row of logits, of the token that it read.

    Args:
        model: a graph of our contract before quantisation; it is edited.
        hidden: width of what the LM head reads.
        blocks: x + SiLU(x W), 1 to 3.

    Raises:
        ExportError: another number of blocks.
    """
    if not 1 <= blocks <= MAX_BLOCKS:
        raise ExportError(
            f"a head of {blocks} blocks is outside 1..{MAX_BLOCKS}", "give 1, or leave it out with --no-head"
        )
    shape, graph = HeadShape(hidden, blocks), model.graph
    model.ir_version = max(model.ir_version, 4)  # from here on an initializer may be an input too
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
    """Adds x + SiLU(x W) and returns its name."""
    product, gate, silu, found = (f"head.{i}.{each}" for each in ("product", "gate", "silu", "sum"))
    for operator, inputs, output in (
        ("MatMul", [x, block_name(i)], product),
        ("Sigmoid", [product], gate),
        ("Mul", [product, gate], silu),
        ("Add", [x, silu], found),
    ):
        model.graph.node.append(helper.make_node(operator, inputs, [output], output))
    return found
