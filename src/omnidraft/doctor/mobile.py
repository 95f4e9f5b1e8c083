"""Estimate the placement of a graph on CoreML and NNAPI where they are not available; needs `onnx`.

onnxruntime's usability checker has lists of the supported operators and ranks, and counts partitions as the
providers do. It does not check every limit of an operator, so an estimate is an upper bound.
"""

import tempfile
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from omnidraft.doctor.placement import Placement

ESTIMATED = ("CoreMLExecutionProvider", "NnapiExecutionProvider")
NEED_ONNX = "estimating CoreML and NNAPI needs the package onnx"


def can_estimate() -> bool:
    """Whether `onnx` is installed."""
    return find_spec("onnx") is not None


def estimate(graph: Path) -> list[Placement]:
    """The placement on each of `ESTIMATED`, after the optimisations that all providers share."""
    import onnx
    from onnxruntime.tools.mobile_helpers import usability_checker as checker
    from onnxruntime.tools.onnx_model_utils import optimize_model

    with tempfile.TemporaryDirectory() as place:
        basic = Path(place) / "basic.onnx"
        optimize_model(graph, basic, log_level=4, use_external_initializers=True)
        model = onnx.shape_inference.infer_shapes(onnx.load(basic, load_external_data=False))
    programs = {
        ESTIMATED[0]: partial(
            checker.check_coreml_partitions, config_filename="coreml_supported_mlprogram_ops.md"
        ),
        ESTIMATED[1]: checker.check_nnapi_partitions,
    }
    return [_placement(name, model, check) for name, check in programs.items()]


def _placement(provider: str, model: object, check: object) -> Placement:
    assert callable(check)
    info = check(model, require_fixed_input_sizes=True)
    taken = {id(node) for group in info.supported_groups for node in group}
    left = Counter(node.op_type for node in model.graph.node if id(node) not in taken)  # type: ignore[attr-defined]
    varying = info.nodes_unsupported_due_to_dynamic_input
    note = f"{varying} nodes have shapes that vary; an NPU graph has fixed shapes" if varying else ""
    return Placement(
        provider, info.num_nodes, info.num_supported_nodes, info.num_partitions, dict(left), True, note
    )
