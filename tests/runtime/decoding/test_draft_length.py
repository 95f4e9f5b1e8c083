"""How many tokens to propose, and from where: as many as pay, or none. No choice depends on a clock."""

import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.draft_length import (
    MAX_DRAFT_TOKENS,
    PROBE,
    DraftLength,
    FixedLength,
    MeasuredLength,
    Plan,
    RoundCounts,
    match_class,
    running,
)
from omnidraft.runtime.decoding.length_state import (
    FIRST_SHARE,
    LAST_SHARE,
    LONGEST,
    LONGEST_MATCH,
    TEXT_ROUNDS,
    Costs,
    LengthState,
)

CHEAP = Costs(target=(1.0, 1.01, 1.02, 1.03, 1.04), draft=0.02, host=0.01)  # a large target, a small drafter
EXPENSIVE = Costs(target=(1.0, 1.9, 2.8), draft=0.9, host=0.1)  # a draft token costs as much as a plain one
MERGING = Costs(target=(1.0, 1.05, 1.1, 1.15), draft=0.12, host=0.02)


def drive(
    length: DraftLength, acceptance: float, rounds: int, seed: int = 0, copied: float | None = None
) -> list[Plan]:
    """Run rounds in which each draft token is accepted with a probability; return the plans.

    With `copied` the context has a match of 3 tokens in every round, whose copies are right with that
    probability.
    """
    rng, chosen = np.random.default_rng(seed), []

    def right(chance: float) -> int:
        return int(np.argmin([*(rng.random(MAX_DRAFT_TOKENS) < chance), False]))

    match = 0 if copied is None else 3
    for _ in range(rounds):
        plan, agreed = length.next(match), right(copied or 0.0)
        drafted = plan.count if plan.source == "draft" else 0
        accepted = min(right(acceptance), drafted)
        emitted = 1 + (min(agreed, plan.count) if plan.source == "copy" else accepted)
        evaluated = min(drafted, accepted + 1)
        length.record(RoundCounts(drafted, evaluated, accepted, emitted, match, min(agreed, emitted)))
        chosen.append(plan)
    return chosen


def lengths(length: DraftLength, acceptance: float, rounds: int, seed: int = 0) -> list[int]:
    return [plan.count for plan in drive(length, acceptance, rounds, seed)]


def speed(costs: Costs, acceptance: float, count: int) -> float:
    """Expected tokens a second of a fixed draft length."""
    return sum(acceptance**j for j in range(count + 1)) / costs.round_seconds(count)


@pytest.mark.parametrize("count", [0, 1, 4, MAX_DRAFT_TOKENS])
def test_a_fixed_length_stays(count: int) -> None:
    assert set(lengths(FixedLength(count), 0.3, 20)) == {count}
    assert FixedLength(count).next() == (Plan("draft", count, reads=True) if count else Plan())


@pytest.mark.parametrize("count", [-1, MAX_DRAFT_TOKENS + 1])
def test_a_fixed_length_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(SettingError, match=rf"num_draft_tokens {count} is outside 0\.\.48; 4 is usual"):
        FixedLength(count)


def test_a_round_costs_a_longer_pass_the_draft_and_the_hosts_work() -> None:
    costs = Costs(target=(1.0, 1.5, 3.0), draft=0.25, host=0.125)
    assert costs.round_seconds(0) == 1.0  # plain decoding: no host work either
    assert costs.round_seconds(1) == 1.5 + 0.25 + 0.125
    assert costs.round_seconds(2) == 3.0 + 0.5 + 0.125
    assert costs.round_seconds(4) == 3.0 + 2 * 1.0 + 1.0 + 0.125  # continues at the mean slope


def test_one_measured_pass_is_enough() -> None:
    assert Costs(target=(2.0,), draft=0.5, host=0.0).round_seconds(2) == 3.0


def test_shares_of_success_begin_with_those_before_them() -> None:
    """By hand: the assumption weighs five trials, after five trials half of that, after 20 a fifth."""
    assert running(0.6, [0.0, 0.0], [0.0, 0.0]) == pytest.approx([0.6, 0.6])
    first = (5.0 + 2.5 * 0.6) / 7.5
    assert running(0.6, [5.0, 0.0], [5.0, 20.0]) == pytest.approx([first, first / 21])


def test_the_speed_of_a_draft_by_hand() -> None:
    length = MeasuredLength(replace(MERGING, acceptance=0.5))
    plain, one, two = length.options(0)[:3]
    assert (plain.tokens, plain.seconds) == (1.0, 1.0)
    assert [one.tokens, two.tokens] == pytest.approx([1.5, 1.75])
    assert two.speed == pytest.approx(1.75 / (1.1 + 0.24 + 0.02))


