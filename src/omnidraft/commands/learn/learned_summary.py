"""What `learn --prompts` gained: the first answers beside the last ones, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from omnidraft.commands.terminal.output import Table
from omnidraft.errors import counted
from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import CurveLine, mean, read_curve
from omnidraft.learning.online.profiles import profiles_in

PAYS = 1.05  # speed-up that is more than noise
ENOUGH = 300  # answers, from which on a drafter that gains nothing is not expected to (docs/learn.md)
FEW = 32  # answers; a quarter of them is one interval


@dataclass(frozen=True)
class Summary:
    """Result of all runs in a place.

    Attributes:
        ended: why the last run stopped: done or minutes.
        now: number in the last run.
        learned: number of intervals whose adapter was taken into use.
        rolled_back: number of intervals whose adapter was given up.
        adapter: whether there is an adapter that was found good.
    """

    place: str
    ended: str
    answers: int
    now: int
    first: dict[str, Any]
    last: dict[str, Any]
    learned: int
    rolled_back: int
    learning_seconds: float
    cache: int
    curve: str
    skipped: list[str]
    adapter: bool


def summary(place: Path, ended: str, skipped: list[str], now: int) -> Summary:
    """Read the curve and sum it up.

    Args:
        place: of what was learned.
        ended: why the last run stopped.
        skipped: sentences about prompts.
        now: number of answers in this run.
    """
    lines = read_curve(place / CURVE)
    quarter = max(1, len(lines) // 4)
    return Summary(
        place=str(place),
        ended=ended,
        answers=len(lines),
        now=now,
        first=_quarter(lines[:quarter]),
        last=_quarter(lines[-quarter:]),
        learned=sum(line.event == "learned" for line in lines),
        rolled_back=sum(line.event == "rolled back" for line in lines),
        learning_seconds=sum(line.learning for line in lines),
        cache=lines[-1].cache if lines else 0,
        curve=str(place / CURVE),
        skipped=skipped,
        adapter=any(each.adapter.is_file() for each in profiles_in(place)),
    )


def _quarter(lines: Sequence[CurveLine]) -> dict[str, Any]:
    return {**mean(lines), "speed_up": speed_up(lines)}


def speed_up(lines: Sequence[CurveLine]) -> float | None:
    """Speed over plain decoding, which is measured at the start of each interval: the median over intervals.

    A busy machine makes measured times longer, never shorter, so it is no mean of times.
    """
    ratios = []
    for (_, plain), group in groupby(lines, lambda line: (line.target, line.plain)):
        answers = list(group)
        if plain is not None:
            seconds = max(sum(each.seconds for each in answers), 1e-9)
            ratios.append(plain * sum(each.tokens for each in answers) / seconds)
    return median(ratios) if ratios else None


def table(result: Summary) -> Table:
    """The first quarter of the answers beside the last one."""
    table = Table(title=f"{counted(result.answers, 'answer')}, {result.now} of them now")
    for heading in ("", "first quarter", "last quarter"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, label, form in (
        ("tokens_per_target_pass", "tokens per target pass", "{:.2f}"),
        ("acceptance", "draft tokens accepted", "{:.1%}"),
        ("speed_up", "speed-up over plain, measured", "{:.2f}x"),
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
            f"`omnidraft generate BUNDLE PROMPT --adapter {result.place}`"
        )
    if result.answers < ENOUGH:
        done = "all prompts are answered: give the same --out more of them"
        goes_on = done if result.ended == "done" else "the same command goes on"
        return (
            f"not worth it yet after {counted(result.answers, 'answer')}: a gain may need {ENOUGH}; "
            f"{goes_on}, and little time is lost until then"
        )
    return (
        "it does not pay here so far; `omnidraft doctor BUNDLE` shows the cost of a round, and answers of "
        "one kind (one task, one language) are learned soonest"
    )


def no_adapter(result: Summary) -> list[str]:
    """A sentence where no adapter came of the answers, so that there are n-grams alone."""
    if result.adapter or not result.answers:
        return []
    return [
        f"{result.place} has no adapter yet, only n-grams: a learned adapter is kept once the answers of the "
        "interval after it were no worse"
    ]
