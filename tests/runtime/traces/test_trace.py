"""Traces: the record of a round agrees with the round, in every mode and at every temperature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import DecoderState, Round
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.session.decode import DecoderModels, decode
from omnidraft.runtime.session.modes import MODES, Mode, Verification
from omnidraft.runtime.traces.trace import FLOOR, TracedRound
from omnidraft.runtime.traces.tracer import Tracer
from support.configs import config_of
from support.toy import DRAFT, TARGET, ContextModel, softmax, toy_cache, toy_map
from support.tracing import Collector

TOY = toy_map()
PROMPT = [0, 3, 1]


def rounds(
    mode: Mode,
    temperature: float,
    *,
    seed: int = 0,
    verification: Verification = "token",
    penalty: float = 1.0,
) -> tuple[ContextModel, list[TracedRound], list[Round]]:
    """A toy generation: its target, the record of each round, and its rounds."""
    target = ContextModel(2 * seed, len(TARGET))
    models = DecoderModels(
        target,
        Drafter(ContextModel(2 * seed + 1, len(DRAFT)), (7,)),
        toy_cache(TOY, ["FO"]),
    )
    sampling = SamplingConfig(temperature, repetition_penalty=penalty)
    config, collector = config_of(mode, sampling, 40, verification=verification), Collector(TOY)
    count, text = FixedLength(5), DecoderState()
    text.restart(PROMPT, [0, 3, 1], 40, cut_at_eos(()))
    decoded = list(decode(models, text, config, count, SplitMix64(seed), collector))
    assert len(decoded) == len(collector.traced)
    return target, collector.traced, decoded


# The record of a round


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("temperature", "penalty"), [(0.0, 1.0), (0.7, 1.3)])
def test_each_token_has_the_targets_own_distribution_before_it(
    mode: Mode, temperature: float, penalty: float
) -> None:
    """The recorded distribution is at temperature 1 and without the penalty, for any sampling."""
    for seed in range(5):
        target, kept_rounds, outcomes = rounds(mode, temperature, seed=seed, penalty=penalty)
        text = list(PROMPT)
        for each, traced in zip(outcomes, kept_rounds, strict=True):
            assert tuple(t.token_id for t in traced.tokens) == each.emitted
            assert [t.accepted for t in traced.tokens] == [
                i < each.accepted for i in range(len(each.emitted))
            ]
            for token in traced.tokens:
                p = softmax(target.row(text), 1.0)
                assert token.surprisal == pytest.approx(-np.log(p[token.token_id]), abs=1e-5)
                kept = np.flatnonzero(p >= FLOOR)
                assert token.distribution.ids.tolist() == kept.tolist()
                assert np.allclose(token.distribution.probabilities, p[kept], rtol=2**-11)
                assert token.distribution.rest == pytest.approx(1 - p[kept].sum(), abs=1e-5)
                check_roots(token.roots.ids, token.roots.probabilities, token.unspelled, p)
                text.append(token.token_id)


def check_roots(ids: Any, masses: Any, unspelled: float, p: Any) -> None:
    """Masses by the first draft token of each spelling, active or not, as sums of single masses."""
    expected = np.zeros(len(DRAFT))
    for target in TOY.leaves:
        expected[TOY.spell(int(target))[0]] += p[target]
    kept = np.flatnonzero(expected >= FLOOR)
    assert ids.tolist() == kept.tolist()
    assert np.allclose(masses, expected[kept], rtol=2**-11)
    assert unspelled == pytest.approx(1 - expected.sum(), abs=1e-5)
    assert unspelled > 0  # X


def test_a_row_that_is_no_distribution_is_not_recorded() -> None:
    tracer = Tracer(TOY)
    assert tracer.row(np.array([0.0, np.nan])) is None
    assert tracer.row(np.array([0.0, -np.inf])) is not None
