"""What a step reports, its line in a log, and the bar in a terminal."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO

from rich.progress import Progress, TimeElapsedColumn


@dataclass(frozen=True)
class StepReport:
    """One step.

    Attributes:
        step: its number, from 1. loss: over the whole batch. terms: the mean of each term, without its
            factor.
        norm: of the gradient before clipping. skipped: whether it was not finite, and changed nothing.
    """

    step: int
    loss: float
    terms: dict[str, float]
    norm: float
    skipped: bool


def log_line(report: StepReport) -> str:
    """A step as JSON and a line end. JSON has no NaN: what is not finite is null."""
    line = {f.name: getattr(report, f.name) for f in fields(report)}
    line["terms"] = {name: _finite(value) for name, value in report.terms.items()}
    line |= {"loss": _finite(report.loss), "norm": _finite(report.norm)}
    return json.dumps(line) + "\n"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def open_log(path: Path | None, steps: int) -> AbstractContextManager[IO[str] | None]:
    """The log to be written to, cut to the steps that a checkpoint holds."""
    if path is None:
        return nullcontext()
    kept = path.read_text("utf-8").splitlines(keepends=True)[:steps] if steps and path.exists() else []
    file = path.open("w", encoding="utf-8")
    file.writelines(line for line in kept if line.endswith("\n"))
    return file


def progress_bar(wanted: bool) -> AbstractContextManager[Progress | None]:
    """A bar in the terminal, or none."""
    return Progress(*Progress.get_default_columns(), TimeElapsedColumn()) if wanted else nullcontext()
