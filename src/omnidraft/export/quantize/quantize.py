"""Weight-only quantisation: each product with a constant weight becomes a MatMulNBits of 8 or 4 bits.

The kernel rounds activations row by row, so a token changes only its own row. Dynamic int8 is not offered:
the rows of a block share one activation scale, so a rejected draft token changes the logits of the accepted
tokens, and speculation is not exact.

The model is edited in place, product by product; a float32 weight is removed when its codes exist.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from omnidraft.export.graph.passes import consumers, drop_dead, initializer, matmuls, untie_head
from omnidraft.export.quantize.embedding import quantize_embedding, read_table_of_head, shares_table
from omnidraft.export.quantize.gptq import Calibration, CalibrationSite, hessians, inverse_factor
from omnidraft.export.quantize.grids import Floats
from omnidraft.export.quantize.quantization import FP32, INT4, INT4_B128, INT4_E8, INT8, Quantization
from omnidraft.export.quantize.rounded import rounded

__all__ = ["FP32", "INT4", "INT4_B128", "INT4_E8", "INT8", "Calibration", "Quantization", "quantize"]

INT8_ACTIVATIONS = 4  # accuracy_level; at level 0 a block of two tokens costs as much as in fp32


def quantize(
    model: ModelProto, quantization: Quantization, calibration: Calibration | None = None
) -> ModelProto:
    """Quantise every product with a constant weight, the LM head too, and the embedding if asked.

    Args:
        model: the graph; it is edited and returned.
        quantization: how to store the weights.
        calibration: the data of the method gptq; no other method needs it.
    """
    if (quantization.bits, quantization.embedding_bits) == (32, 32):
        return model
    shared = shares_table(model.graph, quantization)
    if quantization.bits < 32:
        _quantize_products(model, quantization, calibration)
    else:
        untie_head(model)
    if shared:
        read_table_of_head(model.graph)
    elif quantization.embedding_bits < 32:
        quantize_embedding(model.graph, quantization.embedding_bits)
    return drop_dead(model)


def _quantize_products(
    model: ModelProto, quantization: Quantization, calibration: Calibration | None
) -> None:
    graph = model.graph
    products = matmuls(graph)
    shared = shares_table(graph, quantization)
    bits = [_bits_of(node, quantization, shared) for node in products]
    inputs_squared = None
    if quantization.method == "gptq":
        assert calibration is not None, "gptq needs calibration rows"
        sites = [
            CalibrationSite(node.input[0], _weight(graph, node).shape[0])
            for node, b in zip(products, bits, strict=True)
            if b == 4
        ]
        inputs_squared = hessians(calibration, sites)
    for node, b in zip(products, bits, strict=True):
        name, weight = node.input[1], _weight(graph, node)
        block = quantization.block_for(len(weight))
        factor = inverse_factor(next(inputs_squared)) if inputs_squared is not None and b == 4 else None
        inputs = [f"{name}.q", f"{name}.scales", f"{name}.zeros"]
        if not any(
            tensor.name == inputs[0] for tensor in graph.initializer
        ):  # equal weights are quantised once
            method = quantization.method if b == 4 else "round"
            for tensor, value in zip(inputs, rounded(weight, b, block, method, factor), strict=False):
                graph.initializer.append(numpy_helper.from_array(value, tensor))
        constants = {tensor.name for tensor in graph.initializer}
        node.CopyFrom(_product(node, [i for i in inputs if i in constants], weight.shape, b, block))
        del weight
        _drop_unused(graph, name)


def _bits_of(node: NodeProto, quantization: Quantization, shared: bool) -> int:
    tied = node.name == "lm_head" and shared
    return quantization.embedding_bits if tied else quantization.bits_of(node.name)


def _weight(graph: GraphProto, node: NodeProto) -> Floats:
    """The weight of a product, [k, n]; that of a tied LM head is a view of the embedding table."""
    weight = numpy_helper.to_array(initializer(graph, node.input[1]))
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert not attributes.get("transA", 0), f"{node.name} transposes its rows"
    weight = weight.T if attributes.get("transB", 0) else weight
    alpha = np.float32(attributes.get("alpha", 1.0))
    return weight if alpha == 1 else weight * alpha


def _drop_unused(graph: GraphProto, name: str) -> None:
    if not consumers(graph, name):
        places = [i for i, tensor in enumerate(graph.initializer) if tensor.name == name]
        for place in reversed(places):
            del graph.initializer[place]


def _product(
    node: NodeProto, constants: list[str], shape: tuple[int, ...], bits: int, block: int
) -> NodeProto:
    return helper.make_node(
        "MatMulNBits",
        [node.input[0], *constants],
        list(node.output),
        node.name,
        domain="com.microsoft",
        K=shape[0],
        N=shape[1],
        bits=bits,
        block_size=block,
        accuracy_level=INT8_ACTIVATIONS,
    )
