"""Write docs/results.md and its pictures from the results: `python -m benchmarks.experiments.report`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from benchmarks.experiments import EXPERIMENTS
from benchmarks.experiments.report import gain_tables, other_tables, paper, plots, sampled_tables
from benchmarks.experiments.report.rate_table import rate_table
from benchmarks.experiments.running.results import Result, read
from benchmarks.experiments.running.tasks import TASKS

DOCS = Path(__file__).resolve().parents[3] / "docs"


def main() -> None:
    results = {name: read(name) for name in EXPERIMENTS}
    draw(results, DOCS / "results")
    page = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string(
        (Path(__file__).parent / "page.md").read_text("utf-8")
    )
    (DOCS / "results.md").write_text(page.render(**tables(results), **origin(results)), "utf-8")


def draw(results: Mapping[str, Sequence[Result]], folder: Path) -> None:
    """The pictures."""
    drift = results["drift"]
    plots.draw_gains(results["learning_gain"], folder / "main.png")
    plots.draw_growth(results["cache_growth"], folder / "growth.png")
    plots.draw_drift(drift, "data", "GSM8K, then code; starter-b", folder / "data-drift.png")
    sampled_tables.draw_growth_of_gain(results["sampled_learning"], folder / "growth-of-gain.png")
    plots.draw_drift(drift, "target", "starter-a, b, a; GSM8K", folder / "target-drift.png")


def tables(results: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """The tables, by their names in page.md."""
    gains = results["learning_gain"]
    return {
        "main": {task: gain_tables.equal_answers_table(gains, task) for task in TASKS},
        "passes": gain_tables.whole_pass_table(gains),
        "losses": gain_tables.loss_table(gains),
        "ranks": gain_tables.rank_table(results["lora_rank"], gains),
        "rates": rate_table(results["learning_rate"]),
        "temperatures": other_tables.temperature_table(results["temperature"]),
        "sampled": sampled_tables.drafter_table(results["sampled_learning"]),
        "sampled_growth": sampled_tables.growth_table(results["sampled_learning"]),
        "sampled_picture": sampled_tables.growth_picture(results["sampled_learning"]),
        "sampled_live": sampled_tables.live_table(results["sampled_learning"]),
        "eviction": other_tables.budget_table(results["cache_budget"]),
        "growth": other_tables.growth_table(results["cache_growth"]),
        "texts": other_tables.text_table(results["target_texts"]),
        "speed": other_tables.speed_table(results["speed_up"]),
        "paper_main": other_tables.paper_table(),
        "paper_cache": other_tables.paper_cache_table(),
        "paper_eviction": ", ".join(f"{name} {value:.2f}x" for name, value in paper.EVICTION.items()),
    }


def origin(results: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """The commits that the results come from, and the minutes that they took."""
    every = [result for each in results.values() for result in each]
    return {
        "commits": ", ".join(sorted({result["commit"].rstrip("+") for result in every})),
        "minutes": round(sum(result["seconds"] for result in every) / 60.0),
    }


if __name__ == "__main__":
    main()
