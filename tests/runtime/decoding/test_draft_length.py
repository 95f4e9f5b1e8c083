"""How many tokens to draft: as many as pay, or none; the choice never depends on a clock."""

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.draft_length import (
    MAX_DRAFT_TOKENS,
    Costs,
    DraftLength,
    FixedLength,
    MeasuredLength,
)

CHEAP = Costs(target=(1.0, 1.01, 1.02, 1.03, 1.04), draft=0.02, host=0.01)  # a large target, a small drafter
EXPENSIVE = Costs(target=(1.0, 1.9, 2.8), draft=0.9, host=0.1)  # a draft token costs as much as a plain one

MERGING = Costs(target=(1.0, 1.05, 1.1, 1.15), draft=0.12, host=0.02)


def drive(length: DraftLength, acceptance: float, rounds: int, seed: int = 0) -> list[int]:
    """Run rounds in which each draft token is accepted with a probability; return the chosen lengths."""
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        count = length.next()
        accepted = 0
        while accepted < count and rng.random() < acceptance:
            accepted += 1
        length.record(count, min(count, accepted + 1), accepted, accepted + 1)
        chosen.append(count)
    return chosen


def speed(costs: Costs, acceptance: float, count: int) -> float:
    """Expected tokens a second of a fixed draft length."""
    return sum(acceptance**j for j in range(count + 1)) / costs.round_seconds(count)


@pytest.mark.parametrize("count", [0, 1, 4, MAX_DRAFT_TOKENS])
def test_a_fixed_length_stays(count: int) -> None:
    assert set(drive(FixedLength(count), 0.3, 20)) == {count}


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


def test_where_drafting_costs_more_than_it_saves_nothing_is_drafted() -> None:
    chosen = drive(MeasuredLength(EXPENSIVE), 0.4, 400)
    assert chosen.count(0) >= 0.9 * len(chosen)


def test_a_hopeless_drafter_costs_ever_less() -> None:
    """Cheap drafts that are never accepted: after the first rounds there are only probes, fewer and fewer."""
    chosen = drive(MeasuredLength(CHEAP), 0.0, 3000)
    first, last = (sum(c > 0 for c in part) for part in (chosen[:500], chosen[-500:]))
    assert 0 < last < first  # probes never end, and cost almost nothing
    seconds = sum(CHEAP.round_seconds(c) for c in chosen[100:])
    assert seconds < 1.01 * CHEAP.round_seconds(0) * len(chosen[100:])


def test_cheap_drafts_that_are_accepted_are_long() -> None:
    chosen = drive(MeasuredLength(CHEAP), 0.95, 200)
    assert min(chosen[-100:]) >= 6


