"""The guard: chance does not roll an adapter back, and every kind of worse adapter does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from omnidraft.learning.online.guard import Guard

Rng = np.random.Generator


def answers(rng: Rng, count: int, mean: float, tokens: int = 96) -> list[tuple[int, int]]:
    """Answers whose tokens per target pass vary as in measurements: by a seventh of their mean."""
    counts = []
    for _ in range(count):
        level = max(1.0, float(rng.normal(mean, mean / 7)))
        counts.append((tokens, max(1, round(tokens / level))))
    return counts


def run(guard: Guard, rng: Rng, means: list[float]) -> list[str]:
    """Verdicts over intervals of 8 answers with these means."""
    verdicts: list[str] = []
    for mean in means:
        for answer in answers(rng, 8, mean):
            guard.observe(*answer)
        verdicts.append(guard.judge())
    return verdicts


def test_honest_noise_is_not_rolled_back() -> None:
    """100 adaptations of 50 intervals without any change: 5,000 verdicts."""
    worse = sum(run(Guard(), np.random.default_rng(seed), [1.9] * 50).count("worse") for seed in range(100))
    assert worse <= 10  # 0.2 %


def test_learning_is_good() -> None:
    rising = [1.5 + 0.02 * i for i in range(40)]
    runs = [run(Guard(), np.random.default_rng(seed), rising) for seed in range(20)]
    assert sum(verdicts.count("worse") for verdicts in runs) <= 2  # of 800
    assert sum(verdicts.count("good") for verdicts in runs) >= 20 * 18  # about every second time


@pytest.mark.parametrize(("after", "within"), [(1.0, 1), (1.3, 2), (1.5, 4)])
def test_a_fall_is_found(after: float, within: int) -> None:
    verdicts = 0
    for seed in range(40):
        rng, guard = np.random.default_rng(seed), Guard()
        run(guard, rng, [1.9] * 6)
        verdicts += "worse" in run(guard, rng, [after] * within)
    assert verdicts >= 32


def test_a_restored_guard_judges_the_same() -> None:
    first, rng = Guard(), np.random.default_rng(3)
    run(first, rng, [1.9] * 5)
    second = Guard()
    second.restore(json.loads(json.dumps(first.state())))
    assert second.state() == first.state()
    again = np.random.default_rng(4), np.random.default_rng(4)
    levels = [1.9, 1.8, 1.6, 1.5, 1.4]
    assert run(first, again[0], levels) == run(second, again[1], levels)


@pytest.mark.parametrize(
    "state",
    [{}, {"reference": [], "current": 5}, {"reference": [[1]], "current": []},
     {"reference": [], "current": [[0, 1]]}, {"reference": [[3, 1.5]], "current": []}],
)  # fmt: skip
def test_a_state_that_is_none_changes_nothing(state: dict[str, object]) -> None:
    guard = Guard()
    guard.observe(4, 2)
    before = guard.state()
    with pytest.raises(ValueError, match="is not a"):
        guard.restore(state)
    assert guard.state() == before
