"""Speed-up along a learning curve: measured in each interval, and predicted from counts and costs.

A busy machine makes measured times longer, never shorter, so no figure here is a mean of times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from omnidraft.learning.online.curve import CurveLine

_TAIL = 0.025  # on each side of a 95 % interval


@dataclass(frozen=True)
class Gain:
    """Speed of some answers over the speed of plain decoding.

    Attributes:
        measured: median over intervals of answers; None where plain decoding was not measured.
        low: lower end of its 95 % interval; None with too few intervals.
        high: upper end.
        predicted: from the counted rounds, at the usual seconds of each; None where costs are unknown.
    """

    measured: float | None
    low: float | None
    high: float | None
    predicted: float | None


def gain(lines: Sequence[CurveLine], all_lines: Sequence[CurveLine]) -> Gain:
    """Speed-up of some answers of a curve.

    Args:
        lines: of the answers, in order.
        all_lines: of the whole curve, for the usual seconds.
    """
    ratios = [
        plain * sum(x.tokens for x in group) / max(sum(x.seconds for x in group), 1e-9)
        for plain, group in _intervals(lines)
    ]
    low, high = median_interval(ratios)
    measured = median(ratios) if ratios else None
    return Gain(measured, low, high, _predicted(lines, all_lines))


def _intervals(lines: Sequence[CurveLine]) -> list[tuple[float, list[CurveLine]]]:
    """Plain speed and answers of each interval; plain decoding is measured at its start."""
    groups = [(key, list(group)) for key, group in groupby(lines, lambda line: (line.target, line.plain))]
    return [(plain, group) for (_, plain), group in groups if plain is not None]


def median_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """A 95 % interval of the median by order statistics; (None, None) below 6 values. No outlier moves it.

    The k-th smallest and largest, with k the largest for which P(Binomial(n, 1/2) < k) is at most 0.025.
    """
    n, k, below = len(values), 0, 0.0
    while (below := below + math.comb(n, k) / 2.0**n) <= _TAIL:
        k += 1
    ordered = sorted(values)
    return (ordered[k - 1], ordered[n - k]) if k else (None, None)


def _predicted(lines: Sequence[CurveLine], all_lines: Sequence[CurveLine]) -> float | None:
    """Plain seconds of the tokens over the seconds of the rounds, each at its target's usual cost."""
    plain = seconds = 0.0
    targets = {line.target for line in lines}
    usual = {target: _Usual.of([x for x in all_lines if x.target == target]) for target in targets}
    for line in lines:
        costs = usual[line.target]
        if costs.plain is None or not line.first:
            return None
        plain += costs.plain * line.tokens
        seconds += costs.first + sum(count * costs.rounds[drafted] for drafted, count, _ in line.costs)
    return plain / seconds if seconds else None


@dataclass(frozen=True)
class _Usual:
    """Medians over the curve of one target.

    Attributes:
        plain: seconds of a plain token.
        first: seconds of the first round of an answer.
        rounds: seconds of the other rounds, by number of draft tokens.
    """

    plain: float | None
    first: float
    rounds: dict[int, float]

    @classmethod
    def of(cls, lines: Sequence[CurveLine]) -> _Usual:
        plain = [line.plain for line in lines if line.plain is not None]
        by_length = defaultdict[int, list[tuple[float, int]]](list)
        for line in lines:
            for drafted, count, seconds in line.costs:
                by_length[drafted].append((seconds, count))
        rounds = {drafted: _weighted_median(pairs) for drafted, pairs in by_length.items()}
        firsts = [line.first for line in lines if line.first]
        return cls(median(plain) if plain else None, median(firsts) if firsts else 0.0, rounds)


def _weighted_median(pairs: list[tuple[float, int]]) -> float:
    """Median of (value, weight) pairs."""
    values, weights = (np.array(each) for each in zip(*sorted(pairs), strict=True))
    return float(values[np.searchsorted(weights.cumsum(), weights.sum() / 2)])
