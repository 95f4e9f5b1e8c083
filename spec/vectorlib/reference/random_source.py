"""Random numbers and the questions that they answer: spec/04-speculation.md, section 1."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum

MASK = (1 << 64) - 1
TINY = 1e-12  # a probability below this may be a rounded 0
ROUNDING = 1e-6  # of a difference of numbers near 1, in float32
LEAST_RESIDUAL = 0.01  # of a smaller difference of probabilities float32 keeps too few digits


class TooClose(Exception):  # noqa: N818 # the case is badly chosen; the rules did not fail
    """A uniform lies so near an edge that two languages may round it to different sides."""


def splitmix64(seed: int) -> Iterator[int]:
    """The 64-bit numbers of Steele, Lea and Flood's generator."""
    state = seed & MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        yield z ^ (z >> 31)


def uniforms_of(seed: int) -> Iterator[float]:
    """The same numbers as uniforms in [0, 1): their upper 53 bits, as a fraction."""
    return ((bits >> 11) / 9007199254740992 for bits in splitmix64(seed))


@dataclass(frozen=True)
class Distribution:
    """Weights of the ids 0, 1, ...; `certain` where temperature 0 left one id."""

    weights: tuple[float, ...]
    certain: bool = False

    def probability(self, token: int) -> float:
        return self.weights[token] / fsum(self.weights)

    def mass(self, tokens: Sequence[int]) -> float:
        return fsum(self.weights[t] for t in tokens) / fsum(self.weights)


class RandomSource:
    """Answers the questions of a round from a stream of uniforms; a certain answer takes no uniform.

    Attributes:
        used: the uniforms that were taken, in order.
        drew_index: whether `categorical` was called, which only the full residual does.
    """

    def __init__(self, uniforms: Iterator[float], margin: float = 1e-5) -> None:
        self._uniforms, self._margin = uniforms, margin
        self.used: list[float] = []
        self.drew_index = False

    def _next(self) -> float:
        self.used.append(next(self._uniforms))
        return self.used[-1]

    def check_ratio(self, ratio: float) -> float:
        """The ratio itself; raises TooClose where rounding may move it from one side of 1 to the other."""
        if 0 < abs(1.0 - ratio) < 0.1 * self._margin:
            raise TooClose(f"a ratio of {ratio}")
        return ratio

    def check_difference(self, difference: float) -> float:
        """The difference of two numbers near 1; raises TooClose where it may be a rounded 0."""
        if 0 < abs(difference) < ROUNDING:
            raise TooClose(f"a difference of {difference}")
        return difference

    def check_residual(self, together: float, options: int) -> None:
        """Raises TooClose where something is drawn by a small difference of large numbers."""
        if options > 1 and 0 < together < LEAST_RESIDUAL:
            raise TooClose(f"a residual of {together}")

    def bernoulli(self, probability: float) -> bool:
        """True with the given probability; takes no uniform for a probability <= 0 or >= 1."""
        if 0 < abs(probability) < TINY or 0 < abs(1.0 - probability) < ROUNDING:
            raise TooClose(f"a probability of {probability}")
        if not 0.0 < probability < 1.0:
            return probability >= 1.0
        uniform = self._next()
        if abs(uniform - probability) < self._margin:
            raise TooClose(f"{uniform} against {probability}")
        return uniform < probability

    def categorical(self, weights: Sequence[float]) -> int:
        """An index drawn in proportion to the weights; always takes a uniform."""
        self.drew_index = True
        return inverse_cdf(weights, self._next(), self._margin)

    def sample(self, distribution: Distribution, among: Sequence[int] | None = None) -> int:
        """A token of a distribution, or of the ids in `among`, in their order; one id takes no uniform."""
        if among is not None and len(among) == 1:
            return among[0]
        if distribution.certain:
            return distribution.weights.index(max(distribution.weights))
        among = range(len(distribution.weights)) if among is None else among
        return among[inverse_cdf([distribution.weights[t] for t in among], self._next(), self._margin)]

    def rejection_sample(self, distribution: Distribution, share: Callable[[int], float]) -> int | None:
        """A token of a distribution, accepted with probability `share(token)`; None if it is rejected."""
        token = self.sample(distribution)
        return token if self.bernoulli(share(token)) else None


def inverse_cdf(weights: Sequence[float], uniform: float, margin: float = 0.0) -> int:
    """The first index whose cumulative weight exceeds uniform x total."""
    total = fsum(weights)
    threshold, cumulative, index = uniform * total, 0.0, None
    for i, weight in enumerate(weights):
        cumulative += weight
        is_edge = weight and i < len(weights) - 1 and cumulative < total
        if is_edge and abs(cumulative - threshold) < margin * total:
            raise TooClose(f"{uniform} among {weights}")
        if index is None and cumulative > threshold:
            index = i
    assert index is not None, "uniform is below 1 and some weight is positive"
    return index
