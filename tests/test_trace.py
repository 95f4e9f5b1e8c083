"""Traces: what is kept of a round is what was, and recording changes nothing of what is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import adapter_of
from omnidraft import Session, TraceStore, Weights, load, read_traces
from omnidraft.runtime.draft_length import FixedLength
from omnidraft.runtime.drafter import Draft, Drafter
from omnidraft.runtime.judged import Judge, judge_decisions, judge_match
from omnidraft.runtime.proposer import written
from omnidraft.runtime.rng import SplitMix64
from omnidraft.runtime.round import MODES, Mode, Pair, Round, Settings, Verification, rule_for, speculate
from omnidraft.runtime.sampler import Sampling
from omnidraft.runtime.trace import FLOOR, Kind, Traced, Vocabularies
from omnidraft.runtime.trace_payload import MODES as FILE_MODES
from omnidraft.runtime.tracer import Tracer, largest
from omnidraft.runtime.translator import Proposal
from tiny_worlds import random_text, random_weights, without_drafter
from toy import DRAFT, TARGET, ContextModel, softmax, toy_cache, toy_map

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
    sampling = Sampling(temperature, repetition_penalty=penalty)
    tracer = Tracer(TOY, lambda: True) if trace else None
    settings = Settings(rule_for(mode, temperature, verification), sampling, 40, (), trace=tracer)
    count = FixedLength(0 if mode == "plain" else 5)
    return pair, list(speculate(pair, PROMPT, [0, 3, 1], settings, count, SplitMix64(seed)))


# What is kept of a round


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("temperature", "penalty"), [(0.0, 1.0), (0.7, 1.3)])
def test_each_token_has_the_targets_own_law_before_it(mode: Mode, temperature: float, penalty: float) -> None:
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
                assert token.law.ids.tolist() == kept.tolist()
                assert np.allclose(token.law.probabilities, p[kept], rtol=2**-11)
                assert token.law.rest == pytest.approx(1 - p[kept].sum(), abs=1e-5)
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
    wanted: list[tuple[Mode, float, Judge]] = [
        ("trie", 1.0, judge_decisions),
        ("direct", 1.0, judge_decisions),
        ("match", 1.0, judge_match),
        ("direct", 0.0, judge_match),
    ]
    for mode, temperature, judge in wanted:
        assert rule_for(mode, temperature).judge is judge  # type: ignore[attr-defined]


def test_many_tokens_keep_the_largest() -> None:
    weights = np.full(10, 0.05, dtype=np.float32)
    weights[[3, 8]] = 0.3
    found = largest(weights * 7, 7.0, 1.0, 4)
    assert found.ids.tolist() == [0, 1, 3, 8]  # ties: the lowest ids
    assert found.rest == pytest.approx(0.3)


def test_a_row_that_is_no_law_is_not_recorded() -> None:
    tracer = Tracer(TOY, lambda: True)
    assert tracer.row(np.array([0.0, np.nan])) is None
    assert tracer.row(np.array([0.0, -np.inf])) is not None


def test_modes_are_those_of_the_file() -> None:
    assert FILE_MODES == MODES


# Sessions


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    (tmp_path / "weights").mkdir()
    return random_weights(tmp_path / "weights", np.random.default_rng(5))


def say(session: Session, request: dict[str, Any]) -> tuple[list[int], list[tuple[int, ...]], int]:
    found = session.generate("abcd ab", max_new_tokens=30, seed=3, ignore_eos=True, **request)
    pieces = list(found)
    return found.token_ids, [p.round.draft for p in pieces if p.round], session.choose.state


REQUESTS: list[dict[str, Any]] = [
    {"mode": mode, "temperature": temperature, "verification": verification, "num_draft_tokens": count}
    for mode in MODES
    for temperature in (0.0, 1.0)
    for verification, count in (("token", 3), ("block", "auto"))
]


@pytest.mark.parametrize("drafter", [True, False])
def test_recording_changes_nothing(weights: Weights, tmp_path: Path, drafter: bool) -> None:
    weights = weights if drafter else without_drafter(weights)
    plain, recording = Session(weights), Session(weights, trace=tmp_path / "trace")
    said = []
    for request in REQUESTS:
        said.append(say(plain, request))
        assert say(recording, request) == said[-1], request
    assert recording.trace is not None
    recording.trace.close()
    found = list(read_traces(tmp_path / "trace", Vocabularies.of(weights.vocab_map)))
    assert [(t.start.mode, t.start.temperature) for t in found] == [
        (r["mode"], r["temperature"]) for r in REQUESTS
    ]
    assert [[t.token_id for t in traced.tokens] for traced in found] == [ids for ids, _, _ in said]


def recorded(session: Session) -> list[Traced]:
    assert session.trace is not None
    return list(read_traces(session.trace.path))


def test_nothing_is_recorded_unless_asked(weights: Weights) -> None:
    session = Session(weights)
    assert session.trace is None
    found = list(session.generate("abcd", max_new_tokens=5))
    assert all(piece.round is not None and piece.round.traced is None for piece in found)


def test_a_pause_leaves_a_gap_and_the_text_goes_on(weights: Weights, tmp_path: Path) -> None:
    session = Session(weights, trace=tmp_path / "trace")
    assert session.trace is not None
    answer = session.generate("abcd ab", max_new_tokens=24, ignore_eos=True, num_draft_tokens=2)
    for i, _ in enumerate(answer):
        if i == 1:
            session.trace.pause()
        if i == 3:
            session.trace.resume()
    whole = session.pair.context
    first, second = recorded(session)
    assert not first.start.continues and second.start.continues
    assert len(first.rounds) == 2
    begun = list(second.start.context)
    assert begun == whole[: len(begun)]
    assert begun + [d for r in second.rounds for d in r.pieces] == whole
    said = [t.token_id for t in first.tokens], [t.token_id for t in second.tokens]
    assert answer.token_ids[: len(said[0])] == said[0]
    assert answer.token_ids[-len(said[1]) :] == said[1]
    assert len(said[0]) + len(said[1]) < len(answer.token_ids)


def test_conversations_and_resumed_answers(weights: Weights, tmp_path: Path) -> None:
    session = Session(weights, trace=tmp_path / "trace")
    session.chat("ab", max_new_tokens=6).finish()
    next(iter(session.chat("cd", max_new_tokens=12, ignore_eos=True)))
    session.save(tmp_path / "talk")
    assert session.trace is not None
    other = Session(weights, trace=session.trace)
    other.load(tmp_path / "talk")
    other.resume().finish()
    first, second, third = recorded(session)
    assert second.start.context[: len(first.start.context)] == first.start.context
    assert third.start.continues and not second.start.continues
    assert third.start.context == second.start.context + tuple(d for r in second.rounds for d in r.pieces)


def test_a_cancelled_answer_is_kept_as_far_as_it_went(weights: Weights, tmp_path: Path) -> None:
    session = Session(weights, trace=tmp_path / "trace")
    answer = session.generate("abcd ab", max_new_tokens=24, ignore_eos=True)
    for i, _ in enumerate(answer):
        if i == 2:
            answer.cancel()
    assert answer.stop_reason == "cancelled"
    (found,) = recorded(session)
    assert [t.token_id for t in found.tokens] == answer.token_ids


def test_random_sessions(tmp_path: Path) -> None:
    """Any text, mode and length: every record reads back, and its tokens are what was said."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        place = tmp_path / str(seed)
        place.mkdir()
        weights = random_weights(place, rng)
        session = Session(weights, trace=place / "trace")
        said: list[Sequence[int]] = []
        for _ in range(4):
            answer = session.generate(
                random_text(rng, 10),
                max_new_tokens=int(rng.integers(1, 30)),
                mode=str(rng.choice(MODES)),  # type: ignore[arg-type]
                temperature=float(rng.choice([0.0, 1.0])),
                seed=1,
                stop=["ab"],
            ).finish()
            said.append(answer.token_ids)
        assert [[t.token_id for t in found.tokens] for found in recorded(session)] == said


def test_two_sessions_may_share_a_store(weights: Weights, tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "trace", Vocabularies.of(weights.vocab_map))
    one, other = (Session(weights, trace=store) for _ in range(2))
    a, b = (iter(s.generate("ab", max_new_tokens=9, ignore_eos=True, seed=1)) for s in (one, other))
    for _ in range(9):
        next(a, None), next(b, None)
    first, second = read_traces(store.path)
    assert first.start == replace(second.start)
    assert [t.token_id for t in first.tokens] == [t.token_id for t in second.tokens]


def test_another_adapter_begins_another_record(bundle: Path, tmp_path: Path) -> None:
    session = load(bundle, trace=tmp_path / "trace")
    adapter = adapter_of(session.bundle, "drafter")
    answer = session.generate("Once upon a time", max_new_tokens=24, ignore_eos=True, num_draft_tokens=2)
    for i, _ in enumerate(answer):
        if i == 3:
            session.use_adapter(adapter)
    first, second = recorded(session)
    assert (first.start.drafter_adapter, second.start.drafter_adapter) == (None, adapter.digest)
    assert second.start.target_adapter is None and second.start.continues
    assert [t.token_id for t in first.tokens + second.tokens] == answer.token_ids
