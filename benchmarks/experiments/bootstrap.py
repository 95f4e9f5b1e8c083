"""Intervals: tokens per target pass over prompts, and ratios of two arms on the same prompts, pairwise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
Counts = dict[str, Any]  # of `measure.counts`
Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def tokens_per_pass(seeds: Sequence[Counts]) -> Interval:
    """Over the prompts of one arm, and over its seeds."""
    return _interval(seeds, None)


def ratio(seeds: Sequence[Counts], others: Sequence[Counts]) -> Interval:
    """Tokens per target pass of one arm over another's on the same prompts.

    Prompts are drawn once for both arms; seeds for each arm, together where both have as many.
    """
    return _interval(seeds, others)


def acceptance(seeds: Sequence[Counts]) -> float:
    """Accepted draft tokens over drawn ones, over all prompts and seeds."""
    passed, drafted = (sum(sum(s[name]) for s in seeds) for name in ("passed", "drafted"))
    return passed / max(1, drafted)


def _interval(seeds: Sequence[Counts], others: Sequence[Counts] | None) -> Interval:
    rng = np.random.default_rng(0)
    mine, theirs = _table(seeds), None if others is None else _table(others)
    prompts = mine.shape[2]
    assert theirs is None or theirs.shape[2] == prompts, "both arms were measured on the same prompts"
    together = theirs is not None and len(theirs) == len(mine)
    found = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(prompts, size=prompts)
        rows = rng.integers(len(mine), size=len(mine))
        value = _pooled(mine[rows][:, :, drawn])
        if theirs is not None:
            value /= _pooled(
                theirs[rows if together else rng.integers(len(theirs), size=len(theirs))][:, :, drawn]
            )
        found.append(value)
    whole = _pooled(mine) / (1.0 if theirs is None else _pooled(theirs))
    return Interval(whole, float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975)))


def _table(seeds: Sequence[Counts]) -> Table:
    """Emitted tokens and rounds, [seeds, 2, prompts]."""
    return np.array([[s["emitted"], s["rounds"]] for s in seeds], dtype=np.float64)


def _pooled(table: Table) -> float:
    emitted, rounds = table.sum(axis=(0, 2))
    return float(emitted / rounds)
