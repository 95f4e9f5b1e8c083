"""The report of a step, and its line in a log."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class StepReport:
    """One step.

    Attributes:
        loss: over the whole batch.
        terms: the mean of each term, without its factor.
        skipped: whether loss or gradient was not finite; such a step changes nothing.
    """

    step: int
    loss: float
    terms: dict[str, float]
    norm: float
    skipped: bool


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
