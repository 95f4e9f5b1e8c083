"""The guard: chance does not roll an adapter back, and every kind of worse adapter does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from omnidraft.learning.online.guard import Guard, GuardOptions, is_worse, ratio
from omnidraft.learning.online.interval import roll_back
from omnidraft.learning.online.profiles import AdaptationProgress
from omnidraft.learning.student_t import student_t

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


def test_many_small_steps_down_are_found() -> None:
    verdicts = 0
    for seed in range(40):
        rng, guard = np.random.default_rng(seed), Guard()
        run(guard, rng, [1.9] * 6)
        verdicts += "worse" in run(guard, rng, [1.9 - 0.05 * i for i in range(16)])
    assert verdicts >= 36


def test_too_few_answers_say_nothing() -> None:
    guard = Guard(GuardOptions(least=8))
    for _ in range(8):
        guard.observe(90, 45)
    assert guard.judge() == "good"
    for _ in range(7):
        guard.observe(90, 90)
    assert guard.judge() == "unsure"
    guard.observe(90, 90)
    assert guard.judge() == "worse"


def test_alike_answers_have_no_noise() -> None:
    """Where nothing scatters any fall is sure, and one too small to matter still is none."""
    alike = [(100, 50)] * 8
    assert is_worse(alike, [(100, 52)] * 8, fall=0.02) and not is_worse(alike, [(100, 51)] * 8, fall=0.02)
    assert not is_worse(alike, alike) and not is_worse(alike, [(100, 49)] * 8)


def test_it_is_welchs_test() -> None:
    """Of answers with as many passes each: worse as far as Student's quantile is below Welch's t."""
    rng = np.random.default_rng(5)
    before, after = rng.integers(80, 120, 9), rng.integers(60, 100, 12)
    x, y = before / 40, after / 40
    a, b = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    t = (x.mean() - y.mean()) / np.sqrt(a + b)
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    low, high = 0.0, 20.0  # deviations whose quantile is t, by halving
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if student_t(middle, freedom) < t else (low, middle)
    assert 1.0 < low < 10.0
    first, second = ([(int(n), 40) for n in tokens] for tokens in (before, after))
    assert is_worse(first, second, low - 1e-6) and not is_worse(first, second, low + 1e-6)


def test_forgetting_takes_the_next_answers_for_what_is_to_be_expected() -> None:
    rng, guard = np.random.default_rng(0), Guard()
    assert run(guard, rng, [2.0, 2.0, 1.0])[-1] == "worse"
    guard.forget()
    assert run(guard, rng, [1.0, 1.0, 1.0]).count("worse") == 0


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


def test_the_quantile_is_students() -> None:
    for freedom, exact in ((7, 4.5300), (14, 3.6358), (30, 3.2703), (60, 3.1299)):  # scipy's
        assert student_t(3.0, freedom) == pytest.approx(exact, rel=0.006)
    assert ratio([(30, 10), (10, 10)]) == 2.0  # of sums, not a mean of ratios


def test_after_a_roll_back_the_good_adapter_says_what_is_to_be_expected() -> None:
    guard, progress = Guard(), AdaptationProgress(version=3, good=1, learned=3, memory=[1, 2], pending=[3, 4])
    for tokens in (20, 10):
        guard.observe(tokens, 10)
    roll_back(progress, guard, 3)
    assert guard.state() == {"reference": [], "current": []}
    assert (progress.version, progress.good, progress.learned) == (1, 1, 3)
    assert (progress.rollbacks, progress.cooldown, progress.rate_scale) == (1, 1, 0.5)
    assert (progress.memory, progress.pending) == ([2, 3, 4], [])
