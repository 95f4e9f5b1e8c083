"""Where the nodes of a graph run, by onnxruntime, for a provider that is available."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from omnidraft.errors import counted
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.places import CPU
from omnidraft.runtime.models.engine_memory import bounded_by, own_arena
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


def placement(bundle: Bundle, graph: Path, provider: str) -> Placement:
    """Load a static graph for a provider, with the CPU as fallback, and read the provider of each node."""
    options = session_options(1, {"session.record_ep_graph_assignment_info": "1"}, log_level=NOTHING)
    with bounded_by(bundle), own_arena(options):
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
