"""How many tokens to propose, and from where: as many as pay, or none. No choice depends on a clock."""

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.draft_length import (
    MAX_DRAFT_TOKENS,
    DraftLength,
    FixedLength,
    MeasuredLength,
    Plan,
    RoundCounts,
)
from omnidraft.runtime.decoding.length_state import CLASSES, FIRST_SHARE, Costs, LengthState

CHEAP = Costs(target=(1.0, 1.01, 1.02, 1.03, 1.04), draft=0.02, host=0.01)  # a large target, a small drafter
EXPENSIVE = Costs(target=(1.0, 1.9, 2.8), draft=0.9, host=0.1)  # a draft token costs as much as a plain one
CONFIDENCE = 4  # class of all draft tokens
MERGING = Costs(target=(1.0, 1.05, 1.1, 1.15), draft=0.12, host=0.02)


def drawn(plan: Plan) -> tuple[int, int]:
    """Tokens of a draft, as the drafter proposes them, and those of which it sees the confidence."""
    for count in range(1, plan.count + 1):
        reach = plan.chances[CONFIDENCE] ** count
        if plan.worth and reach < plan.worth[count - 1]:
            return count - 1, count
        if count < plan.count and reach < plan.least[count - 1]:
            return count, count
    return plan.count, plan.count


def lengths(length: DraftLength, acceptance: float, rounds: int, seed: int = 0) -> list[int]:
    """Tokens drafted in rounds that accept each draft token with a probability.

    The drafter is always as confident.
    """
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        drafted, seen = drawn(length.next())
        accepted = min(int(np.argmin([*(rng.random(MAX_DRAFT_TOKENS) < acceptance), False])), drafted)
        length.record(RoundCounts([CONFIDENCE] * seen, min(drafted, accepted + 1), accepted, 1 + accepted))
        chosen.append(drafted)
    return chosen


def speed(costs: Costs, acceptance: float, count: int) -> float:
    """Expected tokens a second of a fixed draft length."""
    return sum(acceptance**j for j in range(count + 1)) / costs.round_seconds(count)


@pytest.mark.parametrize("count", [-1, MAX_DRAFT_TOKENS + 1])
def test_a_fixed_length_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(SettingError, match=rf"num_draft_tokens {count} is outside 0\.\.48; 4 is usual"):
        FixedLength(count)


@pytest.mark.parametrize("acceptance", [0.02, 0.6, 1.0])
def test_probes_of_a_hopeless_drafter_take_at_most_their_share_of_the_time(acceptance: float) -> None:
    """Whatever was measured before: the rounds until it is known to be hopeless are few."""
    costs = replace(EXPENSIVE, acceptance=acceptance)
    chosen = lengths(MeasuredLength(costs), 0.0, 3000)
    seconds = sum(costs.round_seconds(count) for count in chosen)
    assert seconds < (1.0 + FIRST_SHARE) * costs.round_seconds(0) * len(chosen)


@pytest.mark.parametrize("acceptance", [0.2, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("costs", [CHEAP, EXPENSIVE, Costs((1.0, 1.1, 1.2), 0.15, 0.02)])
def test_the_choice_is_nearly_the_best_fixed_one(costs: Costs, acceptance: float) -> None:
    chosen = lengths(MeasuredLength(costs), acceptance, 600)[200:]
    tokens = sum(sum(acceptance**j for j in range(c + 1)) for c in chosen)
    chosen_speed = tokens / sum(costs.round_seconds(c) for c in chosen)
    assert chosen_speed >= 0.95 * max(speed(costs, acceptance, count) for count in range(13))


def test_it_shortens_when_the_text_turns_hard_and_comes_back_when_it_turns_easy() -> None:
    length = MeasuredLength(CHEAP)
    assert min(lengths(length, 0.95, 100)[-20:]) >= 6
    hard = lengths(length, 0.0, 1000)[-300:]
    assert sum(map(CHEAP.round_seconds, hard)) < 1.01 * CHEAP.round_seconds(0) * len(hard)
    assert min(lengths(length, 0.95, 4000)[-50:]) >= 6


def test_it_comes_back_soon_where_rows_are_expensive() -> None:
    """Costs as those of SmolLM2 on two cores with AVX2: probes alone take more than 1000 rounds."""
    length = MeasuredLength(Costs((6.6, 7.9, 10.0, 11.6, 13.7), 0.65, 0.24))
    assert lengths(length, 0.0, 1000)[-20:].count(0) >= 18
    assert min(lengths(length, 0.95, 100)[-40:]) >= 1


def test_acceptance_never_exceeds_the_trials() -> None:
    """A session file is refused where it does."""
    rng, state = np.random.default_rng(0), LengthState()
    for _ in range(300):
        length = MeasuredLength(CHEAP, state, copies=True)
        for _ in range(int(rng.integers(1, 9))):
            accepted, agreed = int(rng.integers(0, 5)), int(rng.integers(0, 9))
            classes, match = rng.integers(0, CLASSES, 4).tolist(), int(rng.integers(0, 9))
            length.record(RoundCounts(classes, min(4, accepted + 1), accepted, 9, match, agreed))
        state.begin_text(0)
        for right, trials in ((state.accepted, state.evaluated), (state.agreed, state.compared)):
            assert all(0.0 <= a <= b for a, b in zip(right, trials, strict=True))


def test_a_drafter_that_fails_in_every_text_costs_little_in_each() -> None:
    state = LengthState()
    for seed in range(6):
        state.begin_text(0)
        chosen = lengths(MeasuredLength(MERGING, state), 0.0, 60, seed)
        seconds = sum(MERGING.round_seconds(count) for count in chosen)
        assert seed < 2 or seconds < 1.05 * MERGING.round_seconds(0) * len(chosen)
