"""A language model that is one table, as an ONNX graph with the inputs and outputs of spec/03-bundle.md."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper


def table_model(table: npt.NDArray[np.float32], max_length: int) -> bytes:
    """The graph of logits[i] = table[input_ids[i]], for the last num_logits ids.

    It has one layer of KV, 1 x 1 wide, which is passed through and never read. So the graph has the inputs
    and outputs of every graph, and the next token depends on the last token only.
    """
    kv = [1, 1, max_length, 1]
    nodes = [
        helper.make_node("Neg", ["num_logits"], ["first"]),
        helper.make_node("Slice", ["input_ids", "first", "end", "axis"], ["last"]),
        helper.make_node("Gather", ["table", "last"], ["logits"]),
        *(
            helper.make_node("Identity", [f"past_key_values.0.{p}"], [f"present.0.{p}"])
            for p in ("key", "value")
        ),
    ]
    constants = [
        helper.make_tensor("end", TensorProto.INT64, [1], [np.iinfo(np.int64).max]),
        helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
        helper.make_tensor("table", TensorProto.FLOAT, table.shape, table.tobytes(), raw=True),
    ]
    inputs = [
        _value("input_ids", TensorProto.INT64, [1, "n"]),
        _value("seqlens_k", TensorProto.INT32, [1]),
        _value("total_sequence_length", TensorProto.INT32, [1]),
        _value("num_logits", TensorProto.INT64, [1]),
        *(_value(f"past_key_values.0.{p}", TensorProto.FLOAT, kv) for p in ("key", "value")),
    ]
    outputs = [
        _value("logits", TensorProto.FLOAT, [1, "num", table.shape[1]]),
        *(_value(f"present.0.{p}", TensorProto.FLOAT, kv) for p in ("key", "value")),
    ]
    graph = helper.make_graph(nodes, "table", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, producer_name="omnidraft", ir_version=8)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _value(name: str, kind: int, shape: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)
