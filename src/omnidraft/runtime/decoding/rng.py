"""Randomness as an argument: SplitMix64, the same numbers in every language.

Everything random in the runtime asks a `RandomSource`. A test can replace it by an enumerator, which visits
every outcome of the real code with its exact probability.
"""

import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.distribution import Categorical, Distribution, Ids

_MASK = (1 << 64) - 1


class RandomSource(Protocol):
    """The source of all randomness of a round."""

    def bernoulli(self, probability: float) -> bool:
        """True with the given probability (values >= 1 always, <= 0 never)."""

    def categorical(self, weights: npt.NDArray[np.float64]) -> int:
        """An index drawn in proportion to non-negative weights, shape [n]."""

    def sample(self, distribution: Distribution, among: Ids | None = None) -> int:
        """A token drawn from a distribution, or from the distribution restricted to the ids `among`."""

    def rejection_sample(self, distribution: Distribution, share: Callable[[int], float]) -> int | None:
        """A token drawn from a distribution and kept with probability `share(token)`, or None."""


class SplitMix64:
    """A `RandomSource` on Steele, Lea and Flood's generator (OOPSLA 2014): 64 bits of state, no tables.

    Each question takes one uniform number, in the order asked. A question with a single answer takes none, so
    greedy decoding never changes the state.
    """

    def __init__(self, seed: int) -> None:
        """
        Args:
            seed: the first state, modulo 2^64.
        """
        self.state = seed & _MASK

    def next_u64(self) -> int:
        """The next 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def uniform(self) -> float:
        """A float64 in [0, 1) from the upper 53 bits; the same number in every language."""
        return (self.next_u64() >> 11) * 2.0**-53

    def bernoulli(self, probability: float) -> bool:
        return probability >= 1.0 or (probability > 0.0 and self.uniform() < probability)

    def categorical(self, weights: npt.NDArray[np.float64]) -> int:
        return Categorical(weights).draw(self.uniform())

    def sample(self, distribution: Distribution, among: Ids | None = None) -> int:
        if among is not None and len(among) == 1:
            return int(among[0])
        return distribution.draw(0.0 if distribution.is_certain else self.uniform(), among)

    def rejection_sample(self, distribution: Distribution, share: Callable[[int], float]) -> int | None:
        token = self.sample(distribution)
        return token if self.bernoulli(share(token)) else None


def fresh_seed() -> int:
    """A seed from the operating system, for a generation without a given seed.

    It has 53 bits, so that every reader of JSON gets the same number.
    """
    return int.from_bytes(os.urandom(8), "little") >> 11
