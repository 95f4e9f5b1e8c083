"""The pictures of docs/results.md, small PNGs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.experiments.report import paper
from benchmarks.experiments.report.bootstrap import Counts, tokens_per_pass
from benchmarks.experiments.report.rows import STARTERS, by_arm, first_seed, place_of, whole_passes
from benchmarks.experiments.running.results import Result
from benchmarks.experiments.running.tasks import TASKS

COLOURS = ("#9aa5b1", "#e0a030", "#2f6fde", "#3a9d5d")
_SMOOTH = 5  # intervals


def draw_gains(results: Sequence[Result], file: Path) -> None:
    """Tokens per target pass: untrained, after 448 answers with either loss, after the longest pass."""
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, target in zip(panels, STARTERS, strict=True):
        for place, task in enumerate(TASKS):
            for i, (name, counts) in enumerate(_bars(results, target, task).items()):
                if counts is not None:
                    _bar(axes, place + 0.21 * (i - 1.5), counts, name if place == 0 else None, COLOURS[i])
        axes.set_xticks(range(len(TASKS)), [t.title.replace(" + ", " +\n") for t in TASKS.values()])
        axes.set_title(f"starter-{target}", fontsize=10)
        axes.set_ylim(1.0)
    panels[0].set_ylabel("tokens per target pass, k = 4")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False, fontsize=8
    )
    finish(figure, file)


def _bars(results: Sequence[Result], target: str, task: str) -> dict[str, Counts | None]:
    arms = by_arm(results, target, task)
    passes = [r for r in whole_passes(results, target, task) if r["arm"] == "pass-trie-kl"]
    bars = {
        "direct map, not trained": (arms.get("untrained", []), "direct"),
        "448 answers: the paper's loss": (first_seed(arms.get("dm-ngram", [])), "warm"),
        "448 answers: trie-KL": (first_seed(arms.get("trie-kl", [])), "warm"),
        "a whole pass: trie-KL": (passes[-1:], "warm"),
    }
    return {name: measured[0]["result"][way] if measured else None for name, (measured, way) in bars.items()}


def _bar(axes: Axes, place: float, counts: Counts, label: str | None, colour: str) -> None:
    interval = tokens_per_pass([counts])
    error = np.array([[interval.value - interval.low], [interval.high - interval.value]])
    axes.bar(place, interval.value, width=0.2, yerr=error, label=label, color=colour, error_kw={"lw": 0.8})


def draw_growth(results: Sequence[Result], file: Path) -> None:
    """cache_growth: n-grams in the cache over the answers that it read."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (target, title) in zip(panels, (("qwen2", "Qwen2"), ("llama3", "Llama-3")), strict=True):
        for colour, (name, task) in zip(COLOURS, TASKS.items(), strict=True):
            for result in results:
                if place_of(result) == (target, name):
                    answers, entries = zip(*result["result"]["curve"], strict=True)
                    axes.plot(answers, entries, color=colour, label=task.title)
                    axes.plot(paper.SAMPLES[name], paper.ENTRIES[name], "x", color=colour)
        axes.set_title(f"Llama-2 drafts for {title}", fontsize=10)
        axes.set_xlabel("answers")
    panels[0].set_ylabel("n-grams (x: the paper's)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    finish(figure, file)


def draw_drift(results: Sequence[Result], drift: str, title: str, file: Path) -> None:
    """drift: acceptance over intervals, with and without learning and the cache."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    axes = figure.subplots()
    ways = {
        "learning-cache": "learns, cache",
        "learning-direct": "learns, direct map",
        "still-cache": "does not learn, cache",
        "still-direct": "does not learn, direct map",
    }
    for colour, (way, label) in zip(COLOURS[::-1], ways.items(), strict=True):
        for result in results:
            if result["arm"] == f"{drift}-{way}":
                _curve(axes, result, colour, label)
    axes.set_xlabel(f"prompts ({title})")
    axes.set_ylabel("acceptance of drafted")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    finish(figure, file)


def _curve(axes: Axes, result: Result, colour: str, label: str) -> None:
    steps, interval = result["result"], result["settings"]["interval"]
    passed, drafted = np.array(steps["passed"], float), np.array(steps["drafted"], float)
    kernel = np.ones(_SMOOTH)
    curve = np.convolve(passed, kernel, "valid") / np.convolve(drafted, kernel, "valid")
    axes.plot(interval * (np.arange(len(curve)) + (_SMOOTH + 1) / 2), curve, color=colour, label=label)
    for i in range(1, len(passed)):
        if steps["phase"][i] != steps["phase"][i - 1]:
            axes.axvline(interval * i, color="#666666", lw=0.8, ls=":")


def finish(figure: Figure, file: Path) -> None:
    """Write a figure as a small PNG."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=90, metadata={"Software": None})
