"""95 % bootstrap intervals of tokens per target pass, and of the ratio of two arms on the same prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
Counts = dict[str, Any]  # emitted tokens and rounds of each prompt
Table = npt.NDArray[np.float64]  # emitted tokens and rounds, [seeds, 2, prompts]


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def tokens_per_pass(seeds: Sequence[Counts]) -> Interval:
    """Tokens per target pass of one arm; prompts and seeds are resampled."""
    return _interval(seeds, None)


def ratio(seeds: Sequence[Counts], reference: Sequence[Counts]) -> Interval:
    """Tokens per target pass of one arm over that of another on the same prompts.

    Prompts are resampled once for both arms; seeds for each arm, or once where both have the same number.
    """
    return _interval(seeds, reference)


def _interval(seeds: Sequence[Counts], reference: Sequence[Counts] | None) -> Interval:
    rng = np.random.default_rng(0)
    table, other = _table(seeds), None if reference is None else _table(reference)
    prompts = table.shape[2]
    assert other is None or other.shape[2] == prompts, "both arms were measured on the same prompts"
    same_seeds = other is not None and len(other) == len(table)
    values = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(prompts, size=prompts)
        rows = rng.integers(len(table), size=len(table))
        value = _pooled(table[rows][:, :, drawn])
        if other is not None:
            other_rows = rows if same_seeds else rng.integers(len(other), size=len(other))
            value /= _pooled(other[other_rows][:, :, drawn])
        values.append(value)
    whole = _pooled(table) / (1.0 if other is None else _pooled(other))
    return Interval(whole, float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975)))


def _table(seeds: Sequence[Counts]) -> Table:
    return np.array([[s["emitted"], s["rounds"]] for s in seeds], dtype=np.float64)


def _pooled(table: Table) -> float:
    emitted, rounds = table.sum(axis=(0, 2))
    return float(emitted / rounds)
