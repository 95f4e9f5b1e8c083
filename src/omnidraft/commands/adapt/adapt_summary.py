"""What `omnidraft adapt` says at its end: the first answers beside the last, and where the curve is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from omnidraft.commands.adapt.adapt_loop import Ended, Loop
from omnidraft.commands.adapt.curve_plot import can_draw, draw_curve
from omnidraft.commands.adapt.curve_speed import gain
from omnidraft.errors import counted
from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import CurveLine, mean, read_curve

PICTURE = "curve.png"


@dataclass(frozen=True)
class Summary:
    """What an adaptation came to, over all its runs in a place.

    Attributes:
        answers: in all runs; now: in this one. first, last: means over the first and the last quarter.
        learned, rolled_back: intervals.
        learning_seconds: in all runs.
    """

    place: str
    ended: Ended
    answers: int
    now: int
    first: dict[str, Any]
    last: dict[str, Any]
    learned: int
    rolled_back: int
    learning_seconds: float
    cache: int
    targets: list[str]
    curve: str
    picture: str | None
    skipped: list[str]


def summary(place: Path, loop: Loop, now: int) -> Summary:
    """Read back from what was written, with the picture drawn."""
    lines = read_curve(place / CURVE)
    picture = place / PICTURE if lines and can_draw() else None
    if picture is not None:
        draw_curve(lines, picture)
    quarter = max(1, len(lines) // 4)
    return Summary(
        place=str(place),
        ended=loop.ended,
        answers=len(lines),
        now=now,
        first=_quarter(lines[:quarter], lines),
        last=_quarter(lines[-quarter:], lines),
        learned=sum(line.event == "learned" for line in lines),
        rolled_back=sum(line.event == "rolled back" for line in lines),
        learning_seconds=sum(line.learning for line in lines),
        cache=lines[-1].cache if lines else 0,
        targets=list(dict.fromkeys(line.target for line in lines)),
        curve=str(place / CURVE),
        picture=None if picture is None else str(picture),
        skipped=loop.skipped,
    )


def _quarter(lines: Sequence[CurveLine], all_lines: Sequence[CurveLine]) -> dict[str, Any]:
    speed = gain(lines, all_lines)
    return {
        **mean(lines),
        "speed_up": speed.measured,
        "speed_up_interval_95": None if speed.low is None else [speed.low, speed.high],
        "speed_up_predicted": speed.predicted,
    }


def as_json(found: Summary) -> dict[str, Any]:
    """For machines."""
    return asdict(found)


FEW = 32  # answers, of which a quarter is one interval


def table(found: Summary) -> Table:
    """For people: the first quarter of the answers beside the last."""
    table = Table(title=f"{counted(found.answers, 'answer')}, {found.now} of them now")
    for heading in ("", "first quarter", "last quarter"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, label, form in (
        ("tokens_per_target_pass", "tokens per target pass", "{:.2f}"),
        ("acceptance", "draft tokens accepted", "{:.1%}"),
        ("speed_up", "speed-up over plain, measured", "{:.2f}x"),
        ("speed_up_interval_95", "  95 % of it", "{0[0]:.2f}-{0[1]:.2f}x"),
        ("speed_up_predicted", "speed-up, predicted from the counts", "{:.2f}x"),
    ):
        cells = ["-" if v is None else form.format(v) for v in (found.first[name], found.last[name])]
        table.add_row(label, *cells)
    table.add_row("intervals learned, rolled back", "", f"{found.learned}, {found.rolled_back}")
    table.add_row("n-grams learned", "", f"{found.cache:,}")
    if found.answers < FEW:
        table.caption = f"too few to tell a gain from chance: {counted(found.answers, 'answer')}"
    return table


def files(found: Summary) -> list[str]:
    """Where the curve and its picture are, one line each, whole however narrow the terminal is."""
    return [f"curve: {found.curve}", *([f"picture: {found.picture}"] if found.picture else [])]
