"""Speed-up along a learning curve: a busy machine does not move it; the prediction follows the counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidraft.commands.adapt.curve_speed import gain, median_interval
from omnidraft.learning.online.curve import Curve, CurveLine, costs_of, read_curve, steady_seconds

PLAIN, ROUND, FIRST = 2e-3, 3e-3, 5e-3  # seconds: of a plain token, of a round with four draft tokens


def line(number: int, tokens: int, passes: int, plain: float = PLAIN, slow: float = 1.0) -> CurveLine:
    """An answer on a machine that is `slow` times slower."""
    costs = ((4, passes - 1, ROUND * slow),)
    seconds = steady_seconds(FIRST * slow, costs)
    return CurveLine(number, number, "a", tokens, passes, 4 * passes, tokens - passes, seconds, plain, 0, 0,
                first=FIRST * slow, costs=costs)  # fmt: skip


def lines(slow_every: int = 0) -> list[CurveLine]:
    """80 answers in intervals of four; each interval measured plain decoding a little differently."""
    answers = []
    for i in range(80):
        slow = 7.0 if slow_every and i // 4 % slow_every == 0 else 1.0
        answers.append(line(i + 1, 40, 20, PLAIN * (1 + 1e-3 * (i // 4 % 5)), slow))
    return answers


def test_a_busy_machine_moves_neither_the_median_nor_the_prediction() -> None:
    quiet, busy = lines(), lines(slow_every=4)
    for speed in (gain(quiet, quiet), gain(busy, busy)):
        assert speed.measured == pytest.approx(40 * PLAIN / (FIRST + 19 * ROUND), rel=0.01)
        assert speed.predicted == pytest.approx(40 * PLAIN / (FIRST + 19 * ROUND), rel=0.01)
    calm = gain(quiet, quiet)
    assert calm.low is not None and calm.high is not None and calm.measured is not None
    assert calm.low <= calm.measured <= calm.high < 1.01 * calm.low


def test_the_prediction_of_a_part_takes_its_counts_and_the_whole_curve_s_costs() -> None:
    slow_start = [line(1, 30, 20, slow=5.0), *(line(i, 60, 20) for i in range(2, 9))]
    speed = gain(slow_start[:1], slow_start)
    assert speed.measured == pytest.approx(30 * PLAIN / (5 * (FIRST + 19 * ROUND)))
    assert speed.predicted == pytest.approx(30 * PLAIN / (FIRST + 19 * ROUND))
    assert (speed.low, speed.high) == (None, None)


def test_what_is_not_known_is_not_said() -> None:
    bare = [replace(line(1, 30, 20), plain=None)]
    assert gain(bare, bare).measured is None and gain(bare, bare).predicted is None
    old = [replace(line(1, 30, 20), first=0.0, costs=())]  # of a curve without costs
    assert gain(old, old).measured is not None and gain(old, old).predicted is None
    assert gain([], []).measured is None


def test_rounds_cost_by_their_length() -> None:
    rounds = [(4, 9.0), (4, 2.0), (0, 1.0), (4, 2.0), (0, 1.0), (4, 50.0), (4, 2.0), (4, 2.0)]
    first, costs = costs_of(rounds)
    assert (first, costs) == (9.0, ((0, 2, 1.0), (4, 5, 2.0)))
    assert steady_seconds(first, costs) == 9.0 + 2 * 1.0 + 5 * 2.0
    assert costs_of([(4, 3.0)]) == (3.0, ())


def test_the_interval_of_a_median_covers_it() -> None:
    assert median_interval([1.0] * 5) == (None, None)
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    draw = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        low, high = median_interval(draw.lognormal(size=21).tolist())
        inside += low is not None and high is not None and low <= 1.0 <= high
    assert 0.95 <= inside / 2000 <= 0.99


def test_a_curve_keeps_the_costs_and_reads_one_without(tmp_path: Path) -> None:
    file = tmp_path / "curve.jsonl"
    curve = Curve(file, 0)
    curve.append(line(1, 30, 20))
    curve.close()
    assert read_curve(file) == [line(1, 30, 20)]
    value = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in value.items() if k not in ("first", "costs")}) + "\n")
    assert read_curve(file) == [replace(line(1, 30, 20), first=0.0, costs=())]