def test_the_speed_of_a_copy_by_hand() -> None:
    """A copied token costs no draft token, and the match is a token longer after each right one."""
    length = MeasuredLength(MERGING, drafts=False, copies=True)
    state = length.state
    state.compared[:2], state.agreed[:2] = [5.0, 5.0], [0.0, 5.0]
    plain, one, two = length.options(2)[:3]
    shares = (0.5 / 3, (5 + 2.5 * 0.5 / 3) / 7.5)
    assert (one.source, one.seconds) == ("copy", 1.05 + 0.02)
    assert one.tokens == pytest.approx(1.0 + shares[0])
    assert two.tokens == pytest.approx(1.0 + shares[0] + shares[0] * shares[1])
    assert [option.source for option in length.options(0)] == [plain.source] == ["none"]


def test_where_drafting_costs_more_than_it_saves_nothing_is_drafted() -> None:
    chosen = lengths(MeasuredLength(EXPENSIVE), 0.4, 400)
    assert chosen.count(0) >= 0.9 * len(chosen)


def test_a_hopeless_drafter_costs_ever_less() -> None:
    """Cheap drafts that are never accepted: after the first rounds there are only probes, fewer and fewer."""
    chosen = lengths(MeasuredLength(CHEAP), 0.0, 6000)
    first, last = (sum(c > 0 for c in part) for part in (chosen[:1000], chosen[-1000:]))
    assert 0 < last < first  # probes never end, and cost almost nothing
    seconds = sum(CHEAP.round_seconds(c) for c in chosen[200:])
    assert seconds < 1.01 * CHEAP.round_seconds(0) * len(chosen[200:])


@pytest.mark.parametrize("acceptance", [0.02, 0.6, 1.0])
def test_probes_of_a_hopeless_drafter_take_at_most_their_share_of_the_time(acceptance: float) -> None:
    """Whatever was measured before: the rounds until it is known to be hopeless are few."""
    costs = replace(EXPENSIVE, acceptance=acceptance)
    chosen = lengths(MeasuredLength(costs), 0.0, 3000)
    seconds = sum(costs.round_seconds(count) for count in chosen)
    assert seconds < (1.0 + FIRST_SHARE) * costs.round_seconds(0) * len(chosen)


def test_cheap_drafts_that_are_accepted_are_long() -> None:
    assert min(lengths(MeasuredLength(CHEAP), 0.95, 200)[-100:]) >= 6


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
    assert lengths(length, 0.0, 1000)[-100:].count(0) >= 90
    assert min(lengths(length, 0.95, 4000)[-50:]) >= 6


def test_it_proposes_no_more_than_it_is_allowed() -> None:
    assert max(lengths(MeasuredLength(CHEAP, longest=3), 1.0, 200)) == 3
    assert (
        max(plan.count for plan in drive(MeasuredLength(CHEAP, copies=True), 1.0, 99, copied=1.0)) == LONGEST
    )


