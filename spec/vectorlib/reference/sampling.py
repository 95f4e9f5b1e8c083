"""From logits to a distribution: spec/04-speculation.md, section 2."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import fsum

from vectorlib.reference.random_source import Distribution, TooClose


class NoDistribution(ValueError):  # noqa: N818 # what the chapter calls it
    """The largest logit of a row is NaN or infinite."""


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling. The penalty is applied first, then the others in the order of the fields."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


def target_distribution(
    logits: Sequence[float], settings: Sampling, context: Sequence[int] = (), margin: float = 1e-5
) -> Distribution:
    """Repetition penalty, temperature, top-k, top-p, min-p."""
    row = list(logits)
    for token in set(context):
        penalty = settings.repetition_penalty
        row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    _check(row)
    if settings.temperature == 0.0:
        return one_hot(row)
    weights = [math.exp((x - max(row)) / settings.temperature) for x in row]
    # By descending weight; ties by ascending id.
    ranked = sorted(range(len(weights)), key=lambda t: (-weights[t], t))
    if settings.top_k:
        ranked = ranked[: settings.top_k]
    ranked = _nucleus(ranked, weights, settings.top_p, margin)
    least = settings.min_p * max(weights)
    if any(0 < abs(weights[t] - least) < margin for t in ranked if settings.min_p > 0.0):
        raise TooClose(f"a weight at the limit of min_p {settings.min_p}")
    kept = {t for t in ranked if weights[t] >= least}
    return Distribution(tuple(w if t in kept else 0.0 for t, w in enumerate(weights)))


def _nucleus(ranked: list[int], weights: Sequence[float], top_p: float, margin: float) -> list[int]:
    """The tokens that are preceded by less than top_p of the mass."""
    limit, before, kept = top_p * fsum(weights[t] for t in ranked), 0.0, []
    for token in ranked:
        if top_p < 1.0 and before > 0.0 and abs(before - limit) < margin:
            raise TooClose(f"mass {before} at the limit of top_p {top_p}")
        if top_p == 1.0 or before < limit:
            kept.append(token)
        before += weights[token]
    return kept


def draft_distribution(logits: Sequence[float], temperature: float, banned: Collection[int]) -> Distribution:
    """The drafter's distribution: temperature only, with weight 0 for the banned ids."""
    _check(logits)
    row = [-math.inf if t in banned else x for t, x in enumerate(logits)]
    _check(row)
    if temperature == 0.0:
        return one_hot(row)
    return Distribution(tuple(math.exp((x - max(row)) / temperature) for x in row))


def _check(row: Sequence[float]) -> None:
    """Refuse a row with a NaN, and one whose largest logit is infinite."""
    if any(x != x for x in row) or abs(max(row)) == math.inf:
        raise NoDistribution


def one_hot(row: Sequence[float]) -> Distribution:
    """All mass on the largest logit; ties go to the lowest id."""
    best = row.index(max(row))
    return Distribution(tuple(float(t == best) for t in range(len(row))), certain=True)
