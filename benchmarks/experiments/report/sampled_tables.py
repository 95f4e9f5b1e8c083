"""Tables and picture of sampled_learning: tokens per target pass and gains at several temperatures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.experiments.report.bootstrap import ratio, tokens_per_pass
from benchmarks.experiments.report.plots import COLOURS, finish
from benchmarks.experiments.report.rows import STARTERS, TARGETS, by_arm, markdown
from benchmarks.experiments.running.results import Result
from benchmarks.experiments.running.tasks import TASKS

TEMPERATURES = ("0", "0.7", "1")
LOSSES = {
    "kl": "KL",
    "refusals": "TV",
    "kl-refusals": "KL / 2 + TV / 2",
    "log": "- log (1 - TV)",
}
DRAFTERS = {
    "untrained": "not trained",
    "shipped": "learned from greedy answers",
    **{
        f"second-{source}-{loss}": f"then from answers {title}, {loss_title}"
        for source, title in (("T=1+greedy", "at T = 1 and greedy"), ("T=1", "at T = 1"))
        for loss, loss_title in LOSSES.items()
    },
    "long": "then from more answers at T = 1, TV",
    "limit": "the same answers, TV, every weight",
}
GROWTH = {
    "growth-1e-3": "KL, rate 1e-3",
    "growth-3e-3": "KL, rate 3e-3",
    "growth-1e-2": "KL, rate 1e-2",
    "growth-replay-512": "KL, rate 3e-3, 512 answers again and again",
    "growth-replay-128": "KL, rate 3e-3, 128 answers again and again",
    "growth-ngrams": "KL, rate 3e-3, answers with n-grams more often",
    "growth-refusals": "TV, rate 3e-3",
    "growth-other": "KL, rate 3e-3, from starter-b's adapter",
    "growth-other-refusals": "TV, rate 3e-3, from starter-b's adapter",
}
_LIVE_DRAFTERS = {
    **{name: DRAFTERS[name] for name in ("untrained", "shipped")},
    "second": DRAFTERS["second-T=1+greedy-refusals"],
    "limit": DRAFTERS["limit"],
}
_POINTS = (0, 128, 256, 512, 1024, 2048)
LIVE = {"direct": "direct", "cache": "cache", "cache-block": "cache, block verification"}


def drafter_table(results: Sequence[Result]) -> str:
    """Expected tokens per pass of every drafter, by task and target; several seeds are one row."""
    rows = []
    for task, target in _places():
        arms = by_arm(results, target, task)
        for name, title in DRAFTERS.items():
            if name in arms and "untrained" in arms:
                seeds = [result["result"] for result in arms[name]]
                answers = seeds[0].get("training", {}).get("answers")
                cells = _cells(seeds, arms["untrained"][0]["result"])
                number = "-" if answers is None else f"{answers:,}"
                rows.append([TASKS[task].title, TARGETS[target], title, number, *cells])
    head = [f"T = {t}, {way}" for t in TEMPERATURES for way in ("direct", "cache")]
    return markdown(["task", "target", "drafter", "answers", *head], rows)


def live_table(results: Sequence[Result]) -> str:
    """Tokens per pass of the runtime's loop at temperature 1."""
    rows = []
    for task, target in _places():
        arms = by_arm(results, target, task)
        for name, title in _LIVE_DRAFTERS.items():
            for result in arms.get(f"live-{name}", []):
                counts = [result["result"][way] for way in LIVE]
                cells = [str(tokens_per_pass([each])) for each in counts]
                rows.append([TASKS[task].title, TARGETS[target], title, *cells])
    return markdown(["task", "target", "drafter", *LIVE.values()], rows)


def growth_table(results: Sequence[Result]) -> str:
    """The gain with the cache after a number of answers, at temperatures 0 / 1; starter-a, GSM8K."""
    arms = by_arm(results, "a", "gsm8k")
    names = [name for name in GROWTH if name in arms and "untrained" in arms]
    points = sorted({p["answers"] for name in names for p in arms[name][0]["result"]["curve"]})
    rows = []
    for name in names:
        curve = {point["answers"]: point for point in arms[name][0]["result"]["curve"]}
        untrained = arms["untrained"][0]["result"]
        cells = [
            " / ".join(f"{_gain(curve[n], untrained, t):.2f}" for t in ("0", "1")) if n in curve else "-"
            for n in points
        ]
        seconds = arms[name][0]["result"]["training"]["seconds"]
        rows.append([GROWTH[name], *cells, seconds])
    return markdown(["learning", *(f"{n:,} answers" for n in points), "CPU seconds of training"], rows)


def growth_picture(results: Sequence[Result]) -> str:
    """The picture in the page, where there is something to draw."""
    drawn = GROWTH.keys() & by_arm(results, "a", "gsm8k").keys()
    return "![Growth of the gain](results/growth-of-gain.png)" if drawn else ""


def draw_growth_of_gain(results: Sequence[Result], file: Path) -> None:
    """The gain with the cache at temperatures 0 and 1 over the answers that were learned from."""
    if not growth_picture(results):
        return
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    arms = by_arm(results, "a", "gsm8k")
    for axes, t in zip(panels, ("0", "1"), strict=True):
        for colour, name in zip(
            (*COLOURS, "#b04050", "#7a4fa3", "#7f7f7f", "#c08a2e", "#5fb7b0"), GROWTH, strict=True
        ):
            for result in arms.get(name, []):
                untrained = arms["untrained"][0]["result"]
                curve = result["result"]["curve"]
                gains = [_gain(point, untrained, t) for point in curve]
                axes.plot(
                    [point["answers"] for point in curve], gains, "o-", color=colour, label=GROWTH[name]
                )
        axes.set_title(f"starter-a, GSM8K, T = {t}", fontsize=10)
        axes.set_xlabel("answers learned from")
        axes.set_xscale("symlog", base=2, linthresh=64)
        axes.set_xticks(_POINTS, [f"{n:,}" for n in _POINTS])
        axes.minorticks_off()
    panels[0].set_ylabel("gain over the untrained direct map")
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    finish(figure, file)


def _places() -> list[tuple[str, str]]:
    return [(task, target) for task in TASKS for target in STARTERS]


def _gain(point: dict[str, Any], untrained: dict[str, Any], temperature: str) -> float:
    """On the texts of the point, which are the first of those of the untrained drafter."""
    ours, theirs = point[f"warm {temperature}"], untrained[f"direct {temperature}"]
    count = len(ours["rounds"])
    same = {name: theirs[name][:count] for name in ("rounds", "emitted")}
    return tokens_per_pass([ours]).value / tokens_per_pass([same]).value


def _cells(seeds: Sequence[dict[str, Any]], untrained: dict[str, Any]) -> list[str]:
    """Tokens per pass, and the gain over the untrained direct map with its interval."""
    cells = []
    for t in TEMPERATURES:
        for way in ("direct", "warm"):
            counts = [seed[f"{way} {t}"] for seed in seeds]
            gain = ratio(counts, [untrained[f"direct {t}"]])
            cells.append(f"{tokens_per_pass(counts).value:.2f}: {gain}")
    return cells
