"""The averaged learner: its adapter is the average of the steps, and a restart changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.errors import SettingError
from omnidraft.learning.averaged import AveragedLearner
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.learner import Learned
from omnidraft.runtime.models.adapter import Adapter
from support.adapters import adapter


class Walk:
    """A learner that needs no answers: after step n its adapter is the one of seed n."""

    def __init__(self, rank: int = 2) -> None:
        self.rate, self.rank, self.step = 1e-3, rank, 0

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        self.step += 1
        return Learned(self.step, 1.0, 1.0, skipped=self.step == 3)

    def adapter(self) -> Adapter:
        return adapter(self.rank, seed=self.step)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"step": np.array([self.step], np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.step = int(state["step"][0])


def test_going_on_is_as_if_there_had_been_no_break() -> None:
    whole, first, second = AveragedLearner(Walk()), AveragedLearner(Walk()), AveragedLearner(Walk())
    for _ in range(7):
        whole.learn([])
    for _ in range(4):
        first.learn([])
    second.restore(first.state())
    for _ in range(3):
        second.learn([])
    assert second.adapter().digest == whole.adapter().digest


def test_a_state_of_another_rank_changes_nothing() -> None:
    one, other = AveragedLearner(Walk(rank=2)), AveragedLearner(Walk(rank=1))
    one.learn([])
    before = other.adapter().digest
    with pytest.raises(SettingError, match="LoRA rank that it was begun with"):
        other.restore(one.state())
    with pytest.raises(SettingError, match="LoRA rank that it was begun with"):
        other.restore(Walk().state())
    assert other.adapter().digest == before
    one.rate = 5.0
    assert one.inner.rate == one.rate == 5.0
