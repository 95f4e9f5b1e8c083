"""The training steps of a bundle's drafter, for learning on the device: graphs and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from omnidraft.checkpoints.thin_model import ThinModel
from omnidraft.export.graph.markers import HEAD
from omnidraft.export.graph.skeleton import Skeleton
from omnidraft.export.graph.write import write_graph
from omnidraft.export.quantize.parity import StepParity
from omnidraft.export.train_step.head_step_graph import trace_head_step
from omnidraft.export.train_step.step_forward import Frozen
from omnidraft.export.train_step.step_graph import trace_step
from omnidraft.export.train_step.step_parity import head_parity, lora_parity
from omnidraft.export.train_step.step_weights import Shipped, bind_weights
from omnidraft.runtime.bundle.head import HeadShape
from omnidraft.runtime.bundle.train_step_entry import HeadStep, StepEntry, StepLayout, head_layout


@dataclass(frozen=True)
class TrainSteps:
    """What learns and its graphs, the drafter's weights still inputs; of the head, if there is one.

    Attributes:
        frozen: the drafter that they were traced with.
    """

    frozen: Frozen
    layout: StepLayout
    graph: ModelProto
    head_layout: StepLayout | None = None
    head_graph: ModelProto | None = None
    head_shape: HeadShape | None = None


def train_steps(
    graph: Path,
    thin: ThinModel,
    found: Skeleton,
    layout: StepLayout,
    head: HeadShape | None,
    stage: Callable[[str], None] = lambda _: None,
) -> TrainSteps:
    """The steps of a drafter.

    Args:
        graph: the drafter's, as it is in the bundle: whether its LM head is the embedding is up to it.
        thin, found: the drafter, and its graph without weights.
        layout: of what learns. head: of its adaptive head.
        stage: called with what begins; of a drafter of many layers each takes minutes.
    """
    tied = thin.tied and not Shipped.read(graph).is_quantised(HEAD)
    frozen = Frozen(thin, found.weights.places, tied)
    stage("trace the training step")
    step = trace_step(frozen, layout)
    if head is None:
        return TrainSteps(frozen, layout, step)
    stage("trace the training step of the head")
    of_head = head_layout(head)
    return TrainSteps(frozen, layout, step, of_head, trace_head_step(frozen, layout, of_head, head), head)


def write_train_steps(graph: Path, steps: TrainSteps, rank: int) -> StepEntry:
    """Write the steps of `drafter/cpu/model.onnx` to `drafter/train/step.onnx` and `head.onnx`.

    Args:
        graph: written already, its weights in a file beside it.
        steps: their graphs are edited.
        rank: of what learns.

    Raises:
        ExportError: the disk is full.
    """
    role, shipped = graph.parent.parent, Shipped.read(graph)
    folder = role / "train"
    folder.mkdir()
    write_graph(bind_weights(steps.graph, shipped), folder / "step.onnx")
    head = None
    if steps.head_layout is not None and steps.head_graph is not None:
        write_graph(bind_weights(steps.head_graph, shipped), folder / "head.onnx")
        head = HeadStep(f"{role.name}/train/head.onnx", steps.head_layout)
    return StepEntry(f"{role.name}/train/step.onnx", role.name, rank, steps.layout, head)


def step_parities(graph: Path, steps: TrainSteps) -> dict[str, StepParity]:
    """The written steps of `drafter/cpu/model.onnx` against torch, by the names of their files.

    Raises:
        ExportError: one of them is not what torch computes.
    """
    folder, shipped = graph.parent.parent / "train", Shipped.read(graph)
    found = {"step.onnx": lora_parity(folder / "step.onnx", steps.frozen, steps.layout, shipped)}
    if steps.head_layout is not None and steps.head_shape is not None:
        layouts = steps.layout, steps.head_layout
        found["head.onnx"] = head_parity(
            folder / "head.onnx", steps.frozen, layouts, steps.head_shape, shipped
        )
    return found
