"""Whether a text takes longer at this commit than at another: plain decoding and the default, in turns.

    git worktree add ../before COMMIT
    python -m benchmarks.commits ../before BUNDLE [--their-bundle DIR] [--prompts N] [--repeats N]

Each checkout runs in a process of its own with this environment's packages, and opens the bundle, or
`--their-bundle` where it cannot read this commit's. N unseen prompts of each task are answered greedily
by both, one right after the other. Each repeat starts both processes anew, in another order, because the
speed of one process differs from the next by some percent. A time is that of a clock outside the runtime,
from the first piece of a text to its last, divided by the tokens in between. The table has the median
over prompts of the geometric means over repeats; its interval is by bootstrap over repeats and prompts.
Own milliseconds are those outside the target's passes, a median over texts: all that can differ where
both have the same graph. Needs OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.support.task_prompts import unseen

MODES = ("plain", "default")
# Reads requests and answers each with the seconds and the number of tokens after the first piece of a text,
# rounds and tokens of the whole text, and the seconds outside the target's passes after the first piece.
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
    first, passes = len(generation.token_ids), generation.statistics.seconds["target"]
    started = time.perf_counter()
    for _ in pieces:
        pass
    seconds = time.perf_counter() - started
    tokens, own = len(generation.token_ids), seconds - generation.statistics.seconds["target"] + passes
    print(json.dumps([seconds, tokens - first, generation.statistics.rounds, tokens, own]), flush=True)
"""


@dataclass
class Counts:
    """Rounds, tokens and own milliseconds a round of both checkouts, ours first."""

    rounds: list[int] = field(default_factory=lambda: [0, 0])
    tokens: list[int] = field(default_factory=lambda: [0, 0])
    own: list[list[float]] = field(default_factory=lambda: [[], []])

    def add(self, other: "Counts") -> None:
        """Add those of other texts."""
        for which in (0, 1):
            self.rounds[which] += other.rounds[which]
            self.tokens[which] += other.tokens[which]
            self.own[which] += other.own[which]

    def passes(self) -> tuple[float, float]:
        """Tokens a pass."""
        return self.tokens[0] / self.rounds[0], self.tokens[1] / self.rounds[1]


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

    def decode(self, prompt: str, settings: dict[str, Any]) -> tuple[float, int, int, int, float]:
        """What the worker answers."""
        assert self._process.stdin is not None
        print(json.dumps([prompt, settings]), file=self._process.stdin, flush=True)
        seconds, counted, rounds, tokens, own = json.loads(self._answer())
        return seconds, counted, rounds, tokens, own

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the process of a checkout ended with {self._process.wait()}")
        return line


def ratios(
    checkouts: Sequence[Checkout], prompts: Sequence[str], mode: str, tokens: int, turn: int
) -> tuple[list[float], Counts]:
    """Speed of this checkout over the other, by prompt; and rounds and tokens of each, ours first."""
    settings: dict[str, Any] = {"max_new_tokens": tokens, "ignore_eos": True, "seed": 0}
    settings |= {"mode": "plain"} if mode == "plain" else {}
    found, counts = [], Counts()
    for index, prompt in enumerate(prompts):
        times = [0.0, 0.0]
        for which in (0, 1) if (index + turn) % 2 else (1, 0):
            seconds, counted, passes, length, own = checkouts[which].decode(prompt, settings)
            times[which] = seconds / max(1, counted)
            counts.rounds[which] += passes
            counts.tokens[which] += length
            counts.own[which].append(1000 * own / passes)
        found.append(times[1] / times[0])
    return found, counts


def middle(repeats: Sequence[Sequence[float]]) -> tuple[float, list[float]]:
    """The median over prompts of the geometric means over repeats, and these means."""
    means = [statistics.geometric_mean(of_prompt) for of_prompt in zip(*repeats, strict=True)]
    return statistics.median(means), means


def interval(repeats: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % interval of the middle, by bootstrap over repeats and prompts."""
    draws, prompts, found = random.Random(0), range(len(repeats[0])), []
    for _ in range(2000):
        chosen = draws.choices(prompts, k=len(prompts))
        found.append(
            middle([[each[at] for at in chosen] for each in draws.choices(repeats, k=len(repeats))])[0]
        )
    parts = statistics.quantiles(found, n=40)
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
    places = (
        (Path(__file__).parents[1], options.bundle),
        (options.other, options.their_bundle or options.bundle),
    )
    prompts = [text for texts in unseen(options.prompts).values() for text in texts]
    found: dict[str, list[list[float]]] = {mode: [] for mode in MODES}
    counts = {mode: Counts() for mode in MODES}
    for repeat in range(options.repeats):
        order = (0, 1) if repeat % 2 else (1, 0)
        started = {which: Checkout(*places[which]) for which in order}
        checkouts = started[0], started[1]
        for mode in MODES:
            ratios(checkouts, prompts[:2], mode, options.tokens, 0)  # both are warm
            speeds, counted = ratios(checkouts, prompts, mode, options.tokens, repeat)
            found[mode].append(speeds)
            counts[mode].add(counted)
        for checkout in checkouts:
            checkout.close()
    heads = (
        "mode",
        "speed over the other (95 %)",
        "tokens a pass, both",
        "lowest, highest",
        "own ms a round, both",
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for mode in MODES:
        speed, means = middle(found[mode])
        low, high = interval(found[mode])
        ours, theirs = counts[mode].passes()
        print(
            f"| {mode} | {speed:.3f}x ({low:.3f}-{high:.3f}) of {len(prompts)} prompts | "
            f"{ours:.2f}, {theirs:.2f} | {min(means):.3f}x, {max(means):.3f}x | "
            f"{', '.join(f'{statistics.median(each):.3f}' for each in counts[mode].own)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
