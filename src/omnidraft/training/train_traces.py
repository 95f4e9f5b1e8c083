"""Train a drafter on a stream of traces: batches, epochs, a log, a checkpoint to go on from after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.training.data.processes import Processes
from omnidraft.training.data.trace_stream import TraceStream
from omnidraft.training.trainer import Trainer
from omnidraft.training.trainer_options import TrainerOptions
from omnidraft.training.training_log import StepReport, log_line, open_log

Progress = Callable[[StepReport, int], None]  # what a step did, and how many there will have been


@dataclass(frozen=True)
class TraceOptions(TrainerOptions):
    """How to train on traces: what a checkpoint has to have been made with.

    Attributes:
        traces: digest of the segments. max_length: draft tokens of a response with its prompt.
        epochs: passes over all responses.
    """

    traces: str = ""
    max_length: int = 0
    epochs: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 1:
            raise SettingError(f"epochs {self.epochs} is less than 1", "1 is usual")


@dataclass(frozen=True)
class Files:
    """Where a training writes; nothing where None.

    Attributes:
        log: JSON lines, one a step. checkpoint: read if it is there, written every so many steps and at the
            end.
    """

    log: Path | None = None
    checkpoint: Path | None = None
    every: int = 50


def train_on_traces(
    trainer: Trainer,
    stream: TraceStream,
    options: TraceOptions,
    files: Files,
    processes: Processes,
    progress: Progress | None = None,
) -> tuple[int, list[StepReport]]:
    """All epochs; goes on where the checkpoint ended, as if there had been no break.

    Returns:
        how many responses an epoch has, and the steps that were done now.

    Raises:
        SettingError: nothing to learn from, or a checkpoint of something else.
    """
    count = stream.count()
    resumed = processes.agreed(lambda: _resume(trainer, files.checkpoint, count))
    if len(set(resumed)) > 1:
        raise SettingError(
            f"only some processes find the checkpoint {files.checkpoint}", "put it on a disk that all share"
        )
    each = -(-count // options.batch_size)  # steps of an epoch
    total, reports = each * options.epochs, list[StepReport]()
    with open_log(files.log if processes.is_main else None, trainer.steps) as lines:
        for batch in _batches(stream, options, trainer.steps, each):
            trainer.set_rate(options.rate_at(trainer.steps, total))
            report = trainer.step(batch)
            reports.append(report)
            if lines is not None:
                lines.write(log_line(report))
                lines.flush()
            if progress is not None:
                progress(report, total)
            if files.checkpoint is not None and report.step % files.every == 0:
                trainer.save(files.checkpoint, count)
    if files.checkpoint is not None and reports:
        trainer.save(files.checkpoint, count)
    return count, reports


def _resume(trainer: Trainer, checkpoint: Path | None, count: int) -> int:
    if checkpoint is not None and checkpoint.exists():
        trainer.resume(checkpoint, count)
    return trainer.steps


def _batches(stream: TraceStream, options: TraceOptions, done: int, each: int) -> Iterator[list[Aligned]]:
    """The batches after the first `done`; the last of an epoch may be small."""
    begun, skip = divmod(done, each)
    for epoch in range(begun, options.epochs):
        responses = stream.epoch(epoch, skip * options.batch_size)
        while batch := list(islice(responses, options.batch_size)):
            yield batch
        skip = 0
