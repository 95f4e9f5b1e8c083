"""Write the target, and measure what its form costs in quality of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.export.measure_quality import exported_quality
from omnidraft.export.model_export import ModelExport
from omnidraft.export.options import Options
from omnidraft.export.write_model import WriteJob, write_model
from omnidraft.sample_texts import TextPiece
from omnidraft.text_quality import Quality


@dataclass(frozen=True)
class WrittenTarget:
    """A target that was written.

    Attributes:
        options: those of the export, with the form that the target has.
        quality: of its text; None for an adopted graph.
        reference_bytes: bytes of weights of the float32 graph.
    """

    options: Options
    quality: Quality | None
    reference_bytes: int


def write_target(model: ModelExport, job: WriteJob, pieces: Sequence[TextPiece]) -> WrittenTarget:
    """Write the target as `job` says, and measure the graph beside its source.

    Args:
        model: the target.
        job: how to write it.
        pieces: what to measure on.

    Raises:
        CheckpointError, ExportError: as `write_model`.
    """
    reference_bytes = write_model(model, job)

    def measured(done: int, total: int) -> None:
        job.stage(f"measure the target's text, {done} of {total} pieces")

    return WrittenTarget(job.options, exported_quality(job.work, model, pieces, measured), reference_bytes)
