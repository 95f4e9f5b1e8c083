"""Tables and a picture of the speeds at the cost of phone-size targets.

The speed of a text is its tokens a second over those of plain decoding, whose two runs lie around it. The
*limit* of the same rounds is what the measured parts allow: E tokens for t(k + 1) + k c seconds of each round
with k draft tokens, over t(1) for each token; a copy costs nothing to draft. What is missing to it is the
round's own work and what the machine did in between.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.runtime.decoding.length_state import Costs

Line = dict[str, Any]
Group = list[Line]
_RESAMPLES = 2000
_ARMS = ("learned", "untrained", "hostile")
_COLOURS = {"learned": "#2f6fde", "untrained": "#e0a030", "hostile": "#9aa5b1"}


def ratio(line: Line, arm: str) -> float:
    """Speed over plain decoding."""
    seconds, emitted = (sum(run[name] for run in line["plain"]) for name in ("seconds", "emitted"))
    drafting = line["arms"][arm]
    return float(drafting["emitted"] / drafting["seconds"] * seconds / emitted)


def limit(line: Line, arm: str) -> float:
    """The same of measured parts alone."""
    costs, figures = Costs(tuple(line["costs"]["target"]), line["costs"]["draft"], 0.0), line["arms"][arm]
    drafts = sum(costs.round_seconds(int(k)) * n for k, n in figures["lengths"].items())
    copies = sum(costs.copy_seconds(int(k)) * n for k, n in figures["copied"].items())
    return float(figures["emitted"] * costs.pass_seconds(1) / (drafts + copies))


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the geometric mean."""
    drawn = np.random.default_rng(0).choice(np.log(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(np.exp(drawn.mean(axis=1)), (0.025, 0.975))
    return float(low), float(high)


def groups(lines: list[Line]) -> Iterator[tuple[tuple[str, str, float], Group]]:
    """The lines by size, form of the weights with the number of threads, and temperature."""

    def key(line: Line) -> tuple[str, str, float]:
        of = line["key"]
        threads = f", {of['threads']} threads" if of["threads"] > 1 else ""
        return of["scale"], of["form"] + threads, of["temperature"]

    for name, group in groupby(sorted(lines, key=key), key):
        yield name, list(group)


def tables(lines: list[Line]) -> Iterator[str]:
    """Speeds by task, the worst text, tokens a pass and the limit; then the costs; in Markdown."""
    tasks = list(dict.fromkeys(line["task"] for line in lines))
    yield _row("target", "weights", "T", "drafter", *tasks, "all", "worst text", "tokens a pass", "limit")
    yield "|---" * (8 + len(tasks)) + "|"
    for (scale, form, temperature), group in groups(lines):
        for arm in _ARMS:
            cells = [
                f"{mean([ratio(line, arm) for line in group if line['task'] == task]):.2f}x" for task in tasks
            ]
            yield _row(scale, form, f"{temperature:g}", arm, *cells, *_over_all(group, arm))
    yield ""
    columns = "t(1), ms", "t(2) to t(6) over t(1)", "draft token over t(1)", "own work over t(1)"
    yield _row("target", "weights", *columns, "texts", "commits")
    yield "|---" * 8 + "|"
    for (scale, form), parts in groupby(groups(lines), lambda each: each[0][:2]):
        yield _costs(scale, form, [line for _, part in parts for line in part])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _over_all(group: Group, arm: str) -> list[str]:
    ratios = [ratio(line, arm) for line in group]
    low, high = interval(ratios)
    emitted, rounds = (sum(line["arms"][arm][name] for line in group) for name in ("emitted", "rounds"))
    most = mean([limit(line, arm) for line in group])
    return [
        f"{mean(ratios):.2f}x ({low:.2f}-{high:.2f})",
        f"{min(ratios):.2f}x",
        f"{emitted / rounds:.2f}",
        f"{most:.2f}x, {100 * mean(ratios) / most:.0f} % of it",
    ]


def _costs(scale: str, form: str, group: Group) -> str:
    first = np.median([line["costs"]["target"][0] for line in group])
    passes = np.median(
        [np.divide(line["costs"]["target"], line["costs"]["target"][0]) for line in group], axis=0
    )
    draft, host = (
        np.median([line["costs"][name] / line["costs"]["target"][0] for line in group])
        for name in ("draft", "host")
    )
    steps = ", ".join(f"{each:.2f}" for each in passes[1:6])
    commits = ", ".join(sorted({line["commit"] for line in group}))
    figures = f"{1000 * first:.1f}", steps, f"{draft:.3f}", f"{host:.3f}", str(len(group))
    return _row(scale, form, *figures, commits)


def plot(lines: list[Line], file: Path) -> None:
    """Draw the speeds by task: a row for each temperature, a column for each form of the weights."""
    from matplotlib.figure import Figure

    every = list(groups(lines))
    tasks = list(dict.fromkeys(line["task"] for line in lines))
    forms = list(dict.fromkeys((scale, form) for (scale, form, _), _ in every))
    temperatures = sorted({temperature for (*_, temperature), _ in every})
    size = 2.6 * len(forms) + 0.8, 2.2 * len(temperatures) + 0.4
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(temperatures), len(forms), sharex=True, sharey="row", squeeze=False)
    for (scale, form, temperature), group in every:
        axes = panels[temperatures.index(temperature), forms.index((scale, form))]
        for i, arm in enumerate(_ARMS):
            of_tasks = [[ratio(line, arm) for line in group if line["task"] == task] for task in tasks]
            means = np.array([mean(each) for each in of_tasks])
            ends = np.array([interval(each) for each in of_tasks]).T
            places = np.arange(len(tasks)) + 0.27 * (i - 1)
            axes.bar(
                places, means, 0.25, label=f"{arm} drafter", color=_COLOURS[arm],
                yerr=np.abs(ends - means), error_kw={"lw": 0.8},
            )  # fmt: skip
        axes.axhline(1.0, color="#333333", lw=0.8)
        axes.set_xticks(range(len(tasks)), tasks, rotation=30, ha="right", fontsize=8)
        axes.set_title(f"{scale}, {form}, T = {temperature:g}", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supylabel("speed over plain decoding", fontsize=9)
    drawn = panels[0, 0].get_legend_handles_labels()
    figure.legend(*drawn, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)
