"""The axes by name, and one measurement of any of them in a process of its own."""

import time
from pathlib import Path

from benchmarks.experiments.running.results import commit
from benchmarks.growth import cache, context, draft_length, sessions, vocabulary
from benchmarks.growth.apart import apart
from benchmarks.growth.axis import Axis, Row, Settings
from benchmarks.growth.lines import append

_ALL: tuple[Axis, ...] = (vocabulary.AXIS, context.AXIS, cache.AXIS, sessions.AXIS, draft_length.AXIS)
AXES = {axis.name: axis for axis in _ALL}


def measured(name: str, settings: Settings, work: Path) -> list[Row]:
    """The rows of one measurement; in this process."""
    return AXES[name].measure(settings, work)


def run(axis: Axis, repeat: int, settings: Settings, work: Path, results: Path) -> None:
    """Measure in a new process, and add the line."""
    started = time.monotonic()
    rows = apart(measured, axis.name, settings, work)
    line = {"axis": axis.name, "repeat": repeat, "settings": settings, "commit": commit()}
    append(results, line | {"seconds": round(time.monotonic() - started, 1), "rows": rows})
