"""Verdicts on pairs: expected and measured speed, vocabularies, sizes."""

from __future__ import annotations

import pytest

from omnidraft.pair_verdict import CountedDrafts, expected_verdict, larger_file, measured_verdict
from omnidraft.runtime.decoding.length_state import Costs

GOOD = CountedDrafts(of_drafted=0.6, tokens_per_target_pass=3.4, num_draft_tokens=4)


def costs(*target: float, acceptance: float = 0.8) -> Costs:
    return Costs(target, draft=0.1, host=0.0, acceptance=acceptance)


def test_the_expected_speed_is_that_of_the_best_length() -> None:
    """With blocks at the price of one token and one draft token, k = 1 gives (1 + a) / (1 + draft)."""
    verdict = expected_verdict(costs(1.0, 1.0, 9.0), GOOD)
    assert verdict.good and verdict.num_draft_tokens == 1
    assert verdict.speed_up == pytest.approx((1.0 + 0.8) / 1.1)
    sentence = (
        "drafting pays: 1.64x of plain decoding is expected here at k = 1, by drafts alone; the default"
    )
    assert str(verdict).startswith(sentence)


@pytest.mark.parametrize(("block", "words", "k"), [(1.67, "1.02x", 1), (1.75, "0.97x", 0)])
def test_an_estimate_near_1_is_called_uncertain_on_either_side(block: float, words: str, k: int) -> None:
    near = expected_verdict(costs(1.0, block, 9.0), GOOD)
    assert not near.good and near.remedy and near.num_draft_tokens == k
    start = f"drafting makes no certain difference: {words} of plain decoding is expected here at k = 1"
    assert str(near).startswith(start)


def test_every_expected_verdict_says_that_it_is_of_drafts_alone() -> None:
    """The default mode also copies from the text, which a benchmark of it counts."""
    for block in (1.0, 1.7, 1.9):
        verdict = expected_verdict(costs(1.0, block, 9.0), GOOD)
        assert "by drafts alone; the default mode also copies from the text" in verdict.sentence
    assert "drafts alone" not in measured_verdict(1.2, (1.1, 1.3), 9, 7).sentence


def test_a_longer_draft_where_blocks_cost_nothing() -> None:
    verdict = expected_verdict(costs(*[1.0] * 13, acceptance=0.95), GOOD)
    assert verdict.num_draft_tokens > 4 and verdict.speed_up > 2.0


def test_a_target_token_of_several_draft_tokens_counts_less() -> None:
    spelled = CountedDrafts(of_drafted=0.6, tokens_per_target_pass=2.2, num_draft_tokens=4)
    assert spelled.ratio == pytest.approx(0.5) and GOOD.ratio == pytest.approx(1.0)
    one = expected_verdict(costs(1.0, 1.0, 9.0), spelled)
    assert one.speed_up == pytest.approx((1.0 + 0.5 * 0.8) / 1.1)


def test_the_reason_why_drafting_does_not_pay() -> None:
    costly = expected_verdict(costs(1.0, 1.9, 2.8), GOOD)
    assert not costly.good and costly.num_draft_tokens == 0 and costly.speed_up == pytest.approx(1.8 / 2.0)
    assert "does not pay: 0.90x" in costly.sentence
    assert ", because a round with one draft token takes the time of 2.00 plain tokens" in costly.sentence
    assert "even a perfect drafter would not pay" in costly.remedy
    assert "int4" not in costly.remedy and "--quant" not in costly.remedy
    assert "costs less with --quant fp32 or int8" in expected_verdict(costs(1.0, 1.9), GOOD, "int4").remedy
    weak = expected_verdict(costs(1.0, 1.1, 1.2, 1.3, acceptance=0.05), GOOD)
    assert "better or smaller" in weak.remedy


def test_chance_is_told_whatever_the_costs() -> None:
    for of_drafted in (0.0, 0.001):
        none = CountedDrafts(of_drafted, tokens_per_target_pass=1.0, num_draft_tokens=4)
        verdict = expected_verdict(costs(1.0, 1.0, 1.0, acceptance=0.01), none)
        assert not verdict.good and "no better than chance" in verdict.sentence
        assert "train it" in verdict.remedy


@pytest.mark.parametrize(
    ("interval", "drafted", "words"),
    [
        ((1.1, 1.3), 9, "drafting pays here: 1.20x of plain decoding (1.10-1.30)"),
        ((0.9, 1.3), 9, "no certain difference"),
        ((0.8, 0.9), 9, "does not pay here"),
        ((0.8, 1.3), 0, "nothing was drafted"),
    ],
)
def test_a_measurement_says_what_is_certain(interval: tuple[float, float], drafted: int, words: str) -> None:
    verdict = measured_verdict(1.2, interval, drafted)
    assert words in str(verdict)
    assert verdict.good == (interval[0] > 1.0) and bool(verdict.remedy) != verdict.good
    with_copies = measured_verdict(1.2, interval, drafted, copied=7, share=0.98)
    assert with_copies.sentence.startswith("drafting with copies " if drafted else "copying ")
    assert ("98% of the tokens gained were copies" in with_copies.sentence) == (drafted > 0)
    assert "copies" not in verdict.sentence


def test_a_file_larger_than_its_checkpoint_is_told() -> None:
    assert larger_file("target", 100, 0, "int4") is None, "the size of the checkpoint is unknown"
    assert larger_file("target", 102, 100, "fp32") is None, "names and operators of a graph take some bytes"
    assert larger_file("target", 200, 100, "fp32") is None, "fp32 was asked for"
    int4 = larger_file("target", 115, 100, "int4-b32")
    assert int4 is not None and "the target as int4-b32 has 1.15 times" in int4 and "--embedding" in int4
    int8 = larger_file("target", 160, 100, "int8-e8")
    assert int8 is not None and int8.endswith("has 1.60 times the size of its checkpoint"), "it is int8"
