"""Shared KV buffers against concatenated ones: the same checkpoint, exported by omnidraft and by Optimum.

    python -m benchmarks.kv_layout SHARED_BUNDLE ADOPTED_BUNDLE [--json]

The targets of the two bundles take turns on one thread. A figure is the CPU time of the fastest of many
passes, which other programs disturb little. "Rewinding" is the additional cost of a pass after a rewind.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.session.loaded_bundle import load_bundle

POSITIONS = (128, 960)
TOKENS = (1, 5, 9)
REPEATS = 50


@dataclass(frozen=True)
class Figure:
    """Milliseconds of one operation after `past` positions, in both layouts."""

    what: str
    past: int
    shared: float
    concat: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", type=Path, nargs=2, metavar="BUNDLE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    models = [load_bundle(bundle, threads=1, drafter=False).target.new_model() for bundle in options.bundles]
    figures = [figure for past in POSITIONS for figure in measure(models, past)]
    if options.json:
        sys.stdout.write(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
        return
    print("| positions | what | shared buffers | concatenating | ratio |\n|---|---|---|---|---|")
    for f in figures:
        ratio = f"{f.concat / f.shared:.2f}" if f.shared > 0 else ""
        print(f"| {f.past} | {f.what} | {f.shared:.3f} ms | {f.concat:.3f} ms | {ratio} |")


def measure(models: Sequence[Model], past: int) -> list[Figure]:
    """Passes over several numbers of tokens after `past` positions, and the cost of a rewind before one."""
    for model in models:
        model.rewind(0)
        model.score([1] * past, num_logits=1)
    names = {n: f"pass over {n} token{'s' * (n > 1)}" for n in TOKENS}
    first = {n: _fastest(models, n, past)[0] for n in TOKENS}
    rewound, continued = _fastest(models, 1, past)
    rewind = [max(0.0, first - second) for first, second in zip(rewound, continued, strict=True)]
    return [Figure(names[n], past, *first[n]) for n in TOKENS] + [
        Figure("rewinding before it", past, *rewind)
    ]


def _fastest(models: Sequence[Model], n: int, past: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each model's fastest pass over n tokens: after a rewind to `past`, and without one."""
    taken: list[tuple[list[float], list[float]]] = [([], []) for _ in models]
    for _ in range(REPEATS):
        for both, model in zip(taken, models, strict=True):
            for times in both:
                started = time.thread_time()
                model.score([1] * n)
                times.append(time.thread_time() - started)
            model.rewind(past)
    first, then = ([1000 * min(both[i]) for both in taken] for i in range(2))
    return first, then


if __name__ == "__main__":
    main()
