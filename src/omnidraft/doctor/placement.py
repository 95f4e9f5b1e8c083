"""Where the nodes of a graph would run: asked of onnxruntime, for a provider that is here."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from omnidraft.errors import counted
from omnidraft.runtime.bundle.places import CPU
from omnidraft.runtime.models.onnx_session import NOTHING, session_options


@dataclass(frozen=True)
class Placement:
    """What a provider would take of a graph, and what stays for the CPU.

    Attributes:
        nodes: of the graph as onnxruntime runs it. taken: by the provider.
        partitions: connected parts that the provider would compile; None where it runs nodes one by one.
        left: operators that stay for the CPU, with how often.
        estimated: by lists of supported operators, because the provider is not here.
        note: what else limits it.
    """

    provider: str
    nodes: int
    taken: int
    partitions: int | None
    left: dict[str, int]
    estimated: bool = False
    note: str = ""

    def sentence(self) -> str:
        """For people."""
        parts = "" if self.partitions is None else f" in {counted(self.partitions, 'partition')}"
        said = f"takes {self.taken} of {self.nodes} nodes{parts}"
        if self.left:
            most = sorted(self.left.items(), key=lambda item: (-item[1], item[0]))[:6]
            said += "; on the CPU: " + ", ".join(f"{name} x{count}" for name, count in most)
            said += ", ..." if len(self.left) > len(most) else ""
        if self.note:
            said += f" ({self.note})"
        return f"not available here: estimated from operator support: {said}" if self.estimated else said


def can_ask() -> bool:
    """Whether this onnxruntime tells where nodes go (since 1.24)."""
    return hasattr(ort.InferenceSession, "get_provider_graph_assignment_info")


def placement(graph: Path, provider: str) -> Placement:
    """Load a graph for a provider, the CPU behind it, and ask where each node went.

    Raises:
        Exception: whatever onnxruntime says of a graph that it cannot load.
    """
    options = session_options(1, {"session.record_ep_graph_assignment_info": "1"}, log_level=NOTHING)
    providers = [provider] if provider == CPU else [provider, CPU]
    session = ort.InferenceSession(str(graph), options, providers=providers)
    if provider not in session.get_providers():  # onnxruntime goes on without one that does not start
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
