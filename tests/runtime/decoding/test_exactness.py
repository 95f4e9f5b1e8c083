"""Exactness by enumeration: at every temperature, the output has exactly the target's distribution."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session.modes import MODES, VERIFICATIONS, Mode, Verification
from support.enumerate_distribution import LENGTH, Case, EndingLength, distribution_of_output, total_variation
from support.toy import GRAMS, ContextModel, toy_map

CACHES: list[Sequence[str]] = [(), ("FO",), ("FLAKE", "FO"), tuple(GRAMS)]
TRUNCATED = {
    "top-k": SamplingConfig(1.0, top_k=4),
    "top-p": SamplingConfig(0.8, top_p=0.7),
    "min-p": SamplingConfig(1.3, min_p=0.15),
    "penalty": SamplingConfig(1.0, repetition_penalty=2.5),
    "all": SamplingConfig(1.2, top_k=6, top_p=0.9, min_p=0.05, repetition_penalty=1.8),
}


def distance(case: Case) -> float:
    return total_variation(distribution_of_output(case), case)


@pytest.mark.parametrize("verification", ["token", "block"])
@pytest.mark.parametrize("grams", CACHES, ids=lambda g: f"{len(g)}grams")
def test_a_trie_round_has_the_targets_distribution(verification: Verification, grams: Sequence[str]) -> None:
    """Expansions, kept tokens, dead ends and a draft that ends inside a node all occur."""
    for temperature in (0.4, 1.0):
        case = Case("trie", verification, SamplingConfig(temperature), seed=len(grams), grams=grams)
        assert distance(case) < 1e-9


@pytest.mark.parametrize("verification", ["token", "block"])
def test_a_long_trie_round_has_the_targets_distribution(verification: Verification) -> None:
    """Three draft tokens reach every node of the trie, and the limit, or the confidence, cuts proposals."""
    for least in (0.0, 0.2):
        case = Case("trie", verification, seed=1, count=3, grams=("FLAKE", "FO"), most=3, least=least)
        assert distance(case) < 1e-9


@pytest.mark.parametrize(("mode", "verification"), [("trie", "token"), ("trie", "block"), ("match", "token")])
@pytest.mark.parametrize("grams", CACHES, ids=lambda g: f"{len(g)}grams")
def test_a_draft_that_ends_by_its_confidence_leaves_the_targets_distribution(
    mode: Mode, verification: Verification, grams: Sequence[str]
) -> None:
    """Each limit lets other drafts end early; a block whose length depends on the path is exact, too."""
    for seed, least in ((1, 0.15), (len(grams), 0.25), (3, 0.4)):
        assert distance(Case(mode, verification, seed=seed, grams=grams, least=least)) < 1e-9


def test_drafts_of_one_text_end_at_different_lengths() -> None:
    """So the test above is not of a fixed length in disguise."""
    drafter = Drafter(ContextModel(7, toy_map().draft_size))
    plan, nothing = EndingLength(3, 0.25).next(), np.empty(0, np.int64)
    drafts = [drafter.propose([0, 3], plan, 1.0, nothing, SplitMix64(seed)) for seed in range(20)]
    assert len({len(draft.tokens) for draft in drafts}) > 1
    assert {len(draft.classes) - len(draft.tokens) for draft in drafts} == {0, 1}, (
        "after a token, and before one"
    )


@pytest.mark.parametrize("mode", ["match", "direct", "lookup", "plain"])
def test_a_round_of_the_other_modes_has_the_targets_distribution(mode: Mode) -> None:
    for temperature in (0.4, 1.0):
        assert distance(Case(mode, sampling=SamplingConfig(temperature))) < 1e-9


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize(
    ("mode", "verification"),
    [("trie", "token"), ("trie", "block"), ("match", "token"), ("direct", "token"), ("lookup", "token")],
)
def test_truncation_and_penalty_are_part_of_the_distribution(
    mode: Mode, verification: Verification, name: str
) -> None:
    assert distance(Case(mode, verification, TRUNCATED[name], seed=4)) < 1e-9


@pytest.mark.parametrize("penalty", [1.0, 1.9])
@pytest.mark.parametrize("mode", MODES)
def test_greedy_is_exact_in_every_mode(mode: Mode, penalty: float) -> None:
    for grams in CACHES:
        sampling = SamplingConfig(repetition_penalty=penalty)
        case = Case(mode, "block", sampling, len(grams), count=5, grams=grams, most=LENGTH, rounds=LENGTH)
        assert distance(case) < 1e-9


@pytest.mark.parametrize("verification", ["token", "block"])
def test_whole_generations_have_the_targets_distribution(verification: Verification) -> None:
    """Several rounds, with a cache that learns between them and a limit inside accepted blocks."""
    for sampling in (SamplingConfig(1.0), TRUNCATED["all"]):
        case = Case("trie", verification, sampling, seed=7, count=1, grams=("FO",), most=2, rounds=2)
        distribution = distribution_of_output(case)
        assert {len(emitted) for emitted in distribution} == {2}
        assert total_variation(distribution, case) < 1e-9


@pytest.mark.parametrize(("mode", "verification"), [("trie", "token"), ("trie", "block"), ("match", "token")])
def test_another_drafter_between_rounds_leaves_the_targets_distribution(
    mode: Mode, verification: Verification
) -> None:
    """As with a changed adapter; each draft is verified by the distribution that it was drawn from."""
    for sampling in (SamplingConfig(1.0), TRUNCATED["all"]):
        plain = Case(mode, verification, sampling, seed=7, count=1, grams=("FO",), most=2, rounds=2)
        case = replace(plain, swaps=True)
        distribution = distribution_of_output(case)
        assert total_variation(distribution, case) < 1e-9
        long = replace(case, most=LENGTH, rounds=LENGTH, sampling=replace(sampling, temperature=0.0))
        assert distance(long) < 1e-9


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize(("mode", "verification"), [("trie", "token"), ("trie", "block"), ("match", "token")])
def test_a_drafter_of_few_positions_leaves_the_targets_distribution(
    mode: Mode, verification: Verification, resumes: bool
) -> None:
    """The text is longer than the drafter's context, from the start and from the second round on."""
    for length, seed in ((2, 8), (4, 9)):
        case = Case(
            mode, verification, seed=seed, count=1, grams=("FO",), most=2, rounds=2, drafter_length=length,
            resumes=resumes,
        )  # fmt: skip
        assert Drafter(ContextModel(0, 8, max_length=length))._window(3) > 0
        assert distance(case) < 1e-9
        greedy = replace(case, most=LENGTH, rounds=LENGTH, sampling=SamplingConfig())
        assert distance(greedy) < 1e-9


