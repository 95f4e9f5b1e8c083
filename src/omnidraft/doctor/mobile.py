"""Estimate the placement of a graph on CoreML and NNAPI where they are not available; needs `onnx`.

onnxruntime's usability checker has lists of the supported operators and ranks, and counts partitions as the
providers do. It does not check every limit of an operator, so an estimate is an upper bound.
"""

import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from omnidraft.doctor.placement import Placement

ESTIMATED = ("CoreMLExecutionProvider", "NnapiExecutionProvider")


def can_estimate() -> bool:
    """Whether `onnx` is installed."""
    return find_spec("onnx") is not None


def estimate(graph: Path, provider: str) -> Placement:
    """The placement on one of `ESTIMATED`, after the optimisations that all providers share."""
    import onnx
    from onnxruntime.tools.mobile_helpers import usability_checker as checker
    from onnxruntime.tools.onnx_model_utils import optimize_model

    with tempfile.TemporaryDirectory() as place:
        basic = Path(place) / "basic.onnx"
        optimize_model(graph, basic, log_level=4, use_external_initializers=True)
        model = onnx.shape_inference.infer_shapes(onnx.load(basic, load_external_data=False))
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
