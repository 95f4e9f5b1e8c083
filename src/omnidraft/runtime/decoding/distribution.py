"""Probability distributions over token ids: drawing, verification and correction use nothing else.

Pure values; nothing here depends on drafts or on models.
"""

import math
from collections.abc import Hashable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.floating]
Ids = npt.NDArray[np.integer]

_BLOCK = 512  # the inverse CDF looks at block sums first: two short scans instead of one long one
WIDE = 16384  # ids of a block with a largest logit; numpy's loop over shorter blocks takes longer
_FAR = math.exp(-4.0)  # upper bound of the sum of the weights that `Softmax` leaves out of its bounds
_FEW = 64  # at most a 64th of the ids are near the largest logit; else a full pass is as fast
_LIKELY = 0.01  # weight from which on a bound is worth a look at the row
_MARGIN = 1.0 + 1e-5  # float32 sums of the same weights differ by less


class Workspace:
    """Arrays of the size of a vocabulary, which are kept from round to round; for one thread.

    So a round without truncation allocates no row. An array is valid until the same use asks again.
    """

    def __init__(self) -> None:
        self._arrays: dict[Hashable, npt.NDArray[Any]] = {}
        self.mark: object = None  # of the row whose weights are in the memory that rows share

    def array(self, use: Hashable, size: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """The array of a use, with any values.

        Args:
            use: equal uses get the same memory.
            size: number of values.
            dtype: of the values.
        """
        kept = self._arrays.get(use)
        if kept is None or len(kept) < size or kept.dtype != dtype:
            kept = self._arrays[use] = np.empty(size, dtype)
        return kept[:size]


class Distribution(Protocol):
    """A probability distribution over token ids 0..size-1."""

    size: int
    is_certain: bool  # one token has all the mass

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Probabilities of the given ids, shape [len(ids)]."""

    def shares(self, ids: Ids) -> Row:
        """Numbers in proportion to the probabilities of a few ids, shape [len(ids)]."""

    def mass(self, ids: Ids) -> float:
        """The sum of the probabilities of distinct ids."""

    def mass_bounds(self, ids: Ids) -> tuple[float, float]:
        """Bounds of `mass` of a few ids, which need no full pass.

        Where the upper bound is below 1, the mass is below the bound.
        """

    def mass_outside(self, *ids: Ids) -> float:
        """The sum of the probabilities of all other ids; 0 only if each is 0, in spite of rounding."""

    def masked(self, mask: Row, out: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Probabilities of all ids times a mask of zeros and ones, shapes [size], written to `out`."""

    def mass_under(self, mask: Row) -> float:
        """The sum of `masked`."""

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        """The token at `uniform` in [0, 1) of the cumulative distribution, restricted to `among` if given."""

    def without(self, *ids: Ids) -> "Distribution":
        """The distribution given that the token is none of `ids`.

        It lives until a distribution with the same workspace computes its weights.
        """


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

    def shares(self, ids: Ids) -> Row:
        return self.probability(ids)

    def mass(self, ids: Ids) -> float:
        return float(np.count_nonzero(ids == self.token))

    def mass_bounds(self, ids: Ids) -> tuple[float, float]:
        return self.mass(ids), self.mass(ids)

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
    probability is right to about 1e-7, with float64 rows to 1e-16. They are taken when first asked for.
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

    @cached_property
    def _blocks(self) -> npt.NDArray[np.float64]:
        """Cumulative sums of the blocks of weights."""
        return np.cumsum(_block_sums(self._weights), dtype=np.float64)

    @property
    def _total(self) -> float:
        return float(self._blocks[-1])

    def probability(self, ids: Ids) -> npt.NDArray[np.float64]:
        scale = 1.0 / self._total
        probabilities: npt.NDArray[np.float64] = self.shares(ids).astype(np.float64)
        probabilities *= scale
        return probabilities

    def shares(self, ids: Ids) -> Row:
        shares: Row = self._weights.take(ids)
        return shares

    def mass(self, ids: Ids) -> float:
        total = self._total
        return _few_sum(self.shares(ids)) / total

    def mass_bounds(self, ids: Ids) -> tuple[float, float]:
        mass = self.mass(ids)
        return mass, mass

    def mass_outside(self, *ids: Ids) -> float:
        return self.without(*ids)._total / self._total

    def masked(self, mask: Row, out: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        scale = 1.0 / self._total
        np.multiply(self._weights, mask, out=out)
        out *= scale
        return out

    def mass_under(self, mask: Row) -> float:
        total = self._total
        return float(_block_sums(self._weights, mask).sum(dtype=np.float64)) / total

    def draw(self, uniform: float, among: Ids | None = None) -> int:
        if among is not None:
            return int(among[_inverse(self.shares(among), uniform)])
        level = uniform * self._total
        block = min(int(np.searchsorted(self._blocks, level, side="right")), len(self._blocks) - 1)
        before = float(self._blocks[block - 1]) if block else 0.0
        share = (level - before) / max(float(self._blocks[block]) - before, 1e-300)
        inside = self.shares(np.arange(block * _BLOCK, min((block + 1) * _BLOCK, self.size)))
        if len(inside) == 0:  # rounding led past the end
            return int(np.flatnonzero(self._weights)[-1])
        return block * _BLOCK + _inverse(inside, min(max(share, 0.0), 1.0))

    def without(self, *ids: Ids) -> "Categorical":
        weights = self._workspace.array("without", self.size, self._weights.dtype)
        weights[:] = self._weights
        for each in ids:
            weights[each] = 0.0
        return Categorical(weights)


class Softmax(Categorical):
    """exp((logit - largest logit) / temperature) as weights, computed when all of them are first needed.

    Some methods need only a few of the weights, so the whole row is often not computed. All rows of a
    workspace share the memory of their weights. A row keeps its sums; where another row took the memory in
    between, it computes the weights that it needs again.
    """

    def __init__(self, logits: Row, peaks: Row, temperature: float, workspace: Workspace) -> None:
        """
        Args:
            logits: shape [size], any float dtype, which the weights keep; read when a weight is needed.
            peaks: the largest logit of each block of them, from `peaks_of`; the largest is finite.
            temperature: above 0.
            workspace: lends the weights their memory.
        """
        self.size = len(logits)
        self._logits, self._peaks, self._temperature = logits, peaks, temperature
        self._largest = peaks.max()
        self._workspace, self._mark = (
            workspace,
            object(),
        )  # the mark of the shared memory while it is this row's

    @property
    def _weights(self) -> Row:  # type: ignore[override]
        weights = self._workspace.array("weights", self.size, self._logits.dtype)
        if not self._holds_memory():
            self._workspace.mark = None
            exponentials(self._logits, self._largest, self._temperature, weights)
            self._workspace.mark = self._mark
        return weights

    def _holds_memory(self) -> bool:
        """Whether the memory that rows share has the weights of this row."""
        return self._workspace.mark is self._mark

    @cached_property
    def _least(self) -> float:
        """The sum of the weights near the largest, or 0 if many are; all others sum to less than _FAR."""
        floor = self._largest - math.log(self.size / _FAR) * self._temperature
        total, left = 0.0, self.size // _FEW
        for block in (self._peaks >= floor).nonzero()[0].tolist():
            logits = self._logits[block * WIDE : (block + 1) * WIDE]
            near = logits >= floor
            left -= np.count_nonzero(near)
            if left < 0:
                return 0.0
            few = logits[near.nonzero()[0]]
            total += _few_sum(exponentials(few, self._largest, self._temperature, few))
        return total

    def shares(self, ids: Ids) -> Row:
        if self._holds_memory():
            return super().shares(ids)
        few = self._logits.take(ids)
        return exponentials(few, self._largest, self._temperature, few)

    def mass_bounds(self, ids: Ids) -> tuple[float, float]:
        if "_blocks" in self.__dict__:
            return super().mass_bounds(ids)
        share = _few_sum(self.shares(ids))
        least = self._least if share >= _LIKELY else 0.0
        low = share / (least + _FAR) / _MARGIN if least else 0.0
        high = share / max(least, 1.0) * _MARGIN  # the largest weight is 1
        if high >= 1.0 and len(ids) == 1 and self.size >= 2 * _BLOCK:
            # One id has less than all mass if another block has some that is no rounding.
            start = 0 if ids[0] >= _BLOCK else _BLOCK
            others = self.shares(np.arange(start, start + _BLOCK)).sum()
            high = min(high, 1.0 - 1e-13) if others >= 1e-12 else high
        return low, high

    def without(self, *ids: Ids) -> Categorical:
        weights = self._weights
        self._workspace.mark = None  # they are no longer those of this row
        for each in ids:
            weights[each] = 0.0
        return Categorical(weights)


def peaks_of(logits: Row) -> Row:
    """The largest logit of each block of a row, shape [size]; the last block is shorter.

    A NaN in the row is the largest of its block.
    """
    whole = len(logits) // WIDE
    peaks = np.empty(-(-len(logits) // WIDE), logits.dtype)
    np.maximum.reduce(logits[: whole * WIDE].reshape(whole, WIDE), axis=1, out=peaks[:whole])
    if whole < len(peaks):
        peaks[-1] = logits[whole * WIDE :].max()
    return peaks


def exponentials(logits: Row, largest: float, temperature: float, out: Row) -> Row:
    """exp((logit - largest) / temperature) of each logit, written to `out`, which may be the logits."""
    with np.errstate(over="ignore"):  # what is far below the largest has no weight
        np.subtract(logits, largest, out=out)
        if temperature != 1.0:
            # A divisor below the dtype's range would be 0: then only the ties of the largest logit are left.
            out /= max(temperature, float(np.finfo(out.dtype).tiny))
    return np.exp(out, out=out)


def _few_sum(weights: Row) -> float:
    """The sum of a few weights in float64."""
    return float(weights[0]) if len(weights) == 1 else float(weights.sum(dtype=np.float64))


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
