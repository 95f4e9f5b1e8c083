"""Write docs/results.md and its pictures from the result files: `python -m benchmarks.experiments.report`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from benchmarks.experiments import paper, plots, tables
from benchmarks.experiments.results import read
from benchmarks.experiments.tasks import TASKS

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXPERIMENTS = ("texts", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "speed")


def main() -> None:
    found = {name: read(name) for name in EXPERIMENTS}
    pictures = DOCS / "results"
    plots.draw_main(found["e1"], pictures / "main.png")
    plots.draw_growth(found["e7"], pictures / "growth.png")
    plots.draw_drift(found["e4"], "data", "GSM8K, then code; starter-b", pictures / "data-drift.png")
    plots.draw_drift(found["e4"], "target", "starter-a, b, a; GSM8K", pictures / "target-drift.png")
    page = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string(
        (Path(__file__).parent / "page.md").read_text("utf-8")
    )
    text = page.render(
        main={task: tables.main_table(found["e1"], task) for task in TASKS},
        passes=tables.pass_table(found["e1"]),
        losses=tables.loss_table(found["e1"]),
        temperatures=tables.temperature_table(found["e2"]),
        heads=tables.head_table(found["e3"]),
        eviction=tables.eviction_table(found["e5"]),
        ranks=tables.rank_table(found["e6"], found["e1"]),
        growth=tables.growth_table(found["e7"]),
        texts=tables.text_table(found["texts"]),
        speed=tables.speed_table(found["speed"]),
        paper_main=tables.paper_main(),
        paper_cache=tables.markdown(
            ["arm", "acceptance / speed-up"],
            [[arm, f"{a:.2f} / {s:.2f}x"] for arm, (a, s) in paper.CACHE.items()],
        ),
        paper_eviction=", ".join(f"{name} {value:.2f}x" for name, value in paper.EVICTION.items()),
        commits=_commits([r for results in found.values() for r in results]),
        minutes=round(sum(r["seconds"] for results in found.values() for r in results) / 60.0),
    )
    (DOCS / "results.md").write_text(text, "utf-8")


def _commits(results: Sequence[dict[str, Any]]) -> str:
    return ", ".join(sorted({r["commit"].rstrip("+") for r in results}))


if __name__ == "__main__":
    main()
