"""Copies that compete with drafts: the output has the target's distribution."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pytest

from omnidraft.runtime.decoding.draft_length import MeasuredLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import Verification
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.configs import config_of
from support.enumerate_distribution import LENGTH, UNTOUCHED, Case, Joint, outcomes, total_variation
from support.toy import DRAFT, GRAMS, TARGET, ContextModel, processed, toy_cache, toy_map
from support.tracing import Collector

PROMPT = (0, 3, 1, 4, 0, 3)  # its last two tokens occur before
CHEAP = Costs((1.0, 1.01, 1.02, 1.03), 0.01, 0.0)
COPIES = LengthState(compared=[9.0] * 5, agreed=[9.0] * 5)  # copies were always right
MIXED = LengthState(compared=[3.0] * 5, agreed=[2.0] * 5)


@dataclass(frozen=True)
class Copied:
    """A generation of the default mode, and what its draft length had learned."""

    state: LengthState
    sampling: SamplingConfig = UNTOUCHED
    verification: Verification = "token"
    seed: int = 0
    rounds: int = 1
    most: int = 3


def rounds_of(case: Copied, random: object) -> list[Round]:
    target, drafter = ContextModel(2 * case.seed, len(TARGET)), ContextModel(2 * case.seed + 1, len(DRAFT))
    models = DecoderModels(target, Drafter(drafter), toy_cache(toy_map(), list(GRAMS)))
    config = config_of("trie", case.sampling, case.most, verification=case.verification)
    state = replace(case.state, compared=list(case.state.compared), agreed=list(case.state.agreed))
    length = MeasuredLength(CHEAP, state, copies=config.copies, longest=2)
    loop = decode_prompt(models, PROMPT, [0, 3], config, length, random)  # type: ignore[arg-type]
    return [each for _, each in zip(range(case.rounds), loop, strict=False)]


def distance(case: Copied) -> tuple[float, set[bool]]:
    """The total variation of the output's distribution, and whether rounds were copied."""
    joint: Joint = defaultdict(float)
    copied = set[bool]()

    def run(script: object) -> tuple[int, ...]:
        done = rounds_of(case, script)
        copied.update(each.copied for each in done)
        return tuple(token for each in done for token in each.emitted)

    for emitted, probability in outcomes(run):
        joint[emitted] += probability
    assert sum(joint.values()) == pytest.approx(1.0, abs=1e-12)
    return total_variation(joint, Case("trie", "token", case.sampling, case.seed, prompt=PROMPT)), copied


@pytest.mark.parametrize(
    "sampling", [SamplingConfig(1.0), SamplingConfig(0.6, top_k=6, repetition_penalty=1.3)]
)
@pytest.mark.parametrize("verification", ["token", "block"])
def test_a_copied_round_has_the_targets_distribution(
    verification: Verification, sampling: SamplingConfig
) -> None:
    tv, copied = distance(Copied(COPIES, sampling, verification, seed=3, most=LENGTH))
    assert tv < 1e-9 and copied == {True}


@pytest.mark.parametrize("verification", ["token", "block"])
def test_rounds_from_both_sources_have_the_targets_distribution(verification: Verification) -> None:
    """The second round drafts or copies, as the outcome of the first decides."""
    tv, copied = distance(Copied(MIXED, verification=verification, seed=1, rounds=2, most=2))
    assert tv < 1e-9 and copied == {True, False}


class Repeating(ContextModel):
    """Repeats its last seven tokens, with a probability near 1, and sometimes goes another way."""

    def row(self, context: object) -> np.ndarray:
        logits = np.array(super().row(context))  # type: ignore[arg-type]
        if len(context) % 29:  # type: ignore[arg-type]
            logits[context[-7:][0]] += 9.0  # type: ignore[index]
        return logits


def long_rounds(temperature: float, collector: Collector | None = None) -> tuple[list[Round], list[int]]:
    """A text that repeats, with drafts of a random drafter; the rounds, and the target's own greedy text."""
    prompt, vocab_map = [0, 3, 1, 5, 2, 8, 9, 0, 3, 1], toy_map()
    target = Repeating(1, len(TARGET), max_length=256)
    models = DecoderModels(target, Drafter(ContextModel(1, len(DRAFT))), NgramCache(vocab_map))
    config = config_of("trie", SamplingConfig(temperature), 120)
    length = MeasuredLength(CHEAP, copies=config.copies)
    rounds = list(decode_prompt(models, prompt, [0, 3], config, length, SplitMix64(4), (), collector))
    expected: list[int] = []
    while len(expected) < 120:
        before = [*prompt, *expected]
        expected.append(int(np.argmax(processed(target.row(before), config.sampling, before))))
    return rounds, expected


def test_greedy_text_is_the_targets_own() -> None:
    rounds, expected = long_rounds(0.0)
    assert [token for each in rounds for token in each.emitted] == expected
    assert {each.copied for each in rounds} == {True, False}
    assert len(rounds) < 60, "copies are accepted"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_copied_round_holds_no_draft(temperature: float) -> None:
    collector = Collector(toy_map())
    rounds, _ = long_rounds(temperature, collector)
    copied = [(r, t) for r, t in zip(rounds, collector.traced, strict=True) if r.copied]
    assert len(copied) > 5
    for each, traced in copied:
        assert (each.draft, each.evaluated, each.accepted_drafts) == ((), 0, 0) and each.proposed
        assert [t.accepted for t in traced.tokens].count(True) == each.accepted
