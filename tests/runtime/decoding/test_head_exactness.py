"""Early stopping by a head: for every output of the head, the text has the target's distribution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.draft_length import FixedLength, MeasuredLength, RoundCounts
from omnidraft.runtime.decoding.drafter import Drafter, _confidence
from omnidraft.runtime.decoding.early_stop import more_tokens, survival_of
from omnidraft.runtime.decoding.length_state import LONGEST, Costs
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import MODES, Mode, Verification
from support.enumerate_distribution import LENGTH, Case, distribution_of_output, total_variation
from support.toy import HeadedModel

AUTO = -1.0
THRESHOLDS = [0.4, 0.7, AUTO]


def distance(case: Case) -> float:
    return total_variation(distribution_of_output(case), case)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("verification", ["token", "block"])
def test_a_draft_that_a_head_ends_has_the_targets_distribution(
    verification: Verification, threshold: float
) -> None:
    """Three draft tokens at most, so that drafts end at the root, inside nodes and after kept tokens."""
    case = Case(
        "trie", verification, seed=1, count=3, grams=("FLAKE", "FO"), most=3, head_threshold=threshold
    )
    assert distance(case) < 1e-9
    hot = replace(case, sampling=SamplingConfig(0.6), seed=2, grams=("FLAS", "FO", "LAKE"))
    assert distance(hot) < 1e-9


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("mode", ["match", "direct"])
def test_so_it_is_in_the_other_modes(mode: Mode, threshold: float) -> None:
    assert distance(Case(mode, "token", count=3, seed=2, head_threshold=threshold)) < 1e-9


@pytest.mark.parametrize("threshold", [0.4, AUTO])
@pytest.mark.parametrize("verification", ["token", "block"])
def test_whole_generations_have_the_targets_distribution(
    verification: Verification, threshold: float
) -> None:
    """Two rounds with a cache that learns between them."""
    case = Case(
        "trie", verification, SamplingConfig(1.0), seed=7, count=2, grams=("FO",), most=2, rounds=2,
        head_threshold=threshold,
    )  # fmt: skip
    assert distance(case) < 1e-9


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("mode", MODES)
def test_greedy_is_exact_in_every_mode(mode: Mode, threshold: float) -> None:
    for seed in range(3):
        case = Case(
            mode,
            "block",
            SamplingConfig(),
            seed,
            count=5,
            most=LENGTH,
            rounds=LENGTH,
            head_threshold=threshold,
        )
        assert distance(case) < 1e-9


def test_a_rule_that_drops_what_it_drew_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The enumeration has power: to drop a token that was drawn is the bias of method section 4.4."""
    propose = Drafter.propose

    def dropping(self: Drafter, *arguments: object) -> object:
        draft = propose(self, *arguments)  # type: ignore[arg-type]
        if len(draft.tokens) > 1 and draft.tokens[-1] % 2:
            del draft.tokens[-1], draft.distributions[-1]
        return draft

    monkeypatch.setattr(Drafter, "propose", dropping)
    assert distance(Case("trie", "token", seed=1, count=2, head_threshold=1.0)) > 1e-4


def drafted(length: FixedLength | MeasuredLength, count: int, outputs: list[float]) -> tuple[int, int]:
    """Tokens drawn and drafter passes, with these outputs of the head one after another."""

    class ScriptedHead(HeadedModel):
        def score(self, tokens: object, num_logits: int | None = None) -> np.ndarray:
            super().score(tokens, num_logits)  # type: ignore[arg-type]
            self.acceptance = 0.5 if self.passes < 2 else outputs[self.passes - 2]
            # Two tokens, of probability 1/2 each.
            return np.array([[0.0, 0.0, *[-np.inf] * (self.vocab_size - 2)]])

    model = ScriptedHead(0, 8)
    draft = Drafter(model).propose([0], count, length, 0.0, np.empty(0, np.int32), SplitMix64(0))
    return len(draft.tokens), model.passes


def test_it_stops_before_the_next_token_is_drawn() -> None:
    """By the product: 0.9 x 0.8 x 0.6 = 0.432, so after three tokens a refusal has probability 0.568."""
    outputs = [0.9, 0.8, 0.6, 0.1]
    for threshold, drawn in ((0.05, 1), (0.1001, 2), (0.28, 3), (0.5, 3), (0.57, 4), (0.96, 5), (1.0, 5)):
        assert drafted(FixedLength(5, threshold), 5, outputs) == (drawn, min(5, drawn + 1))
    assert drafted(FixedLength(5, 0.0), 5, [1.0] * 4) == (5, 5)  # an untrained head gives exactly 1


