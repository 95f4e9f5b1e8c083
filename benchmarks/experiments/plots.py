"""The pictures of docs/results.md, small PNGs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.experiments import paper
from benchmarks.experiments.bootstrap import tokens_per_pass
from benchmarks.experiments.tables import best_pass
from benchmarks.experiments.tasks import TASKS

Found = dict[str, Any]
_COLOURS = ("#9aa5b1", "#e0a030", "#2f6fde", "#3a9d5d")
_SMOOTH = 5  # intervals


def draw_main(results: Sequence[Found], file: Path) -> None:
    """Tokens per target pass: untrained, and after the longest pass with either loss; with intervals."""
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, target in zip(panels, ("a", "b"), strict=True):
        for place, task in enumerate(TASKS):
            here = [r for r in results if _place(r) == (target, task)]
            base = [r for r in here if r["arm"] == "untrained"]
            passes = [best_pass(results, target, task, loss) for loss in ("dm-ngram", "trie-kl")]
            bars = [
                ("direct map, not trained", base[0]["result"]["direct"] if base else None),
                ("paper's loss + cache", passes[0]["result"]["warm"] if passes[0] else None),
                ("trie-KL + cache", passes[1]["result"]["warm"] if passes[1] else None),
            ]
            for i, (name, counts) in enumerate(bars):
                if counts is not None:
                    _bar(axes, place + 0.27 * (i - 1), counts, name if place == 0 else None, _COLOURS[i])
        axes.set_xticks(range(len(TASKS)), [t.title.replace(" + ", " +\n") for t in TASKS.values()])
        axes.set_title(f"starter-{target}", fontsize=10)
        axes.set_ylim(1.0)
    panels[0].set_ylabel("tokens per target pass, k = 4")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    _finish(figure, file)


def _bar(axes: Axes, place: float, counts: Found, label: str | None, colour: str) -> None:
    found = tokens_per_pass([counts])
    error = np.array([[found.value - found.low], [found.high - found.value]])
    axes.bar(place, found.value, width=0.25, yerr=error, label=label, color=colour, error_kw={"lw": 0.8})


def draw_growth(results: Sequence[Found], file: Path) -> None:
    """E7: n-grams in the cache over answers read."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (target, title) in zip(panels, (("qwen2", "Qwen2"), ("llama3", "Llama-3")), strict=True):
        for colour, (task, each) in zip(_COLOURS, TASKS.items(), strict=True):
            for r in results:
                if _place(r) == (target, task):
                    answers, entries = zip(*r["result"]["curve"], strict=True)
                    axes.plot(answers, entries, color=colour, label=each.title)
                    axes.plot(paper.SAMPLES[task], paper.ENTRIES[task], "x", color=colour)
        axes.set_title(f"Llama-2 drafts for {title}", fontsize=10)
        axes.set_xlabel("answers")
    panels[0].set_ylabel("n-grams (x: the paper's)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    _finish(figure, file)


def draw_drift(results: Sequence[Found], drift: str, title: str, file: Path) -> None:
    """E4: acceptance over intervals, four ways."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    axes = figure.subplots()
    ways = {
        "learning-cache": "learns, cache",
        "learning-direct": "learns, direct map",
        "still-cache": "does not learn, cache",
        "still-direct": "does not learn, direct map",
    }
    for colour, (way, label) in zip(_COLOURS[::-1], ways.items(), strict=True):
        for r in results:
            if r["arm"] == f"{drift}-{way}":
                steps = r["result"]
                passed, drafted = np.array(steps["passed"], float), np.array(steps["drafted"], float)
                kernel = np.ones(_SMOOTH)
                curve = np.convolve(passed, kernel, "valid") / np.convolve(drafted, kernel, "valid")
                prompts = r["settings"]["interval"] * (np.arange(len(curve)) + (_SMOOTH + 1) / 2)
                axes.plot(prompts, curve, color=colour, label=label)
                changes = [i for i in range(1, len(passed)) if steps["phase"][i] != steps["phase"][i - 1]]
                for change in changes:
                    axes.axvline(r["settings"]["interval"] * change, color="#666666", lw=0.8, ls=":")
    axes.set_xlabel(f"prompts ({title})")
    axes.set_ylabel("acceptance of drafted")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    _finish(figure, file)


def _place(result: Found) -> tuple[str, str]:
    return result["settings"]["target"], result["settings"]["task"]


def _finish(figure: Figure, file: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=90, metadata={"Software": None})
