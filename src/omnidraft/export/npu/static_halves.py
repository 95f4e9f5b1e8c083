"""The weights of static float graphs as float16 on disk, half the bytes; the graphs compute in float32.

A Cast follows each weight. onnxruntime computes it once, when it loads a graph, before a provider takes the
graph: accelerators see constants, as with float32 weights. Most checkpoints are bfloat16, whose values
float16 holds exactly, unless they are smaller than 6e-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

from omnidraft.export.graph.write import SharedWeights, write_graph
from omnidraft.runtime.models.static_model import StaticForm

_LARGEST = float(np.finfo(np.float16).max)
_SUFFIX = ".half"  # of the stored tensor; the Cast has the name of the weight


def store_halves(form: StaticForm) -> None:
    """Rewrite the files of a form: the weights of products and the host's embeddings become float16.

    A weight that float16 cannot hold, and everything that is small, stays float32. Call this last: the
    quantiser, and the search for the sites of adapters, look for float32 weights.
    """
    graphs = {path: onnx.load(path, load_external_data=False) for path in form.graphs.values()}
    folder = next(iter(graphs)).parent
    (place,) = {entry.value for entry in _location_entries(graphs)}
    with SharedWeights(folder / place) as weights:
        for path, model in graphs.items():
            _halve(model, folder, weights)
            write_graph(model, path)
    tables = load_file(form.host)
    save_file(tables | {"embeddings": halved(tables["embeddings"])}, form.host)
    form.host.chmod(0o644)  # safetensors makes the file readable by its owner only


def halved(values: NDArray[Any]) -> NDArray[Any]:
    """The values in float16, or as they are where one is too large for it."""
    if np.abs(values).max(initial=0.0) > _LARGEST:
        return values
    half: NDArray[np.float16] = values.astype(np.float16)
    return half


def _location_entries(graphs: Mapping[Path, ModelProto]) -> list[Any]:
    tensors = [tensor for model in graphs.values() for tensor in model.graph.initializer]
    return [entry for tensor in tensors for entry in tensor.external_data if entry.key == "location"]


def _halve(model: ModelProto, folder: Path, weights: SharedWeights) -> None:
    """Move the external weights of a graph to another file, and read those of products through a Cast."""
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        name = tensor.name
        tensor.CopyFrom(_moved(tensor, folder, weights))
        if tensor.name != name:
            casts.append(helper.make_node("Cast", [tensor.name], [name], name, to=TensorProto.FLOAT))
    for node in reversed(casts):
        model.graph.node.insert(0, node)


def _moved(tensor: TensorProto, folder: Path, weights: SharedWeights) -> TensorProto:
    """The reference into the new file; the graphs of a form share each weight."""
    for name in (tensor.name + _SUFFIX, tensor.name):
        if name in weights.tensors:
            return weights.tensors[name]
    values = numpy_helper.to_array(tensor, str(folder))
    stored = halved(values) if values.ndim == 2 else values
    return weights.add(tensor.name + (_SUFFIX if stored.dtype == np.float16 else ""), stored)