def test_what_the_head_says_corrects_what_the_drafter_believed() -> None:
    """By hand: even odds change nothing; odds of 3 and a confidence of 0.75 give 0.9."""
    for acceptance, confidence, expected in (
        (0.5, 0.3, 0.3), (0.3, 0.5, 0.3), (0.75, 0.75, 0.9), (1.0, 0.0, 1.0), (0.0, 0.9, 0.0), (0.0, 1.0, 0.5)
    ):  # fmt: skip
        assert survival_of(acceptance, confidence) == pytest.approx(expected)
    row = np.log(np.array([0.2, 0.1, 0.6, 0.1]))
    assert _confidence(row, 0, np.array([2])) == pytest.approx(0.5)
    assert _confidence(np.array([0.0, 500.0]), 0, np.array([1])) == 1.0  # nothing else may be drawn


CHEAP = Costs((1.0, 1.001, 1.002, 1.003, 1.004), 0.05, 0.0, acceptance=0.8)
SLOPED = Costs((1.0, 1.2, 1.4, 1.6, 1.8), 0.05, 0.0, acceptance=0.8)


def test_auto_goes_on_as_long_as_that_pays() -> None:
    """By hand. A token after one that is almost surely refused costs 0.2 more and gains nothing. Where a
    longer pass of the target costs almost nothing, one more token is drawn: its distribution is computed
    already.
    """
    assert drafted(MeasuredLength(SLOPED), 12, [0.05]) == (1, 2)
    drawn, passes = drafted(MeasuredLength(CHEAP), 12, [0.05])
    assert (drawn, passes) == (2, 2)
    assert drafted(MeasuredLength(CHEAP), 12, [0.99] * 11)[0] > 6
    assert drafted(MeasuredLength(CHEAP, head_threshold=0.5), 12, [0.99, 0.4]) == (2, 3)


def run(length: MeasuredLength, rounds: int, *, right: float) -> list[int]:
    """Lengths of rounds in which everything drafted is accepted, or nothing."""
    lengths = []
    for _ in range(rounds):
        drawn = length.next().count
        if drawn > 1:
            drawn = 1 + length.more(1, right)
        accepted = drawn if right > 0.5 else 0
        length.record(RoundCounts(drawn, min(drawn, accepted + 1), accepted, accepted + 1))
        lengths.append(drawn)
    return lengths


def test_a_head_may_go_on_to_the_longest_and_a_hopeless_pair_is_plain() -> None:
    assert run(MeasuredLength(CHEAP), 30, right=0.99)[-1] == LONGEST
    expensive = Costs((1.0, 1.3, 1.6, 1.9), 0.8, 0.0, acceptance=0.5)
    lengths = run(MeasuredLength(expensive), 400, right=0.01)
    assert np.mean(np.array(lengths[50:]) > 0) < 0.1


def test_a_head_goes_on_as_long_as_its_place_in_the_draft_is_good() -> None:
    """By hand: a third token was never accepted, so a confident head goes on to the second token only."""
    length = MeasuredLength(SLOPED)
    for _ in range(60):
        length.record(RoundCounts(12, 3, 2, 3))
    assert length.more(1, 0.99) == 1 and length.more(2, 0.99) == 0
    assert MeasuredLength(SLOPED).more(2, 0.99) > 0


def test_what_pays_by_hand() -> None:
    """Each token more is worth what it is expected to give, less what its time is worth otherwise."""
    assert more_tokens([0.5, 0.4, 0.1], [0.1, 0.3, 0.6], worth=1.0) == 2
    assert more_tokens([0.1], [0.2], worth=1.0) == 0
    assert more_tokens([0.1, 0.9], [0.3, 0.5], worth=1.0) == 2, (
        "a token that pays may follow one that does not"
    )


def test_a_threshold_outside_its_range_is_refused() -> None:
    for value in (-0.1, 1.5):
        with pytest.raises(SettingError, match=f"head_threshold {value} is outside 0..1"):
            GenerationConfig(head_threshold=value).check()
    with pytest.raises(SettingError, match="head_threshold 'no' is of type str; give a number"):
        GenerationConfig(head_threshold="no").check()  # type: ignore[arg-type]
