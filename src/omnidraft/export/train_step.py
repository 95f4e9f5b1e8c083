"""The training step of a bundle's drafter, for learning on the device: its graph and what is said of it."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from omnidraft.export.cpu import Skeleton
from omnidraft.export.markers import HEAD
from omnidraft.export.step_graph import Frozen, trace_step
from omnidraft.export.step_weights import Shipped, bind_weights
from omnidraft.export.thin_model import ThinModel
from omnidraft.export.write import write_graph
from omnidraft.runtime.learner.step_entry import Layout, StepEntry


def train_step(graph: Path, thin: ThinModel, found: Skeleton, layout: Layout) -> ModelProto:
    """The step of a drafter as float32, its frozen weights still inputs.

    Args:
        graph: the drafter's, as it is in the bundle: whether its LM head is the embedding is up to it.
        thin, found: the drafter, and its graph without weights.
        layout: of what learns.
    """
    tied = thin.tied and not Shipped.read(graph).is_quantised(HEAD)
    return trace_step(Frozen(thin, found.weights.places, tied), layout)


def write_train_step(graph: Path, step: ModelProto, layout: Layout, rank: int) -> StepEntry:
    """Write the step of a drafter's graph: of `drafter/cpu/model.onnx` to `drafter/train/step.onnx`.

    Args:
        graph: written already, its weights in a file beside it.
        step: from `train_step`; it is edited.
        layout, rank: of what learns.

    Raises:
        ExportError: the disk is full.
    """
    role = graph.parent.parent
    file = role / "train" / "step.onnx"
    file.parent.mkdir()
    write_graph(bind_weights(step, Shipped.read(graph)), file)
    return StepEntry(f"{role.name}/train/step.onnx", role.name, rank, layout)
