"""Train a drafter on a stream of traces: batches, epochs, a log, and a checkpoint to resume from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import IO

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.training.data.trace_stream import TraceStream
from omnidraft.training.trainer import StepReport, Trainer
from omnidraft.training.trainer_options import TrainerOptions

Progress = Callable[[StepReport, int], None]  # the report of a step, and the number of all steps


@dataclass(frozen=True)
class Files:
    """The files that a training writes; None writes nothing.

    Attributes:
        log: JSON lines, one a step.
        checkpoint: read if it exists, written every `every` steps and at the end.
        every: number of steps.
    """

    log: Path | None = None
    checkpoint: Path | None = None
    every: int = 50


def train_on_traces(
    trainer: Trainer,
    stream: TraceStream,
    files: Files,
    progress: Progress,
) -> tuple[int, list[StepReport]]:
    """Train all epochs; continues from the checkpoint, with the same results as an uninterrupted training.

    Args:
        trainer: of the drafter.
        stream: the responses.
        files: what is written.
        progress: called after each step.

    Returns:
        the number of responses of an epoch, and the reports of the steps of this call.

    Raises:
        SettingError: there are no responses, or the checkpoint is of another training.
    """
    options, count = trainer.options, stream.count()
    if files.checkpoint is not None and files.checkpoint.exists():
        trainer.resume(files.checkpoint, count)
    epoch_steps = -(-count // options.batch_size)
    total, reports = epoch_steps * options.epochs, list[StepReport]()
    with open_log(files.log, trainer.steps) as lines:
        for batch in _batches(stream, options, trainer.steps, epoch_steps):
            trainer.set_rate(options.rate_at(trainer.steps, total))
            report = trainer.step(batch)
            reports.append(report)
            write_report(lines, report)
            progress(report, total)
            if files.checkpoint is not None and report.step % files.every == 0:
                trainer.save(files.checkpoint, count)
    if files.checkpoint is not None and reports:
        trainer.save(files.checkpoint, count)
    return count, reports


def _batches(
    stream: TraceStream, options: TrainerOptions, done: int, epoch_steps: int
) -> Iterator[list[Aligned]]:
    """The batches after the first `done`; the last batch of an epoch may be smaller."""
    begun, skip = divmod(done, epoch_steps)
    for epoch in range(begun, options.epochs):
        responses = stream.epoch(epoch, skip * options.batch_size)
        while batch := list(islice(responses, options.batch_size)):
            yield batch
        skip = 0


def log_line(report: StepReport) -> str:
    """A report as a line of JSON. JSON has no NaN: a value that is not finite is null."""
    line = {f.name: getattr(report, f.name) for f in fields(report)}
    line["terms"] = {name: _finite(value) for name, value in report.terms.items()}
    line |= {"loss": _finite(report.loss), "norm": _finite(report.norm)}
    return json.dumps(line) + "\n"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def open_log(path: Path | None, steps: int) -> AbstractContextManager[IO[str] | None]:
    """Open a log for writing, without the lines after step `steps`; None where `path` is None."""
    if path is None:
        return nullcontext()
    kept = path.read_text("utf-8").splitlines(keepends=True)[:steps] if steps and path.exists() else []
    file = path.open("w", encoding="utf-8")
    file.writelines(line for line in kept if line.endswith("\n"))
    return file


def write_report(log: IO[str] | None, report: StepReport) -> None:
    """Append a report to a log, if there is one; a training that is killed keeps the line."""
    if log is not None:
        log.write(log_line(report))
        log.flush()
