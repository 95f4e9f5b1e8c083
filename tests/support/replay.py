"""Graphs that generate a fixed text: a tiny ONNX model that looks up the next id by its position.

The graph has the inputs and outputs of an exported graph and runs in a real onnxruntime session.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.ort_model import Graph
from support.table_graph import KV, Constants, small_graph


def replay_graph(path: Path, script: Sequence[int], vocab_size: int, max_length: int) -> Graph:
    """A graph whose logits after position i have their maximum at script[i + 1]; written to `path`."""
    kv, node = KV, helper.make_node
    following = np.zeros(max_length + 1, dtype=np.int64)
    following[: len(script) - 1] = script[1:]
    nodes = [
        node("Shape", ["input_ids"], ["shape"]),
        node("Gather", ["shape", "one"], ["n"]),  # 0-d
        node("Cast", ["total_sequence_length"], ["total_1"], to=TensorProto.INT64),
        node("Squeeze", ["total_1"], ["total"]),
        node("Sub", ["total", "n"], ["past"]),
        node("Range", ["past", "total", "one"], ["positions"]),
        node("Gather", ["following", "positions"], ["next"]),
        node("OneHot", ["next", "width", "values"], ["rows"]),
        node("Unsqueeze", ["rows", "zero_1"], ["all"]),
        node("Neg", ["num_logits"], ["start"]),
        node("Slice", ["all", "start", "end", "axis"], ["logits"]),
        node("Identity", [kv[0]], [kv[2]]),
        node("Identity", [kv[1]], [kv[3]]),
    ]
    constants: Constants = {
        "one": np.array(1),
        "following": following,
        "width": np.array([vocab_size]),
        "values": np.array([0.0, 8.0], dtype=np.float32),
        "zero_1": np.array([0]),
        "end": np.array([2**31]),
        "axis": np.array([1]),
    }
    return small_graph(path, nodes, constants, KvShape(1, 1, 16, max_length), vocab_size)
