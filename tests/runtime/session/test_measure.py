"""Measured costs of a device, with a clock that only the models advance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.session.decode import DecoderModels
from omnidraft.runtime.session.measure import measure_costs, measure_within
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.toy import DRAFT, TARGET, ContextModel, toy_map
from support.toy_round import PROMPT


@dataclass
class Clock:
    """Seconds that models took; in a busy interval a pass takes five times as long."""

    busy: tuple[float, float] = (0.0, 0.0)
    calm: float = 0.0  # seconds without the busy interval
    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def take(self, seconds: float) -> None:
        slow = self.busy[0] <= self.calm < self.busy[1]
        self.calm += seconds
        self.now += seconds * (5.0 if slow else 1.0)


class Timed(ContextModel):
    """A model whose passes take time: `each` for a pass, and `token` for each of its tokens."""

    def __init__(self, clock: Clock, seed: int, size: int, each: float, token: float, length: int) -> None:
        super().__init__(seed, size, max_length=length)
        self._clock, self._each, self._token = clock, each, token

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        self._clock.take(self._each + self._token * len(tokens))
        return super().score(tokens, num_logits)


def models_of(clock: Clock, length: int = 256) -> DecoderModels:
    """A target that takes 1 s and 0.1 s a token, and a drafter that takes 0.2 s and 0.01 s."""
    target = Timed(clock, 0, len(TARGET), 1.0, 0.1, length)
    drafter = Drafter(Timed(clock, 1, len(DRAFT), 0.2, 0.01, 256), (7,))
    return DecoderModels(target, drafter, NgramCache(toy_map()), clock)


def measured(clock: Clock, length: int = 256) -> Costs:
    """Costs of a target that takes 1 s and 0.1 s a token, and a drafter that takes 0.2 s and 0.01 s."""
    models = models_of(clock, length)
    costs = measure_costs(models, PROMPT, PROMPT)
    assert len(models.cache) == 0, "the measurement must not change the cache"
    return costs


def test_costs_are_what_the_models_take() -> None:
    costs = measured(Clock())
    assert costs.target == pytest.approx([1.0 + 0.1 * n for n in range(1, 10)])
    assert 0.21 <= costs.draft <= 0.23, "three passes a round, the first over one or two tokens"
    assert costs.host == 0.0, "the host's work does not advance the clock"


@pytest.mark.parametrize("quarter", range(4))
def test_a_busy_stretch_changes_no_figure(quarter: int) -> None:
    calm = Clock()
    expected = measured(calm)
    costs = measured(Clock((quarter * calm.now / 4, (quarter + 1) * calm.now / 4)))
    assert costs.target == pytest.approx(expected.target)
    assert costs.draft == pytest.approx(expected.draft, rel=0.05)


@pytest.mark.parametrize("length", [13, 20, 40])
def test_a_short_context_gives_fewer_rounds_and_figures_all_the_same(length: int) -> None:
    costs = measured(Clock(), length)
    assert costs.target[0] == pytest.approx(1.1)
    assert len(costs.target) == 9
    assert costs.draft > 0.0


@pytest.mark.parametrize("seconds", [15.0, 20.0, 30.0, 60.0, 100.0, 1000.0])
def test_a_measurement_in_bounded_time_has_the_same_figures(seconds: float) -> None:
    """However few passes fit the time; those that are missing lie on a line."""
    clock = Clock()
    costs = measure_within(models_of(clock), PROMPT, PROMPT, seconds)
    assert clock.now <= seconds
    assert costs is not None
    assert costs.target == pytest.approx([1.0 + 0.1 * n for n in range(1, len(costs.target) + 1)])
    assert len(costs.target) >= 5
    assert costs.draft == pytest.approx(0.22, rel=0.06)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.0, 4.0])
def test_a_machine_that_is_too_slow_has_no_figures(seconds: float) -> None:
    clock = Clock()
    assert measure_within(models_of(clock), PROMPT, PROMPT, seconds) is None
    assert clock.now <= seconds + 1.0 + 0.1 * len(PROMPT), "the first pass is finished"
