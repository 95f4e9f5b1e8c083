"""Whether a text takes longer at this commit than at another: plain decoding and the default, in turns.

    git worktree add ../before COMMIT
    python -m benchmarks.commits ../before BUNDLE [--their-bundle DIR] [--prompts N] [--repeats N]

Each checkout runs in a process of its own with this environment's packages, and opens the bundle, or
`--their-bundle` where it cannot read this commit's. N unseen prompts of each task are answered greedily by
both, one right after the other, in an order that turns with every repeat. A time is that of a clock outside
the runtime, from the first piece of a text to its last, divided by the tokens in between; the ratio of a
prompt is that of the medians of its repeats, and the table has the median of all prompts. Needs
OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.task_prompts import unseen

MODES = ("plain", "default")
# Reads requests and answers each with the seconds and the number of tokens after the first piece of a text.
_WORKER = """
import json, sys, time
import omnidraft
session = omnidraft.load(sys.argv[1], measure="never")
session.measure("How many legs do 3 cats have?")
print(omnidraft.__file__, flush=True)
for line in sys.stdin:
    prompt, settings = json.loads(line)
    session.forget_context()
    generation = session.generate(prompt, **settings)
    pieces = iter(generation)
    next(pieces)
    first, started = len(generation.token_ids), time.perf_counter()
    for _ in pieces:
        pass
    seconds = time.perf_counter() - started
    tokens = len(generation.token_ids)
    print(json.dumps([seconds, tokens - first, generation.statistics.rounds, tokens]), flush=True)
"""


class Checkout:
    """A process that decodes with the code of one checkout."""

    def __init__(self, root: Path, bundle: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(bundle)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        loaded = Path(self._answer().strip())
        assert loaded.is_relative_to(root.resolve()), f"{loaded} is not of {root}"

    def decode(self, prompt: str, settings: dict[str, Any]) -> tuple[float, int, int, int]:
        """Seconds and tokens after the first piece; rounds and tokens of the whole text."""
        assert self._process.stdin is not None
        print(json.dumps([prompt, settings]), file=self._process.stdin, flush=True)
        seconds, counted, rounds, tokens = json.loads(self._answer())
        return seconds, counted, rounds, tokens

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the process of a checkout ended with {self._process.wait()}")
        return line


def ratios(
    checkouts: Sequence[Checkout], prompts: Sequence[str], mode: str, tokens: int, repeats: int
) -> tuple[list[float], list[float]]:
    """Speed of this checkout over the other, by prompt; and tokens a pass of both, ours first."""
    settings: dict[str, Any] = {"max_new_tokens": tokens, "ignore_eos": True, "seed": 0}
    settings |= {"mode": "plain"} if mode == "plain" else {}
    found, rounds, emitted = [], [0, 0], [0, 0]
    for prompt in prompts:
        times: tuple[list[float], list[float]] = [], []
        for repeat in range(repeats):
            for which in (0, 1) if repeat % 2 else (1, 0):
                seconds, counted, passes, length = checkouts[which].decode(prompt, settings)
                times[which].append(seconds / max(1, counted))
                rounds[which] += passes
                emitted[which] += length
        found.append(statistics.median(times[1]) / statistics.median(times[0]))
    return found, [emitted[which] / rounds[which] for which in (0, 1)]


def interval(found: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a median, by bootstrap."""
    draws = random.Random(0)
    medians = [statistics.median(draws.choices(found, k=len(found))) for _ in range(2000)]
    parts = statistics.quantiles(medians, n=40)
    return parts[0], parts[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--their-bundle", type=Path)
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    ours = Checkout(Path(__file__).parents[1], options.bundle)
    other = Checkout(options.other, options.their_bundle or options.bundle)
    prompts = [text for texts in unseen(options.prompts).values() for text in texts]
    print("| mode | speed over the other (95 %) | tokens a pass, this and other | lowest, highest |")
    print("|---|---|---|---|", flush=True)
    for mode in MODES:
        ratios((ours, other), prompts[:2], mode, options.tokens, 1)  # both are warm
        found, passes = ratios((ours, other), prompts, mode, options.tokens, options.repeats)
        low, high = interval(found)
        print(
            f"| {mode} | {statistics.median(found):.3f}x ({low:.3f}-{high:.3f}) of {len(found)} prompts | "
            f"{passes[0]:.2f}, {passes[1]:.2f} | {min(found):.3f}x, {max(found):.3f}x |",
            flush=True,
        )


if __name__ == "__main__":
    main()
