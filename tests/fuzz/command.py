"""The command of every fuzzer: how many, how long, which seed; what came out, counted by outcome."""

import argparse
import time
from collections import Counter
from collections.abc import Callable


def command(
    about: str | None,
    what: str,
    count: int,
    fuzz: Callable[[int, float, int], Counter[str]],
    seconds: float = 120.0,
) -> None:
    """Run a fuzzer with `--count`, `--seconds` and `--seed`, and print what became of so many mutants.

    Args:
        about: the fuzzer's docstring. what: its mutants' name. count, seconds: of them at most, unless told.
        fuzz: by count, seconds and seed; outcomes with how often each came.
    """
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    seen = fuzz(options.count, options.seconds, options.seed)
    took = time.monotonic() - started
    print(f"{sum(seen.values()):,} mutated {what} in {took:.0f} s, no crash and no hang")
    for outcome, times in seen.most_common():
        print(f"  {outcome:20} {times:8,}")
