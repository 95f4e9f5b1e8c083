"""NaN, infinite and absurd numbers of a model: one sentence of the target, no draft of the drafter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from omnidraft.runtime.decoding.draft_length import FixedLength, Plan
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.length_state import CLASSES
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import LogitsError, SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import MODES, Mode, Verification
from support.configs import config_of
from support.enumerate_distribution import Case, distribution_of_output, total_variation
from support.toy import (
    ABSURD_ROWS,
    BAD_ROWS,
    DRAFT,
    GRAMS,
    TARGET,
    ContextModel,
    UnsoundModel,
    toy_cache,
    toy_map,
)

LENGTH = 6
PROMPT = (0, 3, 1, 0, 3)
SETTINGS = [
    SamplingConfig(temperature, **others)
    for temperature in (0.0, 0.7, 1.0)
    for others in ({}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.1}, {"repetition_penalty": 1.3})
]


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """A warning of numpy on standard error is no sentence either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def spoiled(seed: int, size: int, rows: str, share: float = 1.0) -> UnsoundModel:
    model = UnsoundModel(seed, size)
    model.spoil, model.share = {**BAD_ROWS, **ABSURD_ROWS}[rows], share
    return model


def generate(
    target: ContextModel,
    drafter: ContextModel,
    mode: Mode,
    sampling: SamplingConfig,
    verification: Verification,
) -> list[Round]:
    models = DecoderModels(target, Drafter(drafter, [7]), toy_cache(toy_map(), list(GRAMS)))
    config = config_of(mode, sampling, LENGTH, verification=verification)
    length = FixedLength(0 if mode == "plain" else 4, source="copy" if mode == "lookup" else "draft")
    return list(decode_prompt(models, PROMPT, [0, 3], config, length, SplitMix64(1)))


def runs() -> Iterator[tuple[Mode, SamplingConfig, Verification]]:
    kinds: list[tuple[Mode, Verification]] = [(mode, "token") for mode in MODES] + [("trie", "block")]
    return ((m, s, v) for m, v in kinds for s in SETTINGS)


@pytest.mark.parametrize("rows", BAD_ROWS)
def test_a_target_that_gives_no_distribution_is_named(rows: str) -> None:
    for mode, sampling, verification in runs():
        with pytest.raises(LogitsError, match="largest logit of the target is") as caught:
            generate(spoiled(2, len(TARGET), rows), ContextModel(3, len(DRAFT)), mode, sampling, verification)
        assert caught.value.fault == "logits"


@pytest.mark.parametrize("rows", BAD_ROWS)
def test_a_drafter_that_gives_no_distribution_drafts_nothing(rows: str) -> None:
    for mode, sampling, verification in runs():
        rounds = generate(
            ContextModel(2, len(TARGET)), spoiled(3, len(DRAFT), rows), mode, sampling, verification
        )
        assert sum(len(r.emitted) for r in rounds) == LENGTH
        assert not any(r.draft for r in rounds)
        asked = mode not in ("plain", "lookup")
        assert sum(r.unsound for r in rounds) == (len(rounds) - 1 if asked else 0)  # the last has no room


@pytest.mark.parametrize("chances", [(), (1.0,) * CLASSES])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_a_draft_ends_where_no_id_that_a_grammar_allows_has_weight(
    temperature: float, chances: tuple[float, ...]
) -> None:
    """The second row is -inf at each of them: nothing forbidden is drawn, and no weights are summed."""
    drafter = spoiled(3, len(DRAFT), "one is left")  # id 1
    plan = Plan("draft", 2, chances=chances, least=(0.0,))
    masks = [np.arange(len(DRAFT)) == 1, np.arange(len(DRAFT)) != 1]
    draft = Drafter(drafter, [7]).propose(
        [], plan, temperature, np.array([2]), SplitMix64(1), lambda drawn: masks[len(drawn)]
    )
    assert (draft.tokens, draft.unsound) == ([1], True)


@pytest.mark.parametrize("rows", ABSURD_ROWS)
@pytest.mark.parametrize("role", ["target", "drafter"])
def test_absurd_numbers_are_numbers(rows: str, role: str) -> None:
    """Greedy text stays the target's own, and nothing fails at any setting."""
    for mode, sampling, verification in runs():
        target, drafter = ContextModel(2, len(TARGET)), ContextModel(3, len(DRAFT))
        target = spoiled(2, len(TARGET), rows) if role == "target" else target
        drafter = spoiled(3, len(DRAFT), rows) if role == "drafter" else drafter
        rounds = generate(target, drafter, mode, sampling, verification)
        text = [t for r in rounds for t in r.emitted]
        assert len(text) == LENGTH
        if sampling.temperature == 0.0:
            plain = generate(target, drafter, "plain", sampling, "token")
            assert text == [t for r in plain for t in r.emitted]


@pytest.mark.parametrize(("verification", "rows"), [("token", "NaN"), ("block", "one infinity")])
def test_drafts_that_end_at_a_spoiled_row_leave_the_targets_distribution(
    verification: Verification, rows: str
) -> None:
    """Rows are spoiled after some texts: what was drawn before them is verified as always."""
    case = Case("trie", verification, seed=1, count=2, grams=("FLAKE", "FO"), bad_rows=rows)
    assert total_variation(distribution_of_output(case), case) < 1e-9
    case = Case("trie", verification, SamplingConfig(0.6), seed=5, grams=("FO",), bad_rows=rows)
    assert total_variation(distribution_of_output(case), case) < 1e-9
