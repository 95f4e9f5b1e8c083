"""The embedding table in 8 or 4 bits; a tied LM head reads the same codes where both are stored alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from omnidraft.export.graph.passes import initializer
from omnidraft.export.quantize.quantization import Quantization
from omnidraft.export.quantize.rounded import rounded

_BLOCK = 32


def shares_table(graph: GraphProto, quantization: Quantization) -> bool:
    """Whether the LM head and the embedding are stored once: the head is tied, and both get the same codes.

    Args:
        graph: before quantisation.
        quantization: how to store the weights.
    """
    head = next((node for node in graph.node if node.name == "lm_head"), None)
    if head is None or not quantization.one_table or head.op_type != "FusedMatMul":
        return False
    attributes = _attributes(head)
    table = _lookup(graph).input[0]
    width: int = initializer(graph, table).dims[1]
    tied = head.input[1] == table and attributes.get("transB") == 1 and attributes.get("alpha", 1.0) == 1.0
    return tied and width % quantization.block_for(width) == 0  # a row of an embedding is not padded


def quantize_embedding(graph: GraphProto, bits: int) -> None:
    """Store the embedding as codes of its own, in blocks of 32 values of a token."""
    node = _lookup(graph)
    table = numpy_helper.to_array(initializer(graph, node.input[0]))  # [vocab, hidden]
    codes, scales = rounded(table.T, bits, _BLOCK)
    codes = codes.reshape(len(table), -1)[:, : table.shape[1] * bits // 8]  # an embedding is not padded
    graph.initializer.append(numpy_helper.from_array(codes, "embedding.q"))
    graph.initializer.append(numpy_helper.from_array(scales, "embedding.scales"))
    inputs = ["embedding.q", "input_ids", "embedding.scales"]
    node.CopyFrom(_gather(inputs, node.output[0], bits, _BLOCK, axis=1))


def read_table_of_head(graph: GraphProto) -> None:
    """Let the embedding read the codes of the quantised LM head, [vocab, blocks, bytes of a block].

    A table of three axes needs scales of three axes, and the head takes no such scales: onnxruntime computes
    these once, when it loads the graph.
    """
    head = next(node for node in graph.node if node.name == "lm_head")
    settings = _attributes(head)
    node, (codes, scales) = _lookup(graph), head.input[1:3]
    axis, shape, apart, blocks = (f"embedding.{x}" for x in ("axis", "shape", "scales", "blocks"))
    for name, values in ((axis, [2]), (shape, [0, 0, settings["K"]])):  # 0: as in the input
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    gather = _gather([codes, "input_ids", apart], blocks, settings["bits"], settings["block_size"], axis=2)
    made = [
        helper.make_node("Unsqueeze", [scales, axis], [apart], apart),
        gather,  # [1, n, blocks, block]
        helper.make_node("Reshape", [blocks, shape], [node.output[0]], "embedding.rows"),
    ]
    place = list(graph.node).index(node)
    del graph.node[place]
    for offset, new in enumerate(made):
        graph.node.insert(place + offset, new)


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


def _lookup(graph: GraphProto) -> NodeProto:
    """The node that reads the embedding table."""
    lookups = (node for node in graph.node if node.op_type == "Gather" and node.input[1] == "input_ids")
    node: NodeProto = next(lookups)
    return node


def _gather(inputs: list[str], output: str, bits: int, block: int, axis: int) -> NodeProto:
    return helper.make_node(
        "GatherBlockQuantized",
        inputs,
        [output],
        "embedding",
        domain="com.microsoft",
        bits=bits,
        block_size=block,
        gather_axis=0,
        quantize_axis=axis,
    )


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}
