"""From logits to a distribution: the probabilities that drafting, testing, correcting and the bonus all share.

One processed distribution per row is used for every step (method: "apply to p first"), which is what keeps the
output exact. Knows nothing of drafts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError

Row = npt.NDArray[np.floating]
Ids = npt.NDArray[np.integer]

_COLDEST = 1e-4
_LEAST = (
    1e-200  # of the largest weight of a drafter's distribution: sums of smaller ones cannot be divided by
)
_BLOCK = 512  # the inverse CDF looks at block sums first: two short scans instead of one long one
_FLOORS = (2.0**-6, 2.0**-9, 2.0**-12, 2.0**-16, 2.0**-24, 0.0)  # of a weight, relative to the largest


class Distribution(Protocol):
    """A probability distribution over token ids 0..size-1."""

    size: int
    is_certain: bool  # one token has all the mass

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Probabilities of the given ids, shape [len(ids)]."""

    def mass(self, ids: Ids) -> float:
        """The sum of the probabilities of distinct ids."""

    def mass_outside(self, ids: Ids) -> float:
        """The sum of the probabilities of all other ids; 0 only if each of them is 0, for all rounding."""

    def masked(self, mask: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Probabilities of all ids times a mask of zeros and ones, shapes [size]."""

    def mass_under(self, mask: npt.NDArray[np.float64]) -> float:
        """The sum of `masked`."""

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        """The token at `uniform` in [0, 1) of the cumulative distribution, restricted to `among` if given."""

    def without(self, ids: Ids) -> "Distribution":
        """The distribution given that the token is none of `ids`."""


class OneHot:
    """All mass on one token: what temperature 0 makes of a row (ties: lowest id)."""

    is_certain = True

    def __init__(self, token: int, size: int) -> None:
        self.token = token
        self.size = size

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        return np.equal(ids, self.token).astype(np.float64)

    def mass(self, ids: Ids) -> float:
        return float(np.count_nonzero(ids == self.token))

    def mass_outside(self, ids: Ids) -> float:
        return 1.0 - self.mass(ids)

    def masked(self, mask: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return self.probability(np.arange(self.size)) * mask

    def mass_under(self, mask: npt.NDArray[np.float64]) -> float:
        return float(mask[self.token])

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        return self.token

    def without(self, ids: Ids) -> "OneHot":
        return self


class Categorical:
    """A distribution with unnormalised weights of any float dtype.

    Sums are taken over blocks in the weights' dtype and from there in float64: with float32 rows a
    probability is right to about 1e-7, with float64 rows to 1e-16.
    """

    is_certain = False

    def __init__(self, weights: Row) -> None:
        self.size = len(weights)
        self._weights = weights
        whole = self.size - self.size % _BLOCK
        blocks = np.einsum("ij->i", weights[:whole].reshape(-1, _BLOCK))  # no BLAS: its threads cost more
        self._blocks = np.cumsum(np.append(blocks, weights[whole:].sum()), dtype=np.float64)
        self._total = float(self._blocks[-1])

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = self._weights.take(ids).astype(np.float64)
        found *= 1.0 / self._total
        return found

    def mass(self, ids: Ids) -> float:
        return float(self._weights.take(ids).sum(dtype=np.float64)) / self._total

    def mass_outside(self, ids: Ids) -> float:
        return self.without(ids)._total / self._total

    def masked(self, mask: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        found = self._weights * mask
        found *= 1.0 / self._total
        return found

    def mass_under(self, mask: npt.NDArray[np.float64]) -> float:
        return float(np.einsum("i,i", self._weights, mask)) / self._total

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        if among is not None:
            return int(among[_inverse(self._weights[among], uniform)])
        sought = uniform * self._total
        block = min(int(np.searchsorted(self._blocks, sought, side="right")), len(self._blocks) - 1)
        before = float(self._blocks[block - 1]) if block else 0.0
        share = (sought - before) / max(float(self._blocks[block]) - before, 1e-300)
        inside = self._weights[block * _BLOCK : (block + 1) * _BLOCK]
        if len(inside) == 0:  # rounding led past the end
            return int(np.flatnonzero(self._weights)[-1])
        return block * _BLOCK + _inverse(inside, min(max(share, 0.0), 1.0))

    def without(self, ids: Ids) -> "Categorical":
        weights = self._weights.copy()
        weights[ids] = 0.0
        return Categorical(weights)


def _inverse(weights: Row, uniform: float) -> int:
    """Index at `uniform` of the cumulative weights; never one of weight zero unless all are."""
    cumulative = np.cumsum(weights, dtype=np.float64)
    found = min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), len(weights) - 1)
    while weights[found] <= 0.0 and found > 0:
        found -= 1
    return found


@dataclass(frozen=True)
class SamplingConfig:
    """What is done to a row of logits before anything is drawn, tested or corrected by it.

    In this order, as in transformers: repetition penalty, temperature, top-k, top-p, min-p.

    Attributes:
        temperature: divides the logits; 0 takes the argmax after the penalty (ties: lowest id).
        top_k: keep so many of the most probable tokens (ties: lowest ids first); 0 keeps all.
        top_p: of those, by falling probability (ties: lowest ids first), keep each one that less than this
            share of their mass comes before; 1 keeps all.
        min_p: of those, keep what has at least this share of the largest probability; 0 keeps all.
        repetition_penalty: divides the positive and multiplies the negative logits of every id that the
            context holds, prompt included (Keskar et al., CTRL, 2019); 1 changes nothing.

    Raises:
        SettingError: a value outside its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if self.top_k < 0:
            raise SettingError(f"top_k {self.top_k} is less than 0", "use 0 to keep all tokens, 40 is usual")
        if not 0.0 < self.top_p <= 1.0:
            raise SettingError(
                f"top_p {self.top_p} is outside 0 < top_p <= 1", "use 1 to keep all tokens, 0.95 is usual"
            )
        if not 0.0 <= self.min_p <= 1.0:
            raise SettingError(
                f"min_p {self.min_p} is outside 0..1", "use 0 to keep all tokens, 0.05 is usual"
            )
        if not 0.0 < self.repetition_penalty < math.inf:
            raise SettingError(
                f"repetition_penalty {self.repetition_penalty} is not a number above 0",
                "use 1 for none, 1.1 is usual",
            )


def target_distribution(logits: Row, sampling: SamplingConfig, context: Sequence[int] = ()) -> Distribution:
    """The distribution of one row of logits, shape [vocab].

    Args:
        logits: one row, any float dtype; the weights keep it (float64 in, float64 throughout).
        sampling: what is done to it.
        context: target ids before the row, for the repetition penalty.
    """
    if sampling.repetition_penalty != 1.0 and len(context):
        logits = _penalised(logits, sampling.repetition_penalty, np.unique(np.asarray(context)))
    if sampling.temperature == 0.0:
        return OneHot(int(logits.argmax()), len(logits))
    weights = _weights(logits, sampling.temperature)
    if sampling.top_k or sampling.top_p < 1.0:
        kept = _nucleus(weights, sampling)
        weights, everything = np.zeros_like(weights), weights
        weights[kept] = everything[kept]
    if sampling.min_p > 0.0:
        weights[weights < sampling.min_p] = 0.0  # the largest weight is exp(0) = 1 and always kept
    return Categorical(weights)


def scoring(sampling: SamplingConfig) -> SamplingConfig:
    """What log-probabilities are of: the distribution that is drawn from, or greedy the one that its argmax is of."""
    if sampling.temperature > 0.0:
        return sampling
    return SamplingConfig(temperature=1.0, repetition_penalty=sampling.repetition_penalty)


def _penalised(logits: Row, penalty: float, ids: Ids) -> Row:
    logits = logits.copy()
    values = logits[ids]
    logits[ids] = np.where(values > 0.0, values / penalty, values * penalty)
    return logits


def _nucleus(weights: Row, sampling: SamplingConfig) -> Ids:
    """What top-k and then top-p keep, by falling weight."""
    if sampling.top_k:
        ids = _ranked(weights, sampling.top_k, 0.0)[: sampling.top_k]
        total = float(weights[ids].sum(dtype=np.float64))
    else:
        total = float(weights.sum(dtype=np.float64))
        ids = _ranked(weights, 1, sampling.top_p * total)
    if sampling.top_p == 1.0:
        return ids
    before = np.cumsum(np.append(0.0, weights[ids[:-1]]), dtype=np.float64)
    return ids[before < sampling.top_p * total]


def _ranked(weights: Row, count: int, mass: float) -> Ids:
    """At least the `count` heaviest ids and as many as hold `mass`, by falling weight, then by id.

    Few tokens hold nearly all mass, so only those above a floor are sorted, the lower the more are needed.
    """
    ids = np.arange(0)
    for floor in _FLOORS:
        ids = np.flatnonzero(weights >= floor)
        if len(ids) >= count and weights[ids].sum(dtype=np.float64) >= mass:
            break
    if mass == 0.0 and len(ids) > count:
        found = weights[ids]
        ids = ids[found >= np.partition(found, len(ids) - count)[len(ids) - count]]
    return ids[np.argsort(-weights[ids], kind="stable")]


def draft_distribution(logits: Row, temperature: float, banned: Ids) -> Distribution:
    """The drafter's distribution of one row, shape [vocab], without the ids that it may not propose.

    In float64: the verifier divides by sums of it.
    """
    if temperature == 0.0:
        best = int(logits.argmax())
        if not (banned == best).any():  # nearly always: spare the copy
            return OneHot(best, len(logits))
        logits = logits.copy()
        logits[banned] = -np.inf
        return OneHot(int(logits.argmax()), len(logits))
    wide = logits.astype(np.float64)
    weights = _weights(wide, temperature)
    weights[banned] = 0.0
    if weights.max() < _LEAST:  # cold, and the likeliest is banned: all others are 0 beside it
        wide[banned] = -np.inf
        weights = _weights(wide, temperature)
    return Categorical(weights)


def _weights(logits: Row, temperature: float) -> Row:
    scaled = logits - logits.max()
    if temperature != 1.0:
        # A divisor below the dtype's range would be 0: then only the ties of the largest logit are left.
        with np.errstate(over="ignore"):
            scaled /= max(temperature, float(np.finfo(scaled.dtype).tiny))
    weights: Row = np.exp(scaled, out=scaled)
    return weights


def check_temperature(temperature: float) -> float:
    """Refuse a temperature that is neither 0 nor large enough to divide float32 logits by.

    Raises:
        SettingError: naming the value.
    """
    if not math.isfinite(temperature) or temperature < 0.0:
        raise SettingError(
            f"temperature {temperature} is not a finite number >= 0",
            "use 0 for greedy decoding, 1 for the model's own distribution",
        )
    if 0.0 < temperature < _COLDEST:
        raise SettingError(f"temperature {temperature} is below {_COLDEST}", "use 0 for greedy decoding")
    return temperature
