"""The passes that turn a graph of operators into a graph of our contract.

A pass edits its model and returns it, because memory may not hold the weights twice. This module does not
know torch, checkpoints or quantisation.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

SITES = ("qkv", "o", "gate_up", "down")  # the MatMuls of a layer, in the order of the data flow
LAST_ROWS = "last_rows"  # the hidden states that the LM head reads, [1, num_logits, hidden]


def keep_last_rows(model: ModelProto) -> ModelProto:
    """Pass only the last `num_logits` positions to the LM head, whose width is the vocabulary."""
    head = lm_head(model.graph)
    hidden = head.input[0]
    for value, name in ((np.iinfo(np.int64).max, "last_rows.end"), (1, "last_rows.axis")):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
    start = helper.make_node("Neg", ["num_logits"], ["last_rows.start"], "last_rows.start")
    inputs = [hidden, "last_rows.start", "last_rows.end", "last_rows.axis"]
    place = list(model.graph.node).index(head)
    model.graph.node.insert(place, start)
    model.graph.node.insert(place + 1, helper.make_node("Slice", inputs, [LAST_ROWS], LAST_ROWS))
    replace(head.input, hidden, LAST_ROWS)
    return model


def drop_dead(model: ModelProto) -> ModelProto:
    """Remove the nodes and initializers that no output depends on."""
    graph = model.graph
    live = {output.name for output in graph.output}
    for node in reversed(graph.node):
        if live.intersection(node.output):
            live.update(node.input)
    for place in reversed([i for i, node in enumerate(graph.node) if not live.intersection(node.output)]):
        del graph.node[place]
    for place in reversed([i for i, tensor in enumerate(graph.initializer) if tensor.name not in live]):
        del graph.initializer[place]
    return model


def fix_shapes(model: ModelProto, kv: Sequence[int], vocab_size: int) -> ModelProto:
    """Declare inputs and outputs as in the contract, with KV buffers of shape `kv`.

    The shapes of other values are removed; onnxruntime infers them again.
    """
    graph = model.graph
    layers = range(len(attention_nodes(graph)))
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "n"]),
        helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("total_sequence_length", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("num_logits", TensorProto.INT64, [1]),
        *_kv_infos("past_key_values", layers, kv),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "num_logits", vocab_size]),
        *_kv_infos("present", layers, kv),
    ]
    for field, infos in ((graph.input, inputs), (graph.output, outputs)):
        del field[:]
        field.extend(infos)
    del graph.value_info[:]
    return model


def _kv_infos(prefix: str, layers: Iterable[int], shape: Sequence[int]) -> list[ValueInfoProto]:
    names = [f"{prefix}.{layer}.{kind}" for layer in layers for kind in ("key", "value")]
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]


def attention_nodes(graph: GraphProto) -> list[NodeProto]:
    """The GroupQueryAttention nodes in order, one for each layer."""
    return [node for node in graph.node if node.op_type == "GroupQueryAttention"]


def matmuls(graph: GraphProto) -> list[NodeProto]:
    """The products with a constant weight, in order; the last one is the LM head.

    An initializer that is also an input is not a constant: an adapter overrides it.
    """
    weights = {tensor.name for tensor in graph.initializer} - {value.name for value in graph.input}
    products = [node for node in graph.node if node.op_type in ("MatMul", "FusedMatMul")]
    return [node for node in products if node.input[1] in weights]


def lm_head(graph: GraphProto) -> NodeProto:
    """The last product with a constant weight."""
    return matmuls(graph)[-1]


def consumers(graph: GraphProto, name: str) -> list[NodeProto]:
    """The nodes that read the value `name`."""
    return [node for node in graph.node if name in node.input]


def initializer(graph: GraphProto, name: str) -> TensorProto:
    """The initializer called `name`."""
    constant: TensorProto = next(tensor for tensor in graph.initializer if tensor.name == name)
    return constant


def replace(names: MutableSequence[str], old: str, new: str) -> None:
    """Replace every `old` in a list of names by `new`."""
    for place, name in enumerate(names):
        if name == old:
            names[place] = new


def half_kv(model: ModelProto) -> ModelProto:
    """Make the KV buffers float16; everything but attention stays float32.

    The CPU kernel of GroupQueryAttention wants queries, keys, values, buffers and rotary tables of one type.
    So the tables become float16, and a Cast stands before and after each attention.
    """
    graph = model.graph
    nodes = attention_nodes(graph)
    for name in {table for node in nodes for table in node.input[7:9]}:
        table = initializer(graph, name)
        values = numpy_helper.to_array(table).astype(np.float16)
        table.CopyFrom(numpy_helper.from_array(values, name))
    for node in nodes:
        place = list(graph.node).index(node)
        output = node.output[0]
        node.output[0] = f"{node.name}.output.half"
        graph.node.insert(place + 1, _cast(node.output[0], output, TensorProto.FLOAT))
        for index, state in enumerate(node.input[:3]):
            if state:  # packed states are one input
                node.input[index] = f"{node.name}.{index}.half"
                graph.node.insert(place, _cast(state, node.input[index], TensorProto.FLOAT16))
    for value in (*graph.input, *graph.output):
        if value.name.startswith(("past_key_values.", "present.")):
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def _cast(value: str, result: str, kind: int) -> NodeProto:
    return helper.make_node("Cast", [value], [result], f"{result}.cast", to=kind)
