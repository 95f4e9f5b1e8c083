"""Traces: what is kept of a round is what was, in every mode and at every temperature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.proposer import written
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import (
    MODES,
    Mode,
    Pair,
    Round,
    Settings,
    Verification,
    rule_for,
    speculate,
)
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.traces.labels import Labeller, label_decisions, label_match
from omnidraft.runtime.traces.trace import FLOOR, Kind
from omnidraft.runtime.traces.trace_payload import MODES as FILE_MODES
from omnidraft.runtime.traces.tracer import Tracer, largest
from support.toy import DRAFT, TARGET, ContextModel, softmax, toy_cache, toy_map

TOY = toy_map()
PROMPT = [0, 3, 1]


def rounds(
    mode: Mode,
    temperature: float,
    *,
    seed: int = 0,
    trace: bool = True,
    verification: Verification = "token",
    penalty: float = 1.0,
) -> tuple[Pair, list[Round]]:
    pair = Pair(
        ContextModel(2 * seed, len(TARGET)),
        Drafter(ContextModel(2 * seed + 1, len(DRAFT)), (7,)),
        toy_cache(TOY, ["FO"]),
    )
    sampling = SamplingConfig(temperature, repetition_penalty=penalty)
    tracer = Tracer(TOY, lambda: True) if trace else None
    settings = Settings(rule_for(mode, temperature, verification), sampling, 40, (), trace=tracer)
    count = FixedLength(0 if mode == "plain" else 5)
    return pair, list(speculate(pair, PROMPT, [0, 3, 1], settings, count, SplitMix64(seed)))


# What is kept of a round


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("temperature", "penalty"), [(0.0, 1.0), (0.7, 1.3)])
def test_each_token_has_the_targets_own_distribution_before_it(
    mode: Mode, temperature: float, penalty: float
) -> None:
    """At temperature 1, without the penalty, whatever was sampled with."""
    for seed in range(5):
        pair, found = rounds(mode, temperature, seed=seed, penalty=penalty)
        assert isinstance(pair.target, ContextModel)
        text = list(PROMPT)
        for each in found:
            assert each.traced is not None
            assert tuple(t.token_id for t in each.traced.tokens) == each.emitted
            assert [t.accepted for t in each.traced.tokens] == [
                i < each.accepted for i in range(len(each.emitted))
            ]
            for token in each.traced.tokens:
                p = softmax(pair.target.row(text), 1.0)
                assert token.surprisal == pytest.approx(-np.log(p[token.token_id]), abs=1e-5)
                kept = np.flatnonzero(p >= FLOOR)
                assert token.distribution.ids.tolist() == kept.tolist()
                assert np.allclose(token.distribution.probabilities, p[kept], rtol=2**-11)
                assert token.distribution.rest == pytest.approx(1 - p[kept].sum(), abs=1e-5)
                check_roots(token.roots.ids, token.roots.probabilities, token.unspelled, p)
                text.append(token.token_id)


def check_roots(ids: Any, masses: Any, unspelled: float, p: Any) -> None:
    """Masses by the first draft token of each spelling, added up one by one; active or not."""
    wanted = np.zeros(len(DRAFT))
    for target in TOY.leaves:
        wanted[TOY.spell(int(target))[0]] += p[target]
    kept = np.flatnonzero(wanted >= FLOOR)
    assert ids.tolist() == kept.tolist()
    assert np.allclose(masses, wanted[kept], rtol=2**-11)
    assert unspelled == pytest.approx(1 - wanted.sum(), abs=1e-5)
    assert unspelled > 0  # X


@pytest.mark.parametrize("mode", [m for m in MODES if m != "lookup"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_pieces_are_what_the_draft_context_grew_by(mode: Mode, temperature: float) -> None:
    for seed in range(12):
        pair, found = rounds(mode, temperature, seed=seed)
        traced = [each.traced for each in found if each.traced]
        assert [0, 3, 1] + [d for each in traced for d in each.pieces] == pair.context


def test_a_long_draft_token_is_the_first_parts_and_holds_the_others() -> None:
    draft, proposal = Draft([DRAFT.index("sfo"), 1]), Proposal([0, 1, 4, 1], ends=[1, 1, 1, 2])
    found = written(draft, proposal, [0, 1, 4, 1, 8], TOY)
    assert [each.draft_ids for each in found] == [[6], [], [], [1], []]
    assert [each.inside for each in found] == [False, True, True, False, False]
    found = written(draft, proposal, [0, 1, 5], TOY)  # it stands in part: spelled anew
    assert [(each.draft_ids, each.inside) for each in found] == [
        ([0], False),
        ([1], False),
        ([1, 2, 3], False),
    ]


def test_labels_are_the_chances_that_the_verifier_went_by() -> None:
    """Over many rounds each label is the share in which its decision passed."""
    for mode, temperature, kinds in (
        ("trie", 1.0, {Kind.BEGIN, Kind.GO_ON, Kind.END, Kind.EXPAND}),
        ("match", 1.0, {Kind.WHOLE}),
    ):
        seen: dict[Kind, list[tuple[float, bool]]] = {}
        for seed in range(80):
            _, found = rounds(mode, temperature, seed=seed)  # type: ignore[arg-type]
            for each in found:
                assert each.traced is not None
                for i, judged in enumerate(each.traced.judged):
                    refused = i == len(each.traced.judged) - 1 and each.passed < each.tested
                    seen.setdefault(judged.kind, []).append((judged.label, not refused))
        assert set(seen) - {Kind.DEAD_END} == kinds
        for kind, pairs in seen.items():
            labels, passed = np.array(pairs, dtype=float).T
            deviation = np.sqrt(np.mean(labels * (1 - labels)) / len(labels)) + 1e-9
            assert abs(labels.mean() - passed.mean()) < 4 * deviation, (mode, kind)


def test_greedy_labels_are_0_or_1() -> None:
    for seed in range(10):
        for each in rounds("trie", 0.0, seed=seed)[1]:
            assert each.traced is not None
            labels = [judged.label for judged in each.traced.judged]
            assert labels == [1.0] * each.accepted + [0.0] * (len(labels) - each.accepted)


def test_block_verification_is_judged_decision_by_decision() -> None:
    _, found = rounds("trie", 1.0, verification="block")
    assert any(each.traced and each.traced.judged for each in found)
    for each in found:
        assert each.traced is not None
        assert all(0.0 <= judged.label <= 1.0 for judged in each.traced.judged)
        assert all(judged.draft < each.tested for judged in each.traced.judged)


def test_each_rule_has_its_judge() -> None:
    wanted: list[tuple[Mode, float, Labeller]] = [
        ("trie", 1.0, label_decisions),
        ("direct", 1.0, label_decisions),
        ("match", 1.0, label_match),
        ("direct", 0.0, label_match),
    ]
    for mode, temperature, judge in wanted:
        assert rule_for(mode, temperature).judge is judge  # type: ignore[attr-defined]


def test_many_tokens_keep_the_largest() -> None:
    weights = np.full(10, 0.05, dtype=np.float32)
    weights[[3, 8]] = 0.3
    found = largest(weights * 7, 7.0, 1.0, 4)
    assert found.ids.tolist() == [0, 1, 3, 8]  # ties: the lowest ids
    assert found.rest == pytest.approx(0.3)


def test_of_many_ties_the_lowest_are_kept() -> None:
    weights = np.full(900, 1e-3, dtype=np.float32)
    weights[[450, 700]] = 0.05
    assert largest(weights, 1.0, 1.0, 64).ids.tolist() == [*range(62), 450, 700]


def test_what_sums_are_off_by_is_no_mass_without_a_spelling() -> None:
    """All target tokens of the toy have a spelling; float32 sums say 1 within some 1e-7 only."""
    tracer, rng = Tracer(TOY, lambda: True), np.random.default_rng(0)
    spelled = {int(leaf) for leaf in TOY.leaves}
    for _ in range(200):
        logits = rng.normal(size=len(TARGET)).astype(np.float32)
        logits[[t for t in range(len(TARGET)) if t not in spelled]] = -np.inf
        row = tracer.row(logits)
        assert row is not None and tracer.roots(row)[1] == 0.0


def test_a_row_that_is_no_distribution_is_not_recorded() -> None:
    tracer = Tracer(TOY, lambda: True)
    assert tracer.row(np.array([0.0, np.nan])) is None
    assert tracer.row(np.array([0.0, -np.inf])) is not None


def test_modes_are_those_of_the_file() -> None:
    assert FILE_MODES == MODES
