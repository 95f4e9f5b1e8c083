"""The picture of the counts: tokens for each pass of the target by arm, with 95 % intervals."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.experiments.report.bootstrap import Interval
from benchmarks.peers.lines import Line
from benchmarks.peers.tables import DRAFTERS, ArmName, by_target, pooled, tasks_of

_COLOURS = {"starter-a": "#2f6fde", "starter-b": "#e0a030"}
_TITLES = {0.0: "greedy", 1.0: "temperature 1"}
_LEFT_OUT = ("plain", "as shipped, k = 4")  # plain is 1; as shipped TLI is not the target's distribution


def draw(lines: Sequence[Line], file: Path) -> None:
    """Bars of all arms, in a panel for each temperature."""
    targets = by_target(lines)
    names = sorted({arm for by_arm in targets.values() for arm in by_arm if not arm.name.endswith(_LEFT_OUT)})
    rows = [[arm for arm in names if arm.temperature == t] for t in _TITLES]
    figure = Figure(figsize=(8.0, 0.26 * len(names) + 1.4), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True, height_ratios=[max(1, len(each)) for each in rows])
    for axes, arms, title in zip(panels, rows, _TITLES.values(), strict=True):
        for place, (target, by_arm) in enumerate(targets.items()):
            for row, arm in enumerate(arms):
                if arm in by_arm:
                    _bar(axes, row + 0.4 * (place - 0.5), pooled(by_arm[arm], tasks_of(lines)), target)
        axes.set_yticks(range(len(arms)), [_label(arm) for arm in arms], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(1.0)
        axes.set_title(title, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(
        "tokens for each pass of the target (plain decoding: 1), with 95 % intervals", fontsize=8
    )
    handles, labels = panels[0].get_legend_handles_labels()
    both = dict(zip(labels, handles, strict=True))
    figure.legend(both.values(), both.keys(), loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


def _bar(axes: Axes, place: float, value: Interval | None, target: str) -> None:
    if value is None:
        return
    error = [[value.value - value.low], [value.high - value.value]]
    colour = _COLOURS[target]
    axes.barh(place, value.value, 0.38, xerr=error, label=target, color=colour, error_kw={"lw": 0.8})


def _label(arm: ArmName) -> str:
    drafter = DRAFTERS[arm.drafter]
    return arm.name if drafter == "none" else f"{arm.name}, {drafter}"
