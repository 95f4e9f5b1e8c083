"""Probability distributions over token ids: drawing, verification and correction use nothing else.

Pure values; nothing here depends on drafts or on models.
"""

import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.floating]
Ids = npt.NDArray[np.integer]

_BLOCK = 512  # the inverse CDF looks at block sums first: two short scans instead of one long one


class Workspace:
    """Arrays of the size of a vocabulary, which are kept from round to round; for one thread.

    Only the weights of a row are in new memory. An array is valid until the same use asks again.

    Attributes:
        softmax: computes the weights of a row of logits, in memory of their own.
    """

    def __init__(self) -> None:
        self.softmax: Callable[[Row], Row] = softmax
        self._arrays: dict[Hashable, npt.NDArray[Any]] = {}

    def array(self, use: Hashable, size: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """The array of a use, with any values."""
        kept = self._arrays.get(use)
        if kept is None or len(kept) < size or kept.dtype != dtype:
            kept = self._arrays[use] = np.empty(size, dtype)
        return kept[:size]


class Distribution(Protocol):
    """A probability distribution over token ids 0..size-1."""

    size: int
    is_certain: bool  # one token has all the mass, and a draw uses no random number

    @property
    def confidence(self) -> float:
        """The largest probability."""

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Probabilities of the given ids, shape [len(ids)]."""

    def mass(self, ids: Ids) -> float:
        """The sum of the probabilities of distinct ids."""

    def mass_outside(self, *ids: Ids) -> float:
        """The sum of the probabilities of all other ids; 0 only if each is 0, in spite of rounding."""

    def masked(self, mask: Row, out: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Probabilities of all ids times a mask of zeros and ones, shapes [size], written to `out`."""

    def mass_under(self, mask: Row) -> float:
        """The sum of `masked`."""

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        """The token at `uniform` in [0, 1) of the cumulative distribution, restricted to `among` if given."""

    def without(self, *ids: Ids) -> "Distribution":
        """The distribution given that the token is none of `ids`; it lives until the next such call."""


class OneHot:
    """All mass on one token: what temperature 0 makes of a row (ties: lowest id)."""

    def __init__(self, token: int, size: int, confidence: float = 1.0, *, draws: bool = False) -> None:
        """
        Args:
            confidence: of a drafter, the token's probability in the softmax of its row.
            draws: whether a draw uses a random number, as from other rows of a text that is sampled.
        """
        self.is_certain = not draws
        self.token = token
        self.size = size
        self.confidence = confidence

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        return np.equal(ids, self.token).astype(np.float64)

    def mass(self, ids: Ids) -> float:
        return float(np.count_nonzero(ids == self.token))

    def mass_outside(self, *ids: Ids) -> float:
        return 1.0 - sum(self.mass(each) for each in ids)

    def masked(self, mask: Row, out: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        out.fill(0.0)
        out[self.token] = mask[self.token]
        return out

    def mass_under(self, mask: Row) -> float:
        return float(mask[self.token])

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        return self.token

    def without(self, *ids: Ids) -> "OneHot":
        return self


class Categorical:
    """A distribution with unnormalised weights of any float dtype.

    Sums are taken over blocks in the weights' dtype and from there in float64: with float32 rows a
    probability is right to about 1e-7, with float64 rows to 1e-16.

    Attributes:
        is_sound: whether the weights have a sum that can be divided by; not of weights of which one is NaN.
    """

    is_certain = False

    def __init__(self, weights: Row, workspace: Workspace | None = None) -> None:
        """
        Args:
            weights: in proportion to the probabilities, shape [size]; not copied.
            workspace: lends memory to `without`.
        """
        self.size = len(weights)
        self._weights = weights
        self._workspace = workspace or Workspace()
        self._blocks = np.cumsum(_block_sums(weights), dtype=np.float64)
        self._total = float(self._blocks[-1])
        self.is_sound = 0.0 < self._total < math.inf

    @property
    def confidence(self) -> float:
        return float(self._weights.max()) / self._total

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        probabilities: npt.NDArray[np.float64] = self._weights.take(ids).astype(np.float64)
        probabilities /= self._total
        return probabilities

    def mass(self, ids: Ids) -> float:
        return float(self._weights.take(ids).sum(dtype=np.float64)) / self._total

    def mass_outside(self, *ids: Ids) -> float:
        return self.without(*ids)._total / self._total

    def masked(self, mask: Row, out: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        np.multiply(self._weights, mask, out=out)
        out /= self._total
        return out

    def mass_under(self, mask: Row) -> float:
        return float(_block_sums(self._weights, mask).sum(dtype=np.float64)) / self._total

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        if among is not None:
            return int(among[_inverse(self._weights.take(among), uniform)])
        level = uniform * self._total
        block = min(int(np.searchsorted(self._blocks, level, side="right")), len(self._blocks) - 1)
        before = float(self._blocks[block - 1]) if block else 0.0
        share = (level - before) / max(float(self._blocks[block]) - before, 1e-300)
        inside = self._weights[block * _BLOCK : (block + 1) * _BLOCK]
        if len(inside) == 0:  # rounding led past the end
            return int(np.flatnonzero(self._weights)[-1])
        return block * _BLOCK + _inverse(inside, min(max(share, 0.0), 1.0))

    def without(self, *ids: Ids) -> "Categorical":
        weights = self._workspace.array("without", self.size, self._weights.dtype)
        weights[:] = self._weights
        for each in ids:
            weights[each] = 0.0
        return Categorical(weights)


def softmax(logits: Row) -> Row:
    """Weights in proportion to exp(logit), at most 1; NaN among them where the largest is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        weights: Row = logits - logits.max()
    return np.exp(weights, out=weights)


def divided(logits: Row, largest: float, temperature: float, out: Row) -> Row:
    """(logit - largest) / temperature of each logit, written to `out`, which may be the logits."""
    with np.errstate(over="ignore"):  # what is far below the largest has no weight
        np.subtract(logits, largest, out=out)
        # A divisor below the dtype's range would be 0: then only the ties of the largest logit are left.
        out /= max(temperature, float(np.finfo(out.dtype).tiny))
    return out


def _block_sums(weights: Row, mask: Row | None = None) -> Row:
    """The sum of each block of weights, or of those under a mask of zeros and ones; the last is shorter."""
    whole = len(weights) - len(weights) % _BLOCK
    parts, rest = weights[:whole].reshape(-1, _BLOCK), weights[whole:]
    sums = np.empty(len(parts) + 1, weights.dtype)
    if mask is None:
        np.einsum("ij->i", parts, out=sums[:-1])  # no BLAS: its threads cost more
        sums[-1] = rest.sum()
    else:
        np.einsum("ij,ij->i", parts, mask[:whole].reshape(-1, _BLOCK), out=sums[:-1])
        sums[-1] = np.einsum("i,i", rest, mask[whole:])
    return sums


def _inverse(weights: Row, uniform: float) -> int:
    """Index at `uniform` of the cumulative weights; never one of weight zero unless all are."""
    cumulative = np.cumsum(weights, dtype=np.float64)
    index = min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), len(weights) - 1)
    while weights[index] <= 0.0 and index > 0:
        index -= 1
    return index
