"""Results on disk: one JSON line for each measurement; what is there is not measured again."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth.axis import Row, Settings

RESULTS = Path(__file__).resolve().parents[1] / "results/growth.jsonl"
Line = dict[str, Any]  # axis, repeat, settings, commit, seconds, rows


def read(results: Path) -> list[Line]:
    """The lines of a file, if there is one; an end that a kill cut does not count."""
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def append(results: Path, line: Line) -> None:
    """Add a line; a part of a line that a kill left is dropped first."""
    results.parent.mkdir(parents=True, exist_ok=True)
    whole = [json.dumps(each, sort_keys=True) + "\n" for each in (*read(results), line)]
    mended = results.with_suffix(".part")
    mended.write_text("".join(whole), encoding="utf-8")
    mended.replace(results)


def is_done(lines: Iterable[Line], axis: str, repeat: int, settings: Settings) -> bool:
    """Whether a measurement is among the lines."""
    wanted = axis, repeat, json.dumps(settings, sort_keys=True)
    return any(
        (each["axis"], each["repeat"], json.dumps(each["settings"], sort_keys=True)) == wanted
        for each in lines
    )


def rows_of(lines: Iterable[Line], axis: str) -> Sequence[Row]:
    """All rows of an axis, from all repetitions."""
    return [row for line in lines if line["axis"] == axis for row in line["rows"]]
