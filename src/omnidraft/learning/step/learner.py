"""Interface of a learner; implemented by OrtLearner and AveragedLearner."""

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
    """The result of one training step.

    Attributes:
        skipped: whether the loss or the gradient was not finite, so that nothing changed.
    """

    step: int
    loss: float
    norm: float
    skipped: bool


class Learner(Protocol):
    """A drafter's LoRA tensors in training.

    Attributes:
        rate: learning rate of the next steps; may be set, and is not part of `state()`.
    """

    rate: float

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """Do one step on a batch of at least one response."""

    def adapter(self) -> Adapter:
        """The adapter learned so far, for a session."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """The whole state (tensors, moments, counts) as copies, by name, in data types of safetensors."""

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a `state()`; the next steps are those that would have followed it.

        Raises:
            SettingError: the state is of another learner; nothing changed.
        """
