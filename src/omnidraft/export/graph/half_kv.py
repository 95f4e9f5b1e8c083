"""The pass that stores keys and values in float16: `half_kv` of an export."""

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from omnidraft.export.graph.passes import attention_nodes, initializer


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
