"""Traces of sessions: recording changes nothing of what is said, and pauses, restarts and adapters show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnidraft import LanguageModel, TextSession, TraceStore, load, read_traces
from omnidraft.runtime.session.modes import MODES
from omnidraft.runtime.traces.trace import Traced, Vocabularies
from omnidraft.runtime.traces.trace_memory import TraceMemory
from support.adapters import adapter_of
from support.tiny_worlds import random_weights, without_drafter


@pytest.fixture
def weights(tmp_path: Path) -> LanguageModel:
    (tmp_path / "weights").mkdir()
    return random_weights(tmp_path / "weights", np.random.default_rng(5))


def say(session: TextSession, request: dict[str, Any]) -> tuple[list[int], list[tuple[int, ...]], int]:
    answer = session.generate("abcd ab", max_new_tokens=30, seed=3, ignore_eos=True, **request)
    pieces = list(answer)
    return answer.token_ids, [p.round.draft for p in pieces if p.round], session.text.random.state


REQUESTS: list[dict[str, Any]] = [
    {"mode": mode, "temperature": temperature, "verification": verification, "num_draft_tokens": count}
    for mode in MODES
    for temperature in (0.0, 1.0)
    for verification, count in (("token", 3), ("block", "auto"))
]


@pytest.mark.parametrize("drafter", [True, False])
def test_recording_changes_nothing(weights: LanguageModel, tmp_path: Path, drafter: bool) -> None:
    weights = weights if drafter else without_drafter(weights)
    plain, recording = TextSession(weights), TextSession(weights, trace=tmp_path / "trace")
    output = []
    for request in REQUESTS:
        output.append(say(plain, request))
        assert say(recording, request) == output[-1], request
    assert recording.trace is not None
    recording.trace.close()
    records = list(read_traces(tmp_path / "trace", Vocabularies.of(weights.vocab_map)))
    assert [t.start.mode for t in records] == [r["mode"] for r in REQUESTS]
    assert [[t.token_id for t in traced.tokens] for traced in records] == [ids for ids, _, _ in output]


def recorded(session: TextSession) -> list[Traced]:
    assert session.trace is not None
    return list(read_traces(session.trace.path))


def spelled(session: TextSession, traced: Traced) -> list[int]:
    return [d for token in traced.tokens for d in session.vocab_map.spell(token.token_id)]


def test_nothing_is_recorded_unless_asked(weights: LanguageModel) -> None:
    session = TextSession(weights)
    assert session.trace is None
    session.generate("abcd", max_new_tokens=5).finish()
    session.trace = memory = TraceMemory(Vocabularies.of(session.vocab_map))
    session.generate("abcd", max_new_tokens=5).finish()
    assert len(memory.take()) == 1


def test_a_pause_leaves_a_gap_and_the_text_goes_on(weights: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(weights, trace=tmp_path / "trace")
    assert session.trace is not None
    answer = session.generate("abcd ab", max_new_tokens=24, ignore_eos=True, num_draft_tokens=2)
    for i, _ in enumerate(answer):
        if i == 1:
            session.trace.pause()
        if i == 3:
            session.trace.resume()
    whole = session.text.decoder.context
    first, second = recorded(session)
    assert not first.start.continues and second.start.continues
    assert len(first.rounds) == 2
    begun = list(second.start.context)
    assert begun == whole[: len(begun)] and begun + spelled(session, second) == whole
    output = [t.token_id for t in first.tokens], [t.token_id for t in second.tokens]
    assert answer.token_ids[: len(output[0])] == output[0]
    assert answer.token_ids[-len(output[1]) :] == output[1]
    assert len(output[0]) + len(output[1]) < len(answer.token_ids)


def test_conversations_and_resumed_answers(weights: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(weights, trace=tmp_path / "trace")
    session.chat("ab", max_new_tokens=6).finish()
    next(iter(session.chat("cd", max_new_tokens=12, ignore_eos=True)))
    session.save(tmp_path / "talk")
    assert session.trace is not None
    other = TextSession(weights, trace=session.trace)
    other.load(tmp_path / "talk")
    other.resume().finish()
    first, second, third = recorded(session)
    assert second.start.context[: len(first.start.context)] == first.start.context
    assert third.start.continues and not second.start.continues
    assert list(third.start.context) == [*second.start.context, *spelled(session, second)]


def test_a_cancelled_answer_is_kept_as_far_as_it_went(weights: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(weights, trace=tmp_path / "trace")
    answer = session.generate("abcd ab", max_new_tokens=24, ignore_eos=True)
    for i, _ in enumerate(answer):
        if i == 2:
            answer.cancel()
    assert answer.stop_reason == "cancelled"
    (records,) = recorded(session)
    assert [t.token_id for t in records.tokens] == answer.token_ids


def test_two_sessions_may_share_a_store(weights: LanguageModel, tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "trace", Vocabularies.of(weights.vocab_map))
    one, other = (TextSession(weights, trace=store) for _ in range(2))
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
