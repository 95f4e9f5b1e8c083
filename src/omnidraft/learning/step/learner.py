"""What whoever adapts a drafter asks of whatever does the arithmetic: torch, or a graph in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.runtime.models.adapter import Adapter


@dataclass(frozen=True)
class Learned:
    """One training step.

    Attributes:
        step: how many there were, with this one. loss: of the batch.
        terms: mean of each term of the loss, by name; `head` among them where a head is trained.
        norm: of the gradient, before it was clipped.
        skipped: whether the loss or the gradient was not finite, so that nothing changed.
    """

    step: int
    loss: float
    terms: Mapping[str, float]
    norm: float
    skipped: bool


class Learner(Protocol):
    """A drafter's LoRA tensors and head in training.

    Attributes:
        rate: the learning rate of the coming steps, which may be set; no part of `state()`.
    """

    rate: float

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """One step on one batch of at least one response."""

    def adapter(self) -> Adapter:
        """What was learned so far, as a session takes it."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """All that going on needs (tensors, moments, counts), by name, as safetensors can hold it."""

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a `state()` as if there had been no break.

        Raises:
            SettingError: it is of another learner; nothing was taken over.
        """
