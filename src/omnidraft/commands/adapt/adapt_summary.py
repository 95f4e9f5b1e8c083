"""Summary of `omnidraft adapt`: the first answers beside the last ones, and the files of the curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.commands.adapt.adapt_loop import Ended, Loop
from omnidraft.commands.adapt.curve_plot import can_draw, draw_curve
from omnidraft.commands.adapt.curve_speed import gain
from omnidraft.commands.terminal.output import Table
from omnidraft.errors import counted
from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import CurveLine, mean, read_curve
from omnidraft.learning.online.profiles import profiles_in

PICTURE = "curve.png"


@dataclass(frozen=True)
class Summary:
    """Result of an adaptation, over all its runs in a place.

    Attributes:
        place: the directory.
        ended: why the last run stopped.
        answers: number in all runs.
        now: number in the last run.
        first: means over the first quarter of the answers.
        last: means over the last quarter.
        learned: number of intervals whose adapter was taken into use.
        rolled_back: number of intervals whose adapter was given up.
        learning_seconds: in all runs.
        cache: number of learned n-grams.
        targets: names of their directories.
        curve: file of the curve.
        picture: file of its picture, if drawn.
        skipped: sentences about prompts that could not be answered.
        adapter: whether any of the targets has an adapter that was found good.
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
    adapter: bool


def summary(place: Path, loop: Loop, now: int) -> Summary:
    """Read the curve, draw its picture and sum both up.

    Args:
        place: of the adaptation.
        loop: that ended.
        now: number of answers in this run.
    """
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
        adapter=any(each.adapter.is_file() for each in profiles_in(place)),
    )


def _quarter(lines: Sequence[CurveLine], all_lines: Sequence[CurveLine]) -> dict[str, Any]:
    speed = gain(lines, all_lines)
    return {
        **mean(lines),
        "speed_up": speed.measured,
        "speed_up_interval_95": None if speed.low is None else [speed.low, speed.high],
        "speed_up_predicted": speed.predicted,
    }


PAYS = 1.05  # speed-up that is more than noise
ENOUGH = 300  # answers, from which on a drafter that gains nothing is not expected to (docs/learn.md)
FEW = 32  # answers; a quarter of them is one interval


def table(result: Summary) -> Table:
    """The first quarter of the answers beside the last one."""
    table = Table(title=f"{counted(result.answers, 'answer')}, {result.now} of them now")
    for heading in ("", "first quarter", "last quarter"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, label, form in (
        ("tokens_per_target_pass", "tokens per target pass", "{:.2f}"),
        ("acceptance", "draft tokens accepted", "{:.1%}"),
        ("speed_up", "speed-up over plain, measured", "{:.2f}x"),
        ("speed_up_interval_95", "  95 % of it", "{0[0]:.2f}-{0[1]:.2f}x"),
        ("speed_up_predicted", "speed-up, predicted from the counts", "{:.2f}x"),
    ):
        cells = ["-" if v is None else form.format(v) for v in (result.first[name], result.last[name])]
        table.add_row(label, *cells)
    table.add_row("intervals learned, rolled back", "", f"{result.learned}, {result.rolled_back}")
    table.add_row("n-grams known", "", f"{result.cache:,}")
    if result.answers < FEW:
        table.caption = f"too few to tell a gain from chance: {counted(result.answers, 'answer')}"
    return table


def advice(result: Summary) -> str:
    """What the result means for the user, and what to do next."""
    speed = result.last["speed_up"]
    if speed is not None and speed >= PAYS and result.answers >= FEW:
        return (
            f"it pays here: {speed:.2f}x over plain decoding in the last quarter; use it with "
            f"`omnidraft generate BUNDLE PROMPT --profile {result.place}`"
        )
    if result.answers < ENOUGH:
        goes_on = (
            "all prompts are answered: give the same --out more of them (--count, --prompts)"
            if result.ended == "done"
            else "the same command goes on"
        )
        return (
            f"not worth it yet after {counted(result.answers, 'answer')}: a gain may need {ENOUGH}; "
            f"{goes_on}, and with -k auto little time is lost until then"
        )
    return (
        "it does not pay here so far; `omnidraft doctor BUNDLE` says what a round costs, and answers of one "
        "kind (one task, one language) are learned soonest"
    )


def no_adapter(result: Summary) -> list[str]:
    """A sentence where no adapter came of the answers, so that --profile has n-grams alone."""
    if result.adapter or not result.answers:
        return []
    return [
        f"{result.place} has no adapter yet, only n-grams: a learned adapter is kept once the answers of the "
        "interval after it were no worse"
    ]


def files(result: Summary) -> list[str]:
    """Paths of the curve and its picture, a line each; a terminal does not break them."""
    return [f"curve: {result.curve}", *([f"picture: {result.picture}"] if result.picture else [])]
