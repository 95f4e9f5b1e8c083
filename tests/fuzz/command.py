"""What all fuzzers share: their command line, and the limits of a run."""

import argparse
import faulthandler
import time
from collections import Counter
from collections.abc import Callable, Iterator

HANG = 60.0  # seconds


def numbers(count: int, seconds: float) -> Iterator[int]:
    """The numbers of the mutants, until a limit is reached; a hang ends the process with its place."""
    end = time.monotonic() + seconds
    try:
        for number in range(count):
            if time.monotonic() > end:
                return
            faulthandler.dump_traceback_later(HANG, exit=True)
            yield number
    finally:
        faulthandler.cancel_dump_traceback_later()


def command(
    about: str | None,
    what: str,
    count: int,
    fuzz: Callable[[int, float, int], Counter[str]],
    seconds: float = 120.0,
) -> None:
    """Run a fuzzer with `--count`, `--seconds` and `--seed`, and print the number of each outcome.

    Args:
        about: the fuzzer's docstring.
        what: the name of its mutants.
        count, seconds: defaults of the options; the first limit that is reached ends the run.
        fuzz: takes count, seconds and seed, and returns the number of each outcome.
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
