"""The figure of the results: one column of panels for each axis, time above and memory below."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.growth.axis import Axis, Panel, Row
from benchmarks.growth.tables import merged, rows_of
from benchmarks.support.json_lines import Line

COLOURS = ("#2f6fde", "#e0a030", "#3a9d5d", "#b04a5a", "#7a6fb0")
STYLES = ("o-", "s--")  # of the series


def draw(axes: Sequence[Axis], lines: Sequence[Line], file: Path) -> None:
    """Write the figure."""
    figure = Figure(figsize=(3.6 * len(axes), 6.6), layout="constrained")
    panels = figure.subplots(2, len(axes), sharex="col", squeeze=False)
    for column, axis in enumerate(axes):
        rows = merged(axis, rows_of(lines, axis.name))
        for panel, place in zip(axis.panels, panels[:, column], strict=True):
            _panel(place, axis, panel, rows)
        panels[0, column].set_title(axis.title, fontsize=11)
        panels[1, column].set_xlabel(axis.title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=80, metadata={"Software": None})


def _panel(place: Axes, axis: Axis, panel: Panel, rows: Sequence[Row]) -> None:
    series = sorted({row[axis.series] for row in rows}) if axis.series else [None]
    for style, name in zip(STYLES, reversed(series), strict=False):
        chosen = [row for row in rows if axis.series is None or row[axis.series] == name]
        for colour, (label, field) in zip(COLOURS, panel.lines.items(), strict=False):
            x, y = [[row[name] for row in chosen if field in row] for name in (axis.x, field)]
            place.plot(x, y, style, color=colour, ms=4, label=label if style == STYLES[0] else None)
    place.set_xscale("log", base=2 if axis.series is None else 10)
    if panel.log:
        place.set_yscale("log")
        place.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        place.yaxis.set_minor_locator(NullLocator())
        place.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    place.xaxis.set_major_formatter(FuncFormatter(_short))
    place.xaxis.set_minor_formatter(NullFormatter())
    place.set_ylabel(panel.label)
    place.grid(True, lw=0.4, color="#dddddd")
    place.spines[["top", "right"]].set_visible(False)
    place.legend(frameon=False, fontsize=8)


def _short(value: float, _: int) -> str:
    """A number with k for 1,024 or 1,000, and M for a million."""
    for unit, name in ((1_000_000, "M"), (1_024, "k"), (1_000, "k")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
