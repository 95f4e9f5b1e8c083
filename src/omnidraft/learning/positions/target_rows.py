"""The target's distributions along a response, whole or cut to the most likely tokens; numpy only.

A cut row has the mass of the ids that it does not list, so that no objective takes a missing token as
impossible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError

Ids = npt.NDArray[np.int32]
Probabilities = npt.NDArray[np.float64]
_ROUNDING = 1e-3  # a row of float16 or float32 probabilities sums to 1 within this


@dataclass(frozen=True)
class TargetRows:
    """Row i is the target's distribution before its token i, at temperature 1.

    Attributes:
        ids: distinct target ids of each row, shape [n, m]; -1 is padding.
        rest: probability of all ids that a row does not list, shape [n]; 0 where it lists every id.
    """

    ids: Ids
    probabilities: Probabilities
    rest: Probabilities

    def __post_init__(self) -> None:
        if (
            self.ids.shape != self.probabilities.shape
            or self.ids.ndim != 2
            or self.rest.shape != (len(self),)
        ):
            raise SettingError(
                f"target rows have ids {self.ids.shape}, probabilities "
                f"{self.probabilities.shape} and rest {self.rest.shape}",
                "give [n, m], [n, m] and [n]",
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def finite(self) -> bool:
        """Whether every row is a distribution: finite, not negative, of sum 1."""
        if not (np.isfinite(self.probabilities).all() and np.isfinite(self.rest).all()):
            return False
        sums = self.probabilities.sum(axis=1) + self.rest
        return bool((self.probabilities >= 0).all() and (np.abs(sums - 1.0) < _ROUNDING).all())

    def listed(self, row: int) -> tuple[npt.NDArray[np.integer], Probabilities]:
        """The ids of a row and their probabilities, without padding."""
        known = self.ids[row] >= 0
        return self.ids[row][known], self.probabilities[row][known]
