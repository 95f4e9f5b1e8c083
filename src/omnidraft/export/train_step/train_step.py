"""The training step of a bundle's drafter, for learning on the device: trace, write, compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from omnidraft.checkpoints.thin_model import ThinModel
from omnidraft.export.graph.skeleton import Skeleton
from omnidraft.export.graph.write import write_graph
from omnidraft.export.quantize.parity import StepParity
from omnidraft.export.train_step.step_forward import Frozen
from omnidraft.export.train_step.step_graph import trace_step
from omnidraft.export.train_step.step_parity import lora_parity
from omnidraft.export.train_step.step_weights import Shipped, bind_weights
from omnidraft.runtime.bundle.train_step_entry import StepEntry, StepLayout


@dataclass(frozen=True)
class TrainStep:
    """The traced step; the drafter's weights are still inputs of the graph."""

    frozen: Frozen  # the drafter that the step was traced with
    layout: StepLayout  # the LoRA tensors
    graph: ModelProto  # the step


def train_step(thin: ThinModel, skeleton: Skeleton, layout: StepLayout) -> TrainStep:
    """Trace the step of a drafter, given with its graph without weights and the LoRA tensors."""
    frozen = Frozen(thin, skeleton.weights.sites)
    return TrainStep(frozen, layout, trace_step(frozen, layout))


def write_train_step(graph: Path, step: TrainStep, rank: int) -> StepEntry:
    """Write the step of `drafter/cpu/model.onnx` to `drafter/train/step.onnx`."""
    role, shipped = graph.parent.parent, Shipped.read(graph)
    folder = role / "train"
    folder.mkdir()
    write_graph(bind_weights(step.graph, shipped), folder / "step.onnx")
    return StepEntry(f"{role.name}/train/step.onnx", role.name, rank, step.layout)


def step_parity(graph: Path, step: TrainStep) -> dict[str, StepParity]:
    """Parity with torch of the written step of `drafter/cpu/model.onnx`, by file name."""
    folder, shipped = graph.parent.parent / "train", Shipped.read(graph)
    return {"step.onnx": lora_parity(folder / "step.onnx", step.frozen, step.layout, shipped)}
