"""How many tokens to propose, and from where: as many as pay, or none. No choice depends on a clock."""

import threading
import time
from collections.abc import Callable
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
from omnidraft.runtime.decoding.length_state import (
    CLASSES,
    FIRST_SHARE,
    Costs,
    LengthState,
)

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


def drive(
    length: DraftLength, acceptance: float, rounds: int, seed: int = 0, copied: float | None = None
) -> list[Plan]:
    """Run rounds in which each draft token is accepted with a probability; return what they proposed.

    The drafter is always as confident.

    With `copied` the context has a match of 3 tokens in every round, whose copies are right with that
    probability.
    """
    rng, chosen = np.random.default_rng(seed), []

    def right(chance: float) -> int:
        return int(np.argmin([*(rng.random(MAX_DRAFT_TOKENS) < chance), False]))

    match = 0 if copied is None else 3
    for _ in range(rounds):
        plan, agreed = length.next(match), right(copied or 0.0)
        drafted, seen = drawn(plan) if plan.source == "draft" else (0, 0)
        accepted = min(right(acceptance), drafted)
        emitted = 1 + (min(agreed, plan.count) if plan.source == "copy" else accepted)
        evaluated = min(drafted, accepted + 1)
        classes = [CONFIDENCE] * seen
        length.record(RoundCounts(classes, evaluated, accepted, emitted, match, min(agreed, emitted)))
        chosen.append(replace(plan, count=drafted if plan.source == "draft" else plan.count))
    return chosen


def lengths(length: DraftLength, acceptance: float, rounds: int, seed: int = 0) -> list[int]:
    return [plan.count for plan in drive(length, acceptance, rounds, seed)]


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


def test_equal_rounds_give_equal_choices_and_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = drive(MeasuredLength(CHEAP, copies=True), 0.6, 200, seed=4, copied=0.5)

    here = threading.current_thread()

    def refusing(clock: Callable[[], float]) -> Callable[[], float]:
        def read() -> float:  # threads of other tests may still end
            assert threading.current_thread() is not here, "a clock was read"
            return clock()

        return read

    for name in ("time", "perf_counter", "monotonic", "process_time"):
        monkeypatch.setattr(time, name, refusing(getattr(time, name)))
    assert drive(MeasuredLength(CHEAP, copies=True), 0.6, 200, seed=4, copied=0.5) == expected


def test_a_drafter_that_must_read_first_drafts_only_where_it_gains_more() -> None:
    """The same acceptance: nothing to read, and a text that costs as much as 10 draft tokens."""
    for acceptance, unread, written, source in (
        (0.3, 0, 0, "draft"), (0.3, 64, 99, "none"), (0.9, 64, 99, "draft"), (0.9, 64, 0, "none"),
        (0.9, 64, 1, "none"), (0.9, 64, 3, "draft"),
    ):  # fmt: skip
        state = LengthState()
        state.begin_text(unread)
        state.written = written
        costs = replace(MERGING, acceptance=acceptance, draft=0.16)
        assert MeasuredLength(costs, state).next().source == source, (acceptance, unread, written)


# Copies


def test_copies_that_are_right_are_proposed_and_cost_no_draft() -> None:
    plans = drive(MeasuredLength(EXPENSIVE, copies=True), 0.3, 200, copied=0.95)
    assert {plan.source for plan in plans[-100:]} <= {"none", "copy"}
    cheap_pass = replace(EXPENSIVE, target=(1.0, 1.1, 1.2, 1.3))
    plans = drive(MeasuredLength(cheap_pass, copies=True), 0.3, 200, copied=0.95)
    assert [plan.source for plan in plans[-100:]].count("copy") >= 98
    assert min(plan.count for plan in plans[-100:] if plan.source == "copy") > 4


def test_copies_that_are_wrong_are_no_longer_proposed_and_still_compared() -> None:
    length = MeasuredLength(MERGING, copies=True)
    assert {plan.source for plan in drive(length, 0.5, 200, copied=0.02)[-100:]} == {"draft"}
    assert [plan.source for plan in drive(length, 0.5, 200, copied=0.98)[-100:]].count("copy") > 95


def test_without_a_drafter_there_are_copies_and_no_probes() -> None:
    plans = drive(MeasuredLength(CHEAP, drafts=False, copies=True), 0.0, 300, copied=0.0)
    assert {plan.source for plan in plans[50:]} == {"none"}
    plans = drive(MeasuredLength(CHEAP, drafts=False, copies=True), 0.0, 300, copied=0.9)
    assert "copy" in {plan.source for plan in plans[50:]}


# From text to text


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


def texts(*acceptances: float, rounds: int = 60) -> list[list[int]]:
    """The lengths of texts one after another, each with its probability that a draft token is accepted."""
    chosen, state = [], LengthState()
    for seed, acceptance in enumerate(acceptances):
        state.begin_text(0)
        chosen.append(lengths(MeasuredLength(MERGING, state), acceptance, rounds, seed))
    return chosen


def test_a_bad_text_ends_drafting_and_a_good_one_brings_it_back() -> None:
    good, bad, again = texts(0.9, 0.0, 0.9, rounds=150)
    assert min(good[-20:]) > 2 and bad[-20:].count(0) >= 18 and min(again[-20:]) > 2


def test_a_drafter_that_fails_in_every_text_costs_little_in_each() -> None:
    for chosen in texts(*[0.0] * 6)[2:]:
        seconds = sum(MERGING.round_seconds(count) for count in chosen)
        assert seconds < 1.05 * MERGING.round_seconds(0) * len(chosen)
