"""The training steps of a bundle's drafter, for learning on the device: trace, write, compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from omnidraft.checkpoints.thin_model import ThinModel
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
    """The traced steps; the drafter's weights are still inputs of the graphs.

    Attributes:
        frozen: the drafter that the steps were traced with.
        layout: the LoRA tensors.
        graph: the step of the LoRA tensors.
        head_layout: the tensors of the head; None without a head, like the next two.
        head_graph: the step of the head.
        head_shape: shape of the head.
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
    skeleton: Skeleton,
    layout: StepLayout,
    head: HeadShape | None,
    stage: Callable[[str], None] = lambda _: None,
) -> TrainSteps:
    """Trace the steps of a drafter.

    Args:
        graph: file of the drafter's graph in the bundle; it decides whether the LM head is the embedding.
        thin: the drafter.
        skeleton: its graph without weights.
        layout: the LoRA tensors.
        head: shape of the adaptive head; None without one.
        stage: called with the name of a step when it begins; with many layers each step takes minutes.
    """
    tied = thin.tied and Shipped.read(graph).one_table
    frozen = Frozen(thin, skeleton.weights.sites, tied)
    stage("trace the training step, which takes minutes")
    step = trace_step(frozen, layout)
    if head is None:
        return TrainSteps(frozen, layout, step)
    stage("trace the training step of the head, which takes minutes")
    of_head = head_layout(head)
    return TrainSteps(frozen, layout, step, of_head, trace_head_step(frozen, layout, of_head, head), head)


def write_train_steps(graph: Path, steps: TrainSteps, rank: int) -> StepEntry:
    """Write the steps of `drafter/cpu/model.onnx` to `drafter/train/step.onnx` and `head.onnx`.

    Args:
        graph: file of the drafter's graph; its weights are in a file beside it.
        steps: the traced steps; their graphs are edited.
        rank: LoRA rank.

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
    """Parity with torch of the written steps of `drafter/cpu/model.onnx`, by file name.

    Raises:
        ExportError: torch computes something else.
    """
    folder, shipped = graph.parent.parent / "train", Shipped.read(graph)
    parities = {"step.onnx": lora_parity(folder / "step.onnx", steps.frozen, steps.layout, shipped)}
    if steps.head_layout is not None and steps.head_shape is not None:
        layouts = steps.layout, steps.head_layout
        parities["head.onnx"] = head_parity(
            folder / "head.onnx", steps.frozen, layouts, steps.head_shape, shipped
        )
    return parities
