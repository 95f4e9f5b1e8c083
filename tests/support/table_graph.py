"""Language models of two tables as ONNX graphs: they read their own KV buffer, so what it holds matters.

They bind as every exported graph does and run in a real onnxruntime session.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper, save

from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.ort_model import Graph

Table = npt.NDArray[np.float32]
Constants = dict[str, npt.NDArray[np.generic]]
KV = ["past_key_values.0.key", "past_key_values.0.value", "present.0.key", "present.0.value"]


def small_graph(
    path: Path, nodes: Sequence[NodeProto], constants: Constants, kv: KvShape, vocab_size: int
) -> Graph:
    """Write a graph with the inputs and outputs of an exported one, and load it."""
    info, shape = helper.make_tensor_value_info, [1, kv.num_kv_heads, kv.max_length, kv.head_dim]
    inputs = [
        info("input_ids", TensorProto.INT64, [1, "n"]),
        *(info(name, TensorProto.INT32, [1]) for name in ("seqlens_k", "total_sequence_length")),
        info("num_logits", TensorProto.INT64, [1]),
        *(info(name, TensorProto.FLOAT, shape) for name in KV[:2]),
    ]
    outputs = [info("logits", TensorProto.FLOAT, [1, "m", vocab_size])]
    outputs += [info(name, TensorProto.FLOAT, shape) for name in KV[2:]]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return Graph(path, kv, vocab_size)


def table_graph(path: Path, by_last: Table, by_earlier: Table, max_length: int) -> Graph:
    """A graph of logits = by_last[x] + by_earlier[(y + 3 z) mod rows]; written to `path`.

    Args:
        path: where the graph goes.
        by_last: float32 [vocab, vocab]; x is the last token.
        by_earlier: float32 [rows, vocab]; y is the token before it and z the one at position 1, from the KV.
        max_length: positions of the KV buffers.
    """
    kv, node = KV, helper.make_node
    nodes = [
        node("Reshape", ["input_ids", "flat"], ["ids"]),
        node("Size", ["input_ids"], ["n"]),
        node("Cast", ["total_sequence_length"], ["total_1"], to=TensorProto.INT64),
        node("Squeeze", ["total_1"], ["total"]),
        node("Sub", ["total", "n"], ["past"]),
        node("Range", ["past", "total", "one"], ["positions"]),
        # The ids go into the KV buffer, from which earlier ones are read.
        node("Reshape", [kv[0], "flat"], ["before"]),
        node("Cast", ["ids"], ["written"], to=TensorProto.FLOAT),
        node("ScatterElements", ["before", "positions", "written"], ["after"], axis=0),
        node("Reshape", ["after", "kv_shape"], [kv[2]]),
        node("Identity", [kv[1]], [kv[3]]),
        node("Sub", ["positions", "one"], ["back"]),
        node("Max", ["back", "zero"], ["before_last"]),
        node("Min", ["positions", "one"], ["second"]),  # a slid window begins there, after bos
        node("Gather", ["after", "before_last"], ["y_held"]),
        node("Gather", ["after", "second"], ["z_held"]),
        node("Cast", ["y_held"], ["y"], to=TensorProto.INT64),
        node("Cast", ["z_held"], ["z"], to=TensorProto.INT64),
        node("Mul", ["z", "three"], ["thrice"]),
        node("Add", ["y", "thrice"], ["mixed"]),
        node("Mod", ["mixed", "rows"], ["row"]),
        node("Gather", ["by_last", "ids"], ["first_part"]),
        node("Gather", ["by_earlier", "row"], ["second_part"]),
        node("Add", ["first_part", "second_part"], ["whole"]),
        node("Unsqueeze", ["whole", "axis_0"], ["all"]),
        node("Neg", ["num_logits"], ["start"]),
        node("Slice", ["all", "start", "end", "axis_1"], ["logits"]),
    ]
    constants: Constants = {
        "by_last": by_last,
        "by_earlier": by_earlier,
        "flat": np.array([-1]),
        "zero": np.array(0),
        "one": np.array(1),
        "three": np.array(3),
        "rows": np.array(len(by_earlier)),
        "kv_shape": np.array([1, 1, max_length, 1]),
        "axis_0": np.array([0]),
        "axis_1": np.array([1]),
        "end": np.array([2**31]),
    }
    return small_graph(path, nodes, constants, KvShape(1, 1, 1, max_length), by_last.shape[1])
