"""Probability distributions over token ids: drawing, verification and correction use nothing else.

Pure values; nothing here depends on drafts or on models.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.floating]
Ids = npt.NDArray[np.integer]

_BLOCK = 512  # the inverse CDF looks at block sums first: two short scans instead of one long one


class Distribution(Protocol):
    """A probability distribution over token ids 0..size-1."""

    size: int
    is_certain: bool  # one token has all the mass

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Probabilities of the given ids, shape [len(ids)]."""

    def mass(self, ids: Ids) -> float:
        """The sum of the probabilities of distinct ids."""

    def mass_outside(self, ids: Ids) -> float:
        """The sum of the probabilities of all other ids; 0 only if each is 0, in spite of rounding."""

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
        """
        Args:
            token: the id that has all the mass.
            size: number of ids.
        """
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
        """
        Args:
            weights: in proportion to the probabilities, shape [size]; not copied.
        """
        self.size = len(weights)
        self._weights = weights
        whole = self.size - self.size % _BLOCK
        blocks = np.einsum("ij->i", weights[:whole].reshape(-1, _BLOCK))  # no BLAS: its threads cost more
        self._blocks = np.cumsum(np.append(blocks, weights[whole:].sum()), dtype=np.float64)
        self._total = float(self._blocks[-1])

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        probabilities: npt.NDArray[np.float64] = self._weights.take(ids).astype(np.float64)
        probabilities *= 1.0 / self._total
        return probabilities

    def mass(self, ids: Ids) -> float:
        return float(self._weights.take(ids).sum(dtype=np.float64)) / self._total

    def mass_outside(self, ids: Ids) -> float:
        return self.without(ids)._total / self._total

    def masked(self, mask: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        probabilities = self._weights * mask
        probabilities *= 1.0 / self._total
        return probabilities

    def mass_under(self, mask: npt.NDArray[np.float64]) -> float:
        return float(np.einsum("i,i", self._weights, mask)) / self._total

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        if among is not None:
            return int(among[_inverse(self._weights[among], uniform)])
        level = uniform * self._total
        block = min(int(np.searchsorted(self._blocks, level, side="right")), len(self._blocks) - 1)
        before = float(self._blocks[block - 1]) if block else 0.0
        share = (level - before) / max(float(self._blocks[block]) - before, 1e-300)
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
    index = min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), len(weights) - 1)
    while weights[index] <= 0.0 and index > 0:
        index -= 1
    return index
