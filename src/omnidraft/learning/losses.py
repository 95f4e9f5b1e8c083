"""What the losses of a run tell: their mean, and of a long one the means of its beginning and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

COMPARED = 10  # steps at either end, at least: one batch's loss tells more of its texts than of the drafter
ENOUGH = 4 * COMPARED  # steps from which on the two ends are compared


@dataclass(frozen=True)
class Losses:
    """Means over steps whose loss was finite.

    Attributes:
        mean: over all; None where there was none.
        first, last: over the first and the last `compared` steps; None where there were fewer than `ENOUGH`.
        compared: a tenth of the steps, `COMPARED` at least; 0 where nothing is compared.
    """

    mean: float | None
    first: float | None
    last: float | None
    compared: int

    def __str__(self) -> str:
        if self.first is not None and self.last is not None:
            n = self.compared
            return f"mean loss {self.first:.3f} in the first {n} steps and {self.last:.3f} in the last {n}"
        return "no finite loss" if self.mean is None else f"mean loss {self.mean:.3f}"


def losses_of(losses: Sequence[float]) -> Losses:
    """Of the loss of each step."""
    finite = [loss for loss in losses if isfinite(loss)]
    mean = sum(finite) / len(finite) if finite else None
    if len(finite) < ENOUGH:
        return Losses(mean, None, None, 0)
    compared = max(COMPARED, len(finite) // 10)
    first, last = (sum(part) / compared for part in (finite[:compared], finite[-compared:]))
    return Losses(mean, first, last, compared)
