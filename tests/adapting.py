"""Adaptations of a starter bundle in seconds: short answers, small adapters, learners that go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conftest import STARTERS
from omnidraft.commands.word_problems import word_problems
from omnidraft.runtime.adapter import Adapter
from omnidraft.runtime.learner.adaptation import Adaptation, AdaptOptions
from omnidraft.runtime.learner.curve import Line
from omnidraft.runtime.learner.learner import Learner
from omnidraft.runtime.request import Request
from omnidraft.runtime.weights import Weights
from omnidraft.training.torch_learner import TorchLearner
from omnidraft.training.trainer_options import TrainerOptions

DRAFTER = str(STARTERS / "drafter")
REQUEST = Request(max_new_tokens=24, num_draft_tokens=4, seed=0)
SMALL = AdaptOptions(interval=4, passes=1, replayed=2, memory=12)
PROMPTS = word_problems(64)


def learner(weights: Weights, *, rate: float = 3e-3, rank: int = 8) -> Learner:
    """LoRA of the starter drafter."""
    options = TrainerOptions(learning_rate=rate, lora_rank=rank, weight_decay=0.0)
    return TorchLearner(DRAFTER, weights, options)


def begin(
    place: Path, weights: Weights, options: AdaptOptions = SMALL, make: Callable[[Weights], Learner] = learner
) -> Adaptation:
    """An adaptation to one target."""
    found = Adaptation(place, make, options, prompts="the same")
    found.switch(weights)
    return found


def answers(adaptation: Adaptation, count: int, request: Request = REQUEST) -> list[Line]:
    """The next prompts answered."""
    return [adaptation.answer(PROMPTS[adaptation.position % len(PROMPTS)], request) for _ in range(count)]


class Spoiled:
    """A learner that does as it should, and hands out adapters that it spoils from some step on.

    Whoever restores it has its own adapter; it is spoiled again by the next step, unless it is `curable`.
    """

    def __init__(
        self, inner: Learner, spoil: Callable[[Adapter], Adapter], first: int, *, curable: bool = True
    ) -> None:
        self.inner, self.spoil, self.first, self.curable = inner, spoil, first, curable
        self.learned, self.spoils = 0, False

    @property
    def rate(self) -> float:
        return self.inner.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self.inner.rate = rate

    def learn(self, responses: Any) -> Any:
        self.learned += 1
        self.spoils = self.learned >= self.first
        return self.inner.learn(responses)

    def adapter(self) -> Adapter:
        found = self.inner.adapter()
        return self.spoil(found) if self.spoils else found

    def state(self) -> Any:
        return self.inner.state()

    def restore(self, state: Any) -> None:
        self.inner.restore(state)
        if self.spoils and self.curable:
            self.first = 1 << 30
        self.spoils = False


def changed(adapter: Adapter, change: Callable[[np.ndarray], np.ndarray]) -> Adapter:
    """An adapter with every B changed."""
    return replace(adapter, tensors={s: (a, change(b)) for s, (a, b) in adapter.tensors.items()})