def test_whole_generations_by_lookup_have_the_targets_distribution() -> None:
    """The second round copies from the output of the first round."""
    case = Case("lookup", sampling=TRUNCATED["all"], count=2, most=3, rounds=3)
    assert distance(case) < 1e-9


def test_the_papers_rule_is_not_exact_at_temperature_one() -> None:
    distances = [distance(Case("paper", seed=seed, grams=("FO",))) for seed in range(2)]
    assert max(distances) > 1e-3, distances


def test_the_wrong_sampling_is_seen() -> None:
    """The comparison has power: the distribution under another setting is far from the output's."""
    distribution = distribution_of_output(Case(sampling=TRUNCATED["all"], seed=4))
    for name in ("top-k", "top-p", "min-p", "penalty"):
        assert total_variation(distribution, Case(sampling=TRUNCATED[name], seed=4)) > 0.01, name
    weaker = replace(TRUNCATED["all"], repetition_penalty=1.0)
    assert total_variation(distribution, Case(sampling=weaker, seed=4)) > 0.01


def emitted_a_round(case: Case) -> float:
    return sum(weight * len(emitted) for emitted, weight in distribution_of_output(case).items())


def test_a_block_keeps_more_than_its_decisions_one_by_one() -> None:
    """For every pair of models, as Sun et al. prove, and clearly so on average."""
    gains = []
    for seed in range(4):
        one, block = (emitted_a_round(Case("trie", v, seed=seed)) for v in VERIFICATIONS)
        assert block >= one - 1e-12
        gains.append(block - one)
    assert np.mean(gains) > 0.005, gains


def test_drafting_is_used() -> None:
    """The enumeration would also pass without any draft, so rounds with several tokens must occur."""
    modes: list[Mode] = ["trie", "lookup"]
    for mode in modes:
        distribution = distribution_of_output(Case(mode, seed=0))
        assert sum(weight for emitted, weight in distribution.items() if len(emitted) > 1) > 0.02, mode
