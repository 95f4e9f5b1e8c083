"""Seconds on this device: what a target pass, a draft token and the round's own work cost."""

import statistics
import time
from collections.abc import Callable

from omnidraft.runtime.draft_length import Costs
from omnidraft.runtime.model import Model

_HOST_SECONDS = 2e-4  # translate, verify, learn and rewind; benchmarks/host_overhead.py measures it


def measure_costs(
    target: Model, drafter: Model, *, longest: int = 9, past: int = 64, repeats: int = 7
) -> Costs:
    """Time passes of 1..longest target tokens and single draft tokens at a context of `past` positions.

    Medians over `repeats` passes; both contexts are empty afterwards. Token ids do not change the cost.
    """
    past = min(past, target.max_length - longest, drafter.max_length - 1)
    passes = tuple(_seconds(target, n, past, repeats) for n in range(1, longest + 1))
    return Costs(passes, _seconds(drafter, 1, past, repeats), _HOST_SECONDS)


def _seconds(model: Model, n: int, past: int, repeats: int) -> float:
    """Median seconds of a pass over n tokens after `past` positions."""
    model.rewind(0)
    if past > 0:
        model.score([0] * past, num_logits=1)
    taken = [_timed(lambda: model.score([0] * n), lambda: model.rewind(past)) for _ in range(repeats + 1)]
    model.rewind(0)
    return statistics.median(taken[1:])  # the first makes the binding


def _timed(work: Callable[[], object], undo: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    taken = time.perf_counter() - started
    undo()
    return taken