def test_draft_tokens_that_spell_one_target_token_count_as_one() -> None:
    """Three draft tokens for each target token: acceptance does not show merging, the emitted tokens do."""
    merged, plain = MeasuredLength(MERGING), MeasuredLength(MERGING)
    for accepted in (6, 4, 2, 1) * 25:
        merged.record(RoundCounts(6, min(6, accepted + 1), accepted, 1 + accepted // 3))
        plain.record(RoundCounts(6, min(6, accepted + 1), accepted, 1 + accepted))
    assert merged.next().count < plain.next().count


def test_equal_rounds_give_equal_choices_and_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = drive(MeasuredLength(CHEAP, copies=True), 0.6, 200, seed=4, copied=0.5)

    def refuse() -> float:
        raise AssertionError("a clock was read")

    for name in ("time", "perf_counter", "monotonic", "process_time"):
        monkeypatch.setattr(time, name, refuse)
    assert drive(MeasuredLength(CHEAP, copies=True), 0.6, 200, seed=4, copied=0.5) == expected


def test_a_round_without_a_draft_teaches_nothing_of_the_drafter() -> None:
    """Otherwise a long plain part of a text would erase what was measured of the drafter."""
    trained, fresh = MeasuredLength(MERGING), MeasuredLength(MERGING)
    for length in (trained, fresh):
        for _ in range(100):
            length.record(RoundCounts(6, 6, 6, 3))
    for _ in range(1000):
        trained.record(RoundCounts(0, 0, 0, 1))
    assert trained.next() == fresh.next() != Plan()


def test_a_probe_finds_out_that_a_measurement_was_wrong() -> None:
    assert min(lengths(MeasuredLength(replace(CHEAP, acceptance=0.02)), 0.95, 400)[-20:]) >= 6


def test_the_drafter_reads_before_a_probe_and_whenever_it_drafts() -> None:
    """It reads during the target's pass of the round before, so that no round waits for it."""
    plans = drive(MeasuredLength(replace(MERGING, acceptance=0.1)), 0.0, 600)
    probes = [i for i, plan in enumerate(plans) if plan.count]
    assert len(probes) >= 2 and {plans[i].count for i in probes} == {PROBE}
    assert [i for i, plan in enumerate(plans) if plan.reads] == sorted([*probes, *(i - 1 for i in probes)])


def test_a_failed_probe_halves_the_share_and_a_draft_that_pays_restores_it() -> None:
    length = MeasuredLength(replace(MERGING, acceptance=0.02))
    drive(length, 0.0, 2000)
    assert length.state.share == LAST_SHARE
    length.state.evaluated, length.state.accepted = [20.0] * LONGEST, [19.0] * LONGEST
    assert MeasuredLength(length.costs, length.state).next().source == "draft"
    assert (length.state.share, length.state.idle) == (FIRST_SHARE, 0)


def test_what_is_kept_between_drafts_changes_no_plan() -> None:
    """Plans of one draft length are those of another one for each round."""
    kept = MeasuredLength(replace(MERGING, acceptance=0.3), copies=True)
    state, sources = kept.state.copy(), set[str]()
    rng = np.random.default_rng(3)
    for _ in range(600):
        fresh = MeasuredLength(kept.costs, state, copies=True)
        match = int(rng.integers(0, 5))
        assert kept.options(match) == fresh.options(match)
        plan = kept.next(match)
        assert plan == fresh.next(match)
        sources.add(plan.source)
        accepted = int(rng.integers(0, plan.count + 1)) if rng.random() < 0.5 else 0
        drafted = plan.count if plan.source == "draft" else 0
        counts = RoundCounts(drafted, drafted, min(accepted, drafted), 1 + accepted, match, accepted)
        kept.record(counts)
        fresh.record(counts)
        assert kept.state == state
    assert sources == {"none", "draft", "copy"}


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


def test_the_better_source_is_used() -> None:
    for acceptance, copied, source in ((0.9, 0.4, "draft"), (0.4, 0.9, "copy")):
        plans = drive(MeasuredLength(MERGING, copies=True), acceptance, 300, copied=copied)
        assert sum(plan.source == source for plan in plans[100:]) > 0.95 * 200


def test_without_a_drafter_there_are_copies_and_no_probes() -> None:
    plans = drive(MeasuredLength(CHEAP, drafts=False, copies=True), 0.0, 300, copied=0.0)
    assert {(plan.source, plan.reads) for plan in plans[50:]} == {("none", False)}
    plans = drive(MeasuredLength(CHEAP, drafts=False, copies=True), 0.0, 300, copied=0.9)
    assert "copy" in {plan.source for plan in plans[50:]}


def test_longer_matches_are_counted_apart() -> None:
    length = MeasuredLength(MERGING, drafts=False, copies=True)
    for _ in range(40):
        length.record(RoundCounts(0, 0, 0, 1, match=2, agreed=0))
        length.record(RoundCounts(0, 0, 0, 1, match=9, agreed=1))
    assert length.next(2) == Plan() and length.next(9).source == "copy"
    assert (match_class(2), match_class(3), match_class(9)) == (0, 1, LONGEST_MATCH - 2)


def test_a_comparison_counts_every_emitted_token_up_to_the_first_wrong_one() -> None:
    """By hand: a match of 2, of which two copied tokens were right and the third was not."""
    length = MeasuredLength(MERGING, copies=True)
    length.record(RoundCounts(0, 0, 0, 5, match=2, agreed=2))
    assert length.state.compared == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert length.state.agreed == [1.0, 1.0, 0.0, 0.0, 0.0]
    length.record(RoundCounts(0, 0, 0, 2, match=2, agreed=2))  # what follows is not known
    assert length.state.compared == [1.97, 1.97, 1.0, 0.0, 0.0]


# From text to text


def test_the_next_text_begins_with_what_the_last_one_taught() -> None:
    state = LengthState()
    for _ in range(100):
        MeasuredLength(CHEAP, state).record(RoundCounts(4, 4, 4, 5, match=3, agreed=5))
    state.share = LAST_SHARE
    before = asdict(state)
    state.begin_text()
    assert state.evaluated[:5] == pytest.approx([TEXT_ROUNDS] * 4 + [0.0]), "the weight of texts is capped"
    assert state.accepted[:4] == state.evaluated[:4], "and acceptance is what it was"
    assert state.share == 2 * LAST_SHARE, "drafting is probed again at the start of a text"
    changed = {"evaluated", "accepted", "share"}
    assert {k: v for k, v in asdict(state).items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }
    assert MeasuredLength(CHEAP, state).next().count > MeasuredLength(CHEAP).next().count


def test_acceptance_never_exceeds_the_trials() -> None:
    """A session file is refused where it does."""
    rng, state = np.random.default_rng(0), LengthState()
    for _ in range(300):
        length = MeasuredLength(CHEAP, state, copies=True)
        for _ in range(int(rng.integers(1, 9))):
            accepted, agreed = int(rng.integers(0, 5)), int(rng.integers(0, 9))
            length.record(RoundCounts(4, min(4, accepted + 1), accepted, 9, int(rng.integers(0, 9)), agreed))
        state.begin_text()
        for right, trials in ((state.accepted, state.evaluated), (state.agreed, state.compared)):
            assert all(0.0 <= a <= b for a, b in zip(right, trials, strict=True))


def test_probes_come_due_over_several_short_texts() -> None:
    costs = Costs(target=(1.0, 1.05, 1.1), draft=0.3, host=0.1, acceptance=0.1)

    def drafted(following: bool) -> int:
        total, state = 0, LengthState()
        for _ in range(6):
            state.begin_text()
            total += sum(lengths(MeasuredLength(costs, state if following else None), 1.0, 16))
        return total

    assert drafted(False) == 0 < drafted(True)


def texts(*acceptances: float, rounds: int = 60) -> list[list[int]]:
    """The lengths of texts one after another, each with its probability that a draft token is accepted."""
    chosen, state = [], LengthState()
    for seed, acceptance in enumerate(acceptances):
        state.begin_text()
        chosen.append(lengths(MeasuredLength(MERGING, state), acceptance, rounds, seed))
    return chosen


def test_two_refusals_at_the_start_of_a_text_do_not_end_drafting_in_it() -> None:
    state = LengthState()
    drive(MeasuredLength(MERGING, state), 0.6, 60)
    state.begin_text()
    length = MeasuredLength(MERGING, state)
    for _ in range(2):
        length.record(RoundCounts(length.next().count, 1, 0, 1))
    assert length.next().count > 0


def test_a_bad_text_ends_drafting_and_a_good_one_brings_it_back() -> None:
    good, bad, again = texts(0.9, 0.0, 0.9, rounds=150)
    assert min(good[-20:]) > 2 and bad[-20:].count(0) >= 18 and min(again[-20:]) > 2


def test_a_drafter_that_fails_in_every_text_costs_little_in_each() -> None:
    for chosen in texts(*[0.0] * 6)[2:]:
        seconds = sum(MERGING.round_seconds(count) for count in chosen)
        assert seconds < 1.05 * MERGING.round_seconds(0) * len(chosen)


def test_a_refused_token_of_several_pieces_speaks_of_its_first_piece_alone() -> None:
    """The other pieces follow a refused piece, so they say nothing of acceptance; counting them would shorten
    drafts.
    """
    whole, first = MeasuredLength(MERGING), MeasuredLength(MERGING)
    for refused in (0, 1, 0, 2) * 8:
        whole.record(RoundCounts(6, min(6, refused + 3), refused, refused + 1))
        first.record(RoundCounts(6, refused + 1, refused, refused + 1))
        for length in (whole, first):
            length.record(RoundCounts(6, 6, 6, 7))
    assert whole.state == first.state
    assert whole.next().count > 4, "half of the rounds are accepted whole"


def test_depths_that_are_not_drafted_become_like_the_one_before() -> None:
    """Otherwise bad luck at a depth would shorten drafts for ever, since the depth is not tried again."""
    length = MeasuredLength(MERGING)
    for _ in range(40):
        length.record(RoundCounts(2, 2, 1, 2))
    assert length.chances()[1] < 0.1
    for _ in range(100):
        length.record(RoundCounts(1, 1, 1, 2))
    first, second = length.chances()[:2]
    assert first > 0.95 and second > 0.7
