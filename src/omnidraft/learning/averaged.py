"""A learner whose adapter is a running average over its steps.

At the constant rate of learning without an end, the adapter of the last step is noisy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.learner import Learned, Learner
from omnidraft.runtime.bundle.lora_sites import a_name, b_name
from omnidraft.runtime.models.adapter import Adapter, Floats

KEPT = defaults.LEARNER_MEAN_KEPT  # share of the average that a step keeps at most; less in the first
_PREFIX, _STEPS = "average.", "average_steps"


class RunningMean:
    """Tensors averaged over steps.

    Attributes:
        tensors: by name; empty before the first step.
    """

    def __init__(self, tensors: Mapping[str, Floats] | None = None, steps: int = 0) -> None:
        self.tensors, self.steps = dict(tensors or {}), steps

    def add(self, latest: Mapping[str, Floats]) -> None:
        """Add the tensors of a step."""
        share = np.float32(min(KEPT, self.steps / (self.steps + 9.0)))
        for name, tensor in latest.items():
            before = self.tensors.get(name)
            self.tensors[name] = tensor if before is None else before * share + tensor * (1 - share)
        self.steps += 1


class AveragedLearner:
    """Wraps a learner and averages its tensors after each step."""

    def __init__(self, inner: Learner) -> None:
        self.inner = inner
        self._mean = RunningMean()

    @property
    def rate(self) -> float:
        """Learning rate of the wrapped learner."""
        return self.inner.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self.inner.rate = rate

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """Do one step and add its tensors to the average.

        Raises:
            AdapterError: `non_finite`, the step gave a value that is not finite.
        """
        step = self.inner.learn(responses)
        if not step.skipped:
            self._mean.add(_tensors(self.inner.adapter()))
        return step

    def adapter(self) -> Adapter:
        """The average; before the first step, the learner's initial adapter."""
        latest = self.inner.adapter()
        mean = self._mean.tensors
        if not mean:
            return latest
        sites = {s: (mean[a_name(s)], mean[b_name(s)]) for s in latest.tensors}
        return replace(latest, tensors=sites)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """The state of the learner, the average and its steps."""
        average = {_PREFIX + name: tensor.copy() for name, tensor in self._mean.tensors.items()}
        return {**self.inner.state(), **average, _STEPS: np.array([self._mean.steps], np.int64)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        expected = {_PREFIX + name: t.shape for name, t in _tensors(self.inner.adapter()).items()}
        averaged = {name: a.shape for name, a in state.items() if name.startswith(_PREFIX)}
        if _STEPS not in state or (averaged and averaged != expected):
            raise SettingError(
                f"the state of a learner averages {len(averaged)} tensors and this learner has "
                f"{len(expected)} others",
                "go on with the LoRA rank that it was begun with",
            )
        self.inner.restore({n: a for n, a in state.items() if not n.startswith(_PREFIX) and n != _STEPS})
        average = {name.removeprefix(_PREFIX): np.array(state[name], np.float32) for name in averaged}
        self._mean = RunningMean(average, int(state[_STEPS][0]))


def _tensors(adapter: Adapter) -> dict[str, Floats]:
    return {
        name: tensor
        for site, pair in adapter.tensors.items()
        for name, tensor in zip((a_name(site), b_name(site)), pair, strict=True)
    }
