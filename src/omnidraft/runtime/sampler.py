"""From logits to a law: the probabilities that drafting, testing, correcting and the bonus all share.

One processed law per row is used for every step (method: "apply to p first"), which is what keeps the
output exact. Knows nothing of drafts.
"""

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError

Row = npt.NDArray[np.floating]
Ids = npt.NDArray[np.int32]

_BLOCK = 512  # the inverse CDF looks at block sums first: two short scans instead of one long one


class Law(Protocol):
    """A probability law over token ids 0..size-1."""

    size: int
    is_certain: bool  # one token has all the mass

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Probabilities of the given ids, shape [len(ids)]."""

    def mass(self, ids: Ids) -> float:
        """The sum of the probabilities of distinct ids."""

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        """The token at `uniform` in [0, 1) of the cumulative law, restricted to `among` if given."""


class PointLaw:
    """All mass on one token: what temperature 0 makes of a row (ties: lowest id)."""

    is_certain = True

    def __init__(self, token: int, size: int) -> None:
        self.token = token
        self.size = size

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        return np.equal(ids, self.token).astype(np.float64)

    def mass(self, ids: Ids) -> float:
        return float(np.count_nonzero(ids == self.token))

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        return self.token


class DenseLaw:
    """A law with unnormalised weights (any float dtype); sums are taken in float64."""

    is_certain = False

    def __init__(self, weights: Row) -> None:
        self.size = len(weights)
        self._weights = weights
        starts = np.arange(0, self.size, _BLOCK)
        self._blocks = np.cumsum(np.add.reduceat(weights, starts), dtype=np.float64)
        self._total = float(self._blocks[-1])

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        return self._weights[ids].astype(np.float64) / self._total

    def mass(self, ids: Ids) -> float:
        return float(self._weights[ids].sum(dtype=np.float64)) / self._total

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        if among is not None:
            return int(among[_inverse(self._weights[among], uniform)])
        block = min(
            int(np.searchsorted(self._blocks, uniform * self._total, side="right")), len(self._blocks) - 1
        )
        before = float(self._blocks[block - 1]) if block else 0.0
        inside = self._weights[block * _BLOCK : (block + 1) * _BLOCK]
        share = (uniform * self._total - before) / max(float(self._blocks[block]) - before, 1e-300)
        return block * _BLOCK + _inverse(inside, min(max(share, 0.0), 1.0))


def _inverse(weights: Row, uniform: float) -> int:
    """Index at `uniform` of the cumulative weights; never one of weight zero unless all are."""
    cumulative = np.cumsum(weights, dtype=np.float64)
    found = min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), len(weights) - 1)
    while weights[found] <= 0.0 and found > 0:
        found -= 1
    return found


def law_of(logits: Row, temperature: float) -> Law:
    """The law of one row of logits, shape [vocab].

    Args:
        logits: one row, any float dtype; the weights keep it (float64 in, float64 throughout).
        temperature: 0 puts all mass on the argmax.
    """
    if temperature == 0.0:
        return PointLaw(int(logits.argmax()), len(logits))
    scaled = logits - logits.max()
    if temperature != 1.0:
        scaled /= temperature
    return DenseLaw(np.exp(scaled, out=scaled))


def allowed_law(logits: Row, temperature: float, allowed: npt.NDArray[np.bool_]) -> Law:
    """The law of one row with some ids ruled out, shapes [vocab]: the drafter's control tokens, say."""
    if temperature == 0.0:
        best = int(logits.argmax())
        if allowed[best]:  # nearly always: spare the masking
            return PointLaw(best, len(logits))
    return law_of(np.where(allowed, logits, -np.inf), temperature)


def check_temperature(temperature: float) -> float:
    """Refuse a temperature that is no number >= 0."""
    if not math.isfinite(temperature) or temperature < 0.0:
        raise SettingError(f"temperature {temperature} is not a number >= 0; use 0 for greedy decoding")
    return temperature
