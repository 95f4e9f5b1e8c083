"""The axes by name; one measurement of any of them in a process of its own, and its line of the results."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.experiments.running.results import commit
from benchmarks.growth import cache, context, draft_length, sessions, vocabulary
from benchmarks.growth.axis import Axis, Row, Settings
from benchmarks.growth.process import apart
from benchmarks.support.json_lines import Line, append

RESULTS = Path(__file__).resolve().parents[1] / "results/growth.jsonl"
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
    line |= {"seconds": round(time.monotonic() - started, 1), "rows": rows}
    append(results, line, sort_keys=True)


def is_done(lines: Iterable[Line], axis: str, repeat: int, settings: Settings) -> bool:
    """Whether a measurement is among the lines."""
    wanted = axis, repeat, json.dumps(settings, sort_keys=True)
    return any(
        (each["axis"], each["repeat"], json.dumps(each["settings"], sort_keys=True)) == wanted
        for each in lines
    )