@pytest.mark.parametrize("acceptance", [0.2, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("costs", [CHEAP, EXPENSIVE, Costs((1.0, 1.1, 1.2), 0.15, 0.02)])
def test_the_choice_is_nearly_the_best_fixed_one(costs: Costs, acceptance: float) -> None:
    chosen = drive(MeasuredLength(costs), acceptance, 600)[200:]
    tokens = sum(sum(acceptance**j for j in range(c + 1)) for c in chosen)
    chosen_speed = tokens / sum(costs.round_seconds(c) for c in chosen)
    assert chosen_speed >= 0.85 * max(speed(costs, acceptance, count) for count in range(13))


def test_never_slower_than_plain_decoding_by_more_than_its_probes() -> None:
    for acceptance in (0.0, 0.3, 0.6):
        chosen = drive(MeasuredLength(EXPENSIVE), acceptance, 2000)
        tokens = sum(sum(acceptance**j for j in range(c + 1)) for c in chosen)
        chosen_speed = tokens / sum(EXPENSIVE.round_seconds(c) for c in chosen)
        assert chosen_speed > 0.97 * speed(EXPENSIVE, acceptance, 0)


def test_it_shortens_when_the_text_turns_hard_and_comes_back_when_it_turns_easy() -> None:
    length = MeasuredLength(CHEAP)
    assert min(drive(length, 0.95, 100)[-20:]) >= 6
    assert drive(length, 0.0, 400)[-100:].count(0) >= 90
    assert min(drive(length, 0.95, 3000)[-50:]) >= 6


def test_it_drafts_no_longer_than_it_is_allowed() -> None:
    assert max(drive(MeasuredLength(CHEAP, longest=3), 1.0, 200)) == 3


def test_draft_tokens_that_spell_one_target_token_count_as_one() -> None:
    """Three draft tokens for each target token: acceptance does not show merging, the emitted tokens do."""
    merged, plain = MeasuredLength(MERGING), MeasuredLength(MERGING)
    for accepted in (6, 4, 2, 1) * 25:
        merged.record(6, min(6, accepted + 1), accepted, 1 + accepted // 3)
        plain.record(6, min(6, accepted + 1), accepted, 1 + accepted)
    assert merged.next() < plain.next()


def test_equal_rounds_give_equal_choices_and_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = drive(MeasuredLength(CHEAP), 0.6, 200, seed=4)

    def refuse() -> float:
        raise AssertionError("a clock was read")

    for name in ("time", "perf_counter", "monotonic", "process_time"):
        monkeypatch.setattr(time, name, refuse)
    assert drive(MeasuredLength(CHEAP), 0.6, 200, seed=4) == expected


def test_a_round_without_a_draft_teaches_nothing() -> None:
    """Otherwise a long plain part of a text would erase what was measured of the drafter."""
    trained, fresh = MeasuredLength(MERGING), MeasuredLength(MERGING)
    for length in (trained, fresh):
        for _ in range(100):
            length.record(6, 6, 6, 3)
    for _ in range(1000):
        trained.record(0, 0, 0, 1)
    assert trained.next() == fresh.next() > 0


def test_what_was_measured_as_hopeless_begins_plain_and_pays_at_most_the_shares() -> None:
    hopeless = replace(MERGING, acceptance=0.02, read=0.01)
    for unread in (0, 100, 1000):
        chosen = drive(MeasuredLength(hopeless, unread=unread), 0.0, 1000)
        assert not any(chosen[:8])
        seconds, behind = 0.0, unread
        for count in chosen:
            seconds += hopeless.round_seconds(count) + (behind * hopeless.read if count else 0.0)
            behind = 0 if count else behind + 1
        assert seconds < 1.03 * hopeless.round_seconds(0) * len(chosen), unread


def test_a_probe_finds_out_that_a_measurement_was_wrong() -> None:
    assert min(drive(MeasuredLength(replace(CHEAP, acceptance=0.02)), 0.95, 300)[-20:]) >= 6


def test_a_text_that_the_drafter_has_to_read_first_must_be_worth_it() -> None:
    slow = replace(MERGING, read=0.5)
    assert MeasuredLength(slow, unread=0).next() > 0
    assert MeasuredLength(slow, unread=2000).next() == 0


def test_drafting_is_tried_again_after_a_long_while_whatever_it_costs() -> None:
    chosen = drive(MeasuredLength(replace(EXPENSIVE, read=1.0), unread=100), 0.0, 1100)
    assert [i for i, count in enumerate(chosen) if count] == [1024]


def test_the_next_text_begins_with_what_the_last_one_taught() -> None:
    before = MeasuredLength(CHEAP, unread=7)
    for _ in range(30):
        before.record(before.next(), 4, 4, 5)
    after = MeasuredLength(CHEAP, unread=90)
    after.follow(before)
    expected = {**before.state(), "unread": 90, "usual": (64 + 150) / 2, "emitted": 0}
    acceptances = [a / b for a, b in zip(expected["survived"], expected["seen"], strict=True)]
    assert acceptances[3] > 0.85 > acceptances[4] == 0.6, "at the first four depths all were accepted"
    evaluated = after.state()["evaluated"]
    assert evaluated == pytest.approx([20.0] * 4 + [4.0] * 8), "one text weighs no more than twenty rounds"
    expected |= {
        "evaluated": evaluated,
        "accepted": pytest.approx([e * a for e, a in zip(evaluated, acceptances, strict=True)]),
    }
    assert {name: expected[name] for name in expected} == after.state()
    assert after.next() > MeasuredLength(CHEAP, unread=90).next()
    after.follow(FixedLength(3))
    assert after.state() == expected, "a draft length of another kind holds no such counts"


def test_probes_come_due_over_several_short_texts() -> None:
    # With these costs a probe is due after 27 rounds.
    costs = Costs(target=(1.0, 1.05, 1.1), draft=0.3, host=0.1, acceptance=0.1)

    def drafted(following: bool) -> int:
        total, last = 0, MeasuredLength(costs)
        for _ in range(6):
            length = MeasuredLength(costs)
            if following:
                length.follow(last)
            for _ in range(16):
                count = length.next()
                length.record(count, count, count, count + 1)
                total += count
            last = length
        return total

    assert drafted(False) == 0
    assert drafted(True) > 0


def test_probes_that_go_well_follow_each_other_until_drafting_pays() -> None:
    wrong = Costs(target=(1.0, 1.05, 1.1, 1.15, 1.2), draft=0.12, host=0.1, acceptance=0.02)
    length = MeasuredLength(wrong)
    chosen = drive(length, 1.0, 60)
    first = next(i for i, count in enumerate(chosen) if count)
    assert 0 < first < 30, "the measured acceptance is low, so the first draft is a probe"
    assert all(chosen[first:]), "from then on every round drafts"
    assert max(chosen) > 2

    refused = drive(MeasuredLength(wrong), 0.0, 60)
    assert not any(a and b for a, b in pairwise(refused)), "after a failed probe there is a wait"


def test_probes_that_could_not_pay_do_not_follow_each_other() -> None:
    chosen = drive(MeasuredLength(replace(EXPENSIVE, acceptance=0.5)), 1.0, 2000)
    assert sum(map(bool, chosen)) < 20


def test_where_texts_are_short_a_long_prompt_is_not_read_for_them() -> None:
    costs = Costs(target=(1.0, 1.05, 1.1, 1.15), draft=0.05, host=0.02, read=0.05)

    def drafted(tokens: int) -> list[bool]:
        """Whether each of twelve texts of `tokens` tokens, after prompts of 200, drafts anything."""
        any_drafted, last = [], MeasuredLength(costs)
        for _ in range(12):
            length = MeasuredLength(costs, unread=200)
            length.follow(last)
            emitted, counts = 0, []
            while emitted < tokens:
                counts.append(count := length.next())
                length.record(count, count, count, count + 1)
                emitted += count + 1
            any_drafted.append(any(counts))
            last = length
        return any_drafted

    assert all(drafted(120)), "ten seconds of reading pay for a long text"
    assert sum(drafted(6)) <= 4, "but not for six tokens, which take six seconds"


def test_a_text_that_may_not_be_long_is_not_worth_much_reading() -> None:
    costs = Costs(target=(1.0, 1.05, 1.1, 1.15), draft=0.05, host=0.02, read=0.05)
    assert MeasuredLength(costs, unread=200, limit=8).next() == 0
    assert MeasuredLength(costs, unread=200, limit=500).next() > 0
    assert MeasuredLength(costs, unread=0, limit=8).next() > 0


READING = Costs(target=(1.0, 1.05, 1.1, 1.15), draft=0.05, host=0.02, read=0.05)


def test_a_text_that_said_nothing_tells_nothing_of_how_long_texts_are() -> None:
    before, after = MeasuredLength(READING), MeasuredLength(READING)
    after.follow(before)
    assert after.state()["usual"] == before.state()["usual"] == 64.0


def test_a_limit_says_how_long_a_text_may_be_and_not_how_long_it_will_be() -> None:
    short = MeasuredLength(READING)
    for _ in range(4):  # texts of two tokens
        short.record(1, 1, 1, 2)
        short, before = MeasuredLength(READING, unread=200, limit=500), short
        short.follow(before)
    assert short.next() == 0
    long = MeasuredLength(READING, unread=200, limit=500)
    assert long.next() > 0


def test_what_was_said_without_the_drafter_is_all_to_be_read() -> None:
    """A round that copies from the context can emit several tokens without the drafter."""
    length = MeasuredLength(READING, unread=7)
    length.record(0, 0, 0, 5)
    assert length.unread == 12
    length.record(2, 2, 2, 3)
    assert length.unread == 0


def test_the_wait_for_a_probe_outlasts_a_text() -> None:
    """The share of a probe also does, but doubled: probes are more frequent at the start of a text."""
    costs = replace(MERGING, acceptance=0.02)
    first, second = MeasuredLength(costs), MeasuredLength(costs)
    drive(first, 0.0, 400)
    second.follow(first)
    before, after = first.state(), second.state()
    assert after["idle"] == before["idle"] > 0
    assert after["share"] == min(0.03, 2 * before["share"]) > before["share"]


def test_lengths_of_other_depths_begin_again() -> None:
    before = MeasuredLength(CHEAP, longest=3)
    drive(before, 0.9, 20)
    after = MeasuredLength(CHEAP, longest=12)
    after.follow(before)
    assert after.state() == MeasuredLength(CHEAP, longest=12).state()
    after.follow(FixedLength(4))
    assert after.state() == MeasuredLength(CHEAP, longest=12).state(), "a fixed length holds no counts"


def test_a_refused_token_of_several_pieces_speaks_of_its_first_piece_alone() -> None:
    """The other pieces follow a refused piece, so they say nothing of acceptance; counting them would shorten
    drafts.
    """
    whole, first = MeasuredLength(MERGING), MeasuredLength(MERGING)
    for refused in (0, 1, 0, 2) * 8:
        whole.record(6, min(6, refused + 3), refused, refused + 1)
        first.record(6, refused + 1, refused, refused + 1)
        for length in (whole, first):
            length.record(6, 6, 6, 7)
    assert whole.state() == first.state()
    assert whole.next() > 4, "half of the rounds are accepted whole"


def texts(*acceptances: float, rounds: int = 60) -> list[list[int]]:
    """The lengths of texts one after another, each with its probability that a draft token is accepted."""
    lengths, last = [], MeasuredLength(MERGING)
    for seed, acceptance in enumerate(acceptances):
        length = MeasuredLength(MERGING)
        if seed:
            length.follow(last)
        lengths.append(drive(length, acceptance, rounds, seed))
        last = length
    return lengths


def test_one_bad_text_does_not_end_drafting_in_the_next() -> None:
    good, bad, again = texts(0.9, 0.0, 0.9)
    assert bad[-20:].count(0) >= 18, "within the text drafting soon stops"
    assert all(again[:20]) and min(again[-20:]) > 3, "the next text begins with the counts of most texts"
    assert min(good[-20:]) > 3


def test_two_refusals_at_the_start_of_a_text_do_not_end_drafting_in_it() -> None:
    last = MeasuredLength(MERGING)
    drive(last, 0.6, 60)
    length = MeasuredLength(MERGING)
    length.follow(last)
    for _ in range(2):
        count = length.next()
        length.record(count, 1, 0, 1)
    assert length.next() > 0


def test_a_drafter_that_fails_in_every_text_costs_little_in_each() -> None:
    all_lengths = texts(*[0.0] * 12, rounds=100)
    for lengths in all_lengths[3:]:
        seconds = sum(MERGING.round_seconds(count) for count in lengths)
        assert seconds < 1.02 * len(lengths) * MERGING.round_seconds(0)
    assert any(map(any, all_lengths[3:])), "there are probes"
