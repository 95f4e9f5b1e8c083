"""A summary of the losses of a run: their mean, and for a long run the means of its first and last steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

COMPARED = (
    10  # least steps at either end: the loss of one batch depends more on its texts than on the drafter
)
ENOUGH = 4 * COMPARED  # least steps of a run whose ends are compared


@dataclass(frozen=True)
class Losses:
    """Means over steps whose loss was finite.

    Attributes:
        mean: over all steps; None without steps.
        first: over the first `compared` steps; None for fewer than `ENOUGH` steps.
        last: over the last `compared` steps; None likewise.
        compared: a tenth of the steps, at least `COMPARED`; 0 where nothing is compared.
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
    """Summarise the losses of the steps, in order."""
    finite = [loss for loss in losses if isfinite(loss)]
    mean = sum(finite) / len(finite) if finite else None
    if len(finite) < ENOUGH:
        return Losses(mean, None, None, 0)
    compared = max(COMPARED, len(finite) // 10)
    first, last = (sum(part) / compared for part in (finite[:compared], finite[-compared:]))
    return Losses(mean, first, last, compared)
