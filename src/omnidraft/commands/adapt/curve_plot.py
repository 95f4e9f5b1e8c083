"""Picture of a learning curve: tokens per target pass, acceptance and speed-up of each answer."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median

from omnidraft.errors import SettingError, install
from omnidraft.learning.online.curve import CurveLine, mean
from omnidraft.runtime.disk.atomic_write import write_atomically

WINDOW = 16  # answers in a running mean
NEEDED = f"a picture needs matplotlib, which this Python does not have; {install('plot')}"
_PANELS = (
    ("tokens_per_target_pass", "tokens per target pass", "#2f6fde"),
    ("acceptance", "draft tokens accepted", "#2a9d60"),
    ("speed_up", "speed-up over plain", "#c46a1b"),
)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_curve(lines: Sequence[CurveLine], file: Path) -> None:
    """Write a PNG.

    Dots are answers, lines means over the last `WINDOW` answers, dashed lines switches of the target, red
    lines rollbacks.

    Raises:
        SettingError: matplotlib is not installed, or the file cannot be written.
    """
    if not can_draw():
        raise SettingError(NEEDED)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 6.4), layout="constrained")
    panels = figure.subplots(len(_PANELS), 1, sharex=True)
    x = [line.answer for line in lines]
    for axes, (name, label, colour) in zip(panels, _PANELS, strict=True):
        values = [getattr(line, name) for line in lines]
        axes.plot(x, [float("nan") if v is None else v for v in values], ".", color=colour, alpha=0.25, ms=4)
        axes.plot(x, running(lines, name), color=colour, lw=2)
        for line in lines:
            if line.event == "rolled back":
                axes.axvline(line.answer, color="#c0392b", lw=1)
        for before, after in pairwise(lines):
            if before.target != after.target:
                axes.axvline(after.answer - 0.5, color="#555555", lw=1, ls="--")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_title(f"over the last {WINDOW} answers (speed-up: median)", fontsize=9, loc="left")
    panels[-1].set_xlabel("answers")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=130, format="png")
    try:
        write_atomically(file, picture.getvalue())
    except OSError as error:
        raise SettingError(f"{file} cannot be written ({error.strerror})", "give another place") from None


def running(lines: Sequence[CurveLine], name: str) -> list[float]:
    """One value for each answer, over the last `WINDOW` answers of its target.

    Speed-ups are medians, other values ratios of sums; NaN where unknown.
    """
    values, start = [], 0
    for i, line in enumerate(lines):
        if i and lines[i - 1].target != line.target:
            start = i
        latest = lines[max(start, i - WINDOW + 1) : i + 1]
        if name == "speed_up":
            known = [each.speed_up for each in latest if each.speed_up is not None]
            value = median(known) if known else None
        else:
            value = mean(latest)[name]
        values.append(float("nan") if value is None else value)
    return values
