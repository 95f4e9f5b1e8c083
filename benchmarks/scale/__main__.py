"""Speed over plain decoding at the cost of a phone-size target, beside what its measured parts allow.

    python -m benchmarks.scale [--to 0.5B] [--forms int4 fp32] [--prompts N] [--minutes M] [--work DIR]
    python -m benchmarks.scale --table            # of the results that are there; --plot FILE draws them

The targets are the widened starters (`benchmarks.scale.widen`): the weights that were added are inert, so the
drafts that are accepted are those of a trained 7M target, while time and memory are those of the size named.
One text after another is written by plain decoding, by each drafter with the measured draft length, and by
plain decoding again; it ends where the target ends it. Results are lines of benchmarks/results/scale.jsonl,
and a text that is there is not written again. The work directory takes 10 GB for 0.5B.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.experiments.running.results import commit
from benchmarks.scale.bundles import hostile, learned, make_bundle
from benchmarks.scale.tables import plot, tables
from benchmarks.scale.widen import SCALES
from benchmarks.starters import unseen
from benchmarks.support.json_lines import append, read
from benchmarks.support.task_data import require
from omnidraft.commands.terminal.progress import progress_bar
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.api import GenerationConfig, Session, Statistics, load_bundle

RESULTS = Path(__file__).resolve().parents[1] / "results" / "scale.jsonl"
CONFIG = GenerationConfig(seed=0, max_new_tokens=96)
TARGETS = ("a", "b")
FORMS = ("int4", "int4-b128", "fp32")


@dataclass(frozen=True)
class Cell:
    """What one bundle writes at one temperature."""

    target: str
    scale: str
    form: str
    threads: int
    temperature: float

    @property
    def key(self) -> dict[str, Any]:
        return vars(self) | {"tokens": CONFIG.max_new_tokens}


class Sessions:
    """Plain decoding and every drafter on one bundle, which is in memory once."""

    def __init__(self, work: Path, cell: Cell) -> None:
        bundle = make_bundle(work, cell.target, cell.scale, cell.form)
        loaded = load_bundle(bundle, threads=cell.threads, measure="never")
        profile = learned(cell.target)
        self._plain = Session(loaded)
        self._drafting = {
            "learned": Session(loaded, adapter=profile.adapter, cache=profile.cache),
            "untrained": Session(loaded),
            "hostile": Session(loaded, adapter=hostile(read_adapter(profile.adapter))),
        }

    def measure(self, prompt: str) -> None:
        """Measure the costs once, and write a text that is not counted with each session."""
        costs = self._drafting["learned"].measure(prompt)
        for session in self._drafting.values():
            session.costs = costs
            session.generate(prompt, CONFIG, max_new_tokens=16).finish()

    def line(self, prompt: str, config: GenerationConfig) -> dict[str, Any]:
        """Write a text with all of them."""
        first = self._plain.generate(prompt, config, mode="plain").finish().statistics
        arms = {name: s.generate(prompt, config).finish().statistics for name, s in self._drafting.items()}
        second = self._plain.generate(prompt, config, mode="plain").finish().statistics
        costs = self._drafting["learned"].costs
        return {
            "plain": [_figures(first), _figures(second)],
            "arms": {name: _figures(statistics) for name, statistics in arms.items()},
            "costs": {"target": costs.target, "draft": costs.draft, "host": costs.host},
        }


def _figures(statistics: Statistics) -> dict[str, Any]:
    return {
        "emitted": statistics.emitted,
        "rounds": statistics.rounds,
        "seconds": statistics.total_seconds,
        "lengths": statistics.lengths,
        "copied": statistics.copied_lengths,
    }


def config_at(temperature: float) -> GenerationConfig:
    """The settings; a sampled text has no seed: with one the draft length would not use earlier texts."""
    return replace(CONFIG, temperature=temperature, seed=None if temperature > 0.0 else CONFIG.seed)


def wanted(options: argparse.Namespace) -> Iterator[Cell]:
    """Every cell, one quantisation after the other."""
    for form, target, temperature in product(options.forms, TARGETS, options.temperatures):
        yield Cell(target, options.to, form, options.threads, temperature)


def run(options: argparse.Namespace) -> None:
    """Write what is not there, until the minutes are over."""
    require("tasks")
    prompts = unseen(options.prompts)
    texts = [(task, i, prompt) for task, of in prompts.items() for i, prompt in enumerate(of)]
    done = {json.dumps([line["key"], line["task"], line["prompt"]]) for line in read(options.results)}
    ends = time.monotonic() + 60 * options.minutes
    sessions, loaded = None, ("", "")
    cells = list(wanted(options))
    with progress_bar("scale") as bar:
        for number, (cell, (task, i, prompt)) in enumerate(product(cells, texts)):
            bar.step(number, len(cells) * len(texts))
            if json.dumps([cell.key, task, i]) in done:
                continue
            if time.monotonic() > ends:
                return
            if sessions is None or loaded != (cell.target, cell.form):
                sessions = None  # frees its models before others are loaded
                sessions, loaded = _sessions(options.work, cell, texts[0][2]), (cell.target, cell.form)
            line = {"key": cell.key, "task": task, "prompt": i, "commit": commit()}
            line |= sessions.line(prompt, config_at(cell.temperature))
            append(options.results, line)


def _sessions(work: Path, cell: Cell, prompt: str) -> Sessions:
    sessions = Sessions(work, cell)
    sessions.measure(prompt)
    return sessions


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", choices=SCALES, default="0.5B", help="number of weights")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help="weights of the target")
    parser.add_argument("--temperatures", nargs="+", type=float, default=(0.0, 0.7))
    parser.add_argument("--threads", type=int, default=1, help="of a pass of the target")
    parser.add_argument("--prompts", type=int, default=6, help="of each of the four tasks")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no text after them")
    parser.add_argument("--work", type=Path, default=Path(".cache/scale"), help="checkpoints and bundles")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--plot", type=Path, help="a picture of the results; measure nothing")
    options = parser.parse_args()
    if not options.table and not options.plot:
        run(options)
    if options.plot:
        plot(read(options.results), options.plot)
    print("\n".join(tables(read(options.results))))


if __name__ == "__main__":
    main()
