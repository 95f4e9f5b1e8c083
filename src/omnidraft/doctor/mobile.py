"""Estimate the placement of a graph on CoreML and NNAPI where they are not available; needs `onnx`.

onnxruntime's usability checker has lists of the supported operators and ranks, and counts partitions as the
providers do. It does not check every limit of an operator, so an estimate is an upper bound.
"""

import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnxruntime as ort

from omnidraft.doctor.placement import Placement
from omnidraft.runtime.bundle.places import CPU
from omnidraft.runtime.models.onnx_session import NOTHING, UNFOLDED, session_options

ESTIMATED = ("CoreMLExecutionProvider", "NnapiExecutionProvider")
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"


def can_estimate() -> bool:
    """Whether `onnx` is installed."""
    return find_spec("onnx") is not None


def estimate(graph: Path, provider: str) -> Placement:
    """The placement on one of `ESTIMATED`, after the optimisations that all providers share."""
    import onnx
    from onnxruntime.tools.mobile_helpers import usability_checker as checker

    with tempfile.TemporaryDirectory() as place:
        basic = Path(place) / "basic.onnx"
        options = session_options(1, {_WEIGHTS_FILE: "weights.bin"}, log_level=NOTHING)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(basic)
        ort.InferenceSession(str(graph), options, providers=[CPU], disabled_optimizers=UNFOLDED)
        model = onnx.load(basic, load_external_data=False)
    _fold_casts(model.graph)
    model = onnx.shape_inference.infer_shapes(model)
    if provider == ESTIMATED[0]:
        info = checker.check_coreml_partitions(
            model, require_fixed_input_sizes=True, config_filename="coreml_supported_mlprogram_ops.md"
        )
    else:
        info = checker.check_nnapi_partitions(model, require_fixed_input_sizes=True)
    taken = {id(node) for group in info.supported_groups for node in group}
    left = Counter(node.op_type for node in model.graph.node if id(node) not in taken)
    return Placement(
        provider, info.num_nodes, info.num_supported_nodes, info.num_partitions, dict(left), estimated=True
    )


def _fold_casts(graph: Any) -> None:
    """Take each weight behind a Cast for a weight of the other type, as a load does, without its values."""
    weights, nodes = {tensor.name: tensor for tensor in graph.initializer}, list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type == "Cast" and node.input[0] in weights:
            kind = next(each.i for each in node.attribute if each.name == "to")
            graph.initializer.add(name=node.output[0], data_type=kind, dims=weights[node.input[0]].dims)
        else:
            graph.node.append(node)
