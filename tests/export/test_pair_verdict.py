"""Verdicts on pairs: expected and measured speed, vocabularies, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from omnidraft.pair_verdict import (
    EXPECTED,
    CountedText,
    chance_verdict,
    counted_texts,
    estimated_speed,
    larger_file,
    speed_of,
    speed_verdict,
)
from omnidraft.runtime.decoding.length_state import Costs

COSTS = Costs((1.0, 1.2, 1.4, 1.6), draft=0.1, host=0.05)
# 10 rounds of two draft tokens, 4 of them accepted; 5 of one copied token, all accepted; 5 of nothing.
TEXT = CountedText(29, {2: 10, 0: 5}, {1: 5}, accepted=9, accepted_copies=5)


def test_the_estimate_is_that_of_the_rounds_and_of_the_costs() -> None:
    seconds = 10 * (1.4 + 0.2 + 0.05) + 5 * 1.0 + 5 * (1.2 + 0.05)
    assert TEXT.seconds(COSTS) == pytest.approx(seconds) and TEXT.rounds == 20
    speed = estimated_speed([TEXT, TEXT], COSTS)
    assert speed.ratio == pytest.approx(29 / seconds)
    assert speed.interval == pytest.approx((speed.ratio, speed.ratio)), "both texts have the same speed"
    assert (speed.copies, speed.drafts) == (0.25, 0.2)


def test_a_round_that_drafts_nothing_has_no_host_work() -> None:
    assert estimated_speed([CountedText(7, {0: 7}, {}, 0, 0)], COSTS).ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("ratios", "words", "good"),
    [
        ([1.2, 1.3, 1.25], "faster, 1.25x of plain decoding is expected here (95 % 1.20-1.30)", True),
        ([0.7, 1.4, 1.2], "no certain difference: 1.06x of plain decoding", False),
        ([0.8, 0.9, 0.85], "slower: 0.85x of plain decoding", False),
    ],
)
def test_a_verdict_says_what_is_certain(ratios: list[float], words: str, good: bool) -> None:
    verdict = speed_verdict(speed_of([TEXT] * 3, ratios), EXPECTED)
    assert str(verdict).startswith(words) and verdict.good == good and bool(verdict.remedy) != good
    assert "1.45 tokens a pass: +0.25 copies, +0.20 drafts" in verdict.sentence


def test_a_drafter_that_adds_nothing_is_told() -> None:
    copies = CountedText(25, {0: 15}, {1: 5}, accepted=5, accepted_copies=5)
    assert "faster, almost all by copies, which need no drafter, 1.20x" in str(
        speed_verdict(speed_of([copies], [1.2]), EXPECTED)
    )
    nothing = speed_verdict(speed_of([CountedText(9, {0: 9}, {}, 0, 0)], [1.0]), EXPECTED)
    assert not nothing.good and "this is plain decoding" in nothing.sentence and "-k 4" in nothing.remedy
    assert "no better than chance: 0.1%" in chance_verdict(0.001).sentence


def entry(**changes: Any) -> dict[str, Any]:
    return {"emitted": 29, "lengths": {"2": 10, "0": 5}, "copied_lengths": {"1": 5}, "accepted": 9,
            "accepted_copies": 5, **changes}  # fmt: skip


def test_the_counts_of_a_manifest_are_read_back() -> None:
    assert counted_texts({"checks": {"texts": [entry()]}}) == [TEXT]


@pytest.mark.parametrize(
    "checks",
    [
        {},
        {"texts": []},
        {"texts": [entry()] * 65},
        {"texts": [entry(emitted=0)]},
        {"texts": [entry(lengths={"13": 1})]},
        {"texts": [entry(lengths={"02": 1})]},
        {"texts": [entry(lengths={"1": 0})]},
        {"texts": [entry(lengths={}, copied_lengths={})]},
        {"texts": [entry(accepted=4)]},
        {"texts": [entry(accepted=1.5)]},
        {"texts": "none"},
    ],
)
def test_counts_out_of_their_range_are_none(checks: dict[str, Any]) -> None:
    assert counted_texts({"checks": checks}) is None


def test_a_file_larger_than_its_checkpoint_is_told() -> None:
    assert larger_file("target", 100, 0, "int4") is None, "the size of the checkpoint is unknown"
    assert larger_file("target", 102, 100, "fp32") is None, "names and operators of a graph take some bytes"
    assert larger_file("target", 200, 100, "fp32") is None, "fp32 was asked for"
    int4 = larger_file("target", 115, 100, "int4-b32")
    assert int4 is not None and "the target as int4-b32 has 1.15 times" in int4 and "embedding" in int4
    int8 = larger_file("target", 160, 100, "int8-e8")
    assert int8 is not None and int8.endswith("has 1.60 times the size of its checkpoint"), "it is int8"
