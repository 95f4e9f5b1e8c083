"""Where the nodes of a graph run: told by onnxruntime for a provider that is available, else estimated.

The estimate is by onnxruntime's usability checker, which has lists of the supported operators and ranks, and
counts partitions as the providers do. It does not check every limit of an operator, so it is an upper bound.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import onnxruntime as ort

from omnidraft.errors import counted
from omnidraft.runtime.bundle.places import CPU
from omnidraft.runtime.models.onnx_session import NOTHING, session_options


@dataclass(frozen=True)
class Placement:
    """The nodes of a graph that a provider takes, and those that stay on the CPU."""

    provider: str  # of onnxruntime
    nodes: int  # of the graph after onnxruntime's optimisations
    taken: int  # nodes on the provider
    partitions: int | None  # connected parts that the provider compiles; None where it runs nodes one by one
    left: dict[str, int]  # operators on the CPU, with their counts
    estimated: bool = False  # from lists of supported operators, because the provider is not available

    def sentence(self) -> str:
        """The placement in one sentence."""
        parts = "" if self.partitions is None else f" in {counted(self.partitions, 'part')}"
        sentence = f"runs {self.taken} of {self.nodes} operations{parts}"
        if self.left:
            most = sorted(self.left.items(), key=lambda item: (-item[1], item[0]))[:6]
            sentence += "; on the CPU: " + ", ".join(f"{name} x{count}" for name, count in most)
            sentence += ", ..." if len(self.left) > len(most) else ""
        return f"not here, so by lists of what it supports: {sentence}" if self.estimated else sentence


def can_ask() -> bool:
    """Whether this onnxruntime reports the provider of each node (since 1.24)."""
    return hasattr(ort.InferenceSession, "get_provider_graph_assignment_info")


def placement(graph: Path, provider: str) -> Placement:
    """Load a static graph for a provider, with the CPU as fallback, and read the provider of each node."""
    options = session_options(1, {"session.record_ep_graph_assignment_info": "1"}, log_level=NOTHING)
    session = ort.InferenceSession(str(graph), options, providers=list(dict.fromkeys((provider, CPU))))
    if provider not in session.get_providers():  # onnxruntime silently drops a provider that does not start
        raise RuntimeError(f"{provider} does not start on this machine")
    parts = [(part.ep_name, part.get_nodes()) for part in session.get_provider_graph_assignment_info()]
    mine = [nodes for name, nodes in parts if name == provider]
    one_by_one = provider == CPU or all(len(nodes) == 1 for nodes in mine)
    left = Counter(node.op_type for name, nodes in parts if name != provider for node in nodes)
    return Placement(
        provider=provider,
        nodes=sum(len(nodes) for _, nodes in parts),
        taken=sum(len(nodes) for nodes in mine),
        partitions=None if one_by_one and len(mine) != 1 else len(mine),
        left=dict(left),
    )


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
