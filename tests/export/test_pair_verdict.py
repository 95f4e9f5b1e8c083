"""Verdicts on pairs: expected and measured speed, vocabularies, sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnidraft.checkpoints.control_tokens import read_tokenizer
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.pair_verdict import (
    EXPECTED,
    chance_verdict,
    counted_texts,
    estimated_speed,
    seconds_of,
    speed_of,
    speed_verdict,
    vocabulary_verdict,
)
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.session.statistics import Statistics

COSTS = Costs((1.0, 1.2, 1.4, 1.6), draft=0.1, host=0.05)
# 10 rounds of two draft tokens, 4 of them accepted; 5 of one copied token, all accepted; 5 of nothing.
TEXT = Statistics(
    rounds=20, emitted=29, lengths={2: 10, 0: 5}, copied_lengths={1: 5}, accepted=9, accepted_copies=5
)


def test_the_estimate_is_that_of_the_rounds_and_of_the_costs() -> None:
    seconds = 10 * (1.4 + 0.2 + 0.05) + 5 * 1.0 + 5 * (1.2 + 0.05)
    assert seconds_of(TEXT, COSTS) == pytest.approx(seconds)
    speed = estimated_speed([TEXT, TEXT], COSTS)
    assert speed.ratio == pytest.approx(29 / seconds)
    assert speed.interval == pytest.approx((speed.ratio, speed.ratio)), "both texts have the same speed"
    assert (speed.copies, speed.drafts) == (0.25, 0.2)


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
    assert (
        "1.45 tokens from each pass of the target: 1 of its own, 0.25 copied from the text, 0.20 drafted"
        in verdict.sentence
    )


def test_a_drafter_that_adds_nothing_is_told() -> None:
    copies = Statistics(
        rounds=20, emitted=25, lengths={0: 15}, copied_lengths={1: 5}, accepted=5, accepted_copies=5
    )
    assert "faster, almost all by copies, which need no drafter, 1.20x" in str(
        speed_verdict(speed_of([copies] * 3, [1.2] * 3), EXPECTED)
    )
    nothing = speed_verdict(speed_of([Statistics(rounds=9, emitted=9, lengths={0: 9})], [1.0]), EXPECTED)
    assert not nothing.good and "this is plain decoding" in nothing.sentence and "-k 4" in nothing.remedy
    few = speed_verdict(speed_of([copies] * 2, [1.2, 1.3]), EXPECTED)
    assert not few.good and few.sentence.startswith("2 texts cannot tell whether it is faster: 1.25x")
    assert "no better than chance: 0.1%" in chance_verdict(0.001).sentence


def entry(**changes: Any) -> dict[str, Any]:
    return {"emitted": 29, "lengths": {"2": 10, "0": 5}, "copied_lengths": {"1": 5}, "accepted": 9,
            "accepted_copies": 5, **changes}  # fmt: skip


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


def test_a_drafter_that_cannot_write_all_is_told(data: Path) -> None:
    """T5's tokenizer has no newline and no byte tokens; GPT-2's writes everything."""
    gpt2, t5 = (read_tokenizer(data / "tokenizers" / name) for name in ("gpt2", "t5-small"))
    verdict = vocabulary_verdict(gpt2, build_vocab_map(t5, gpt2))
    assert not verdict.good and "only in part" in verdict.sentence and "'\\n'" in verdict.sentence
    assert vocabulary_verdict(t5, build_vocab_map(gpt2, t5)).good
