"""Adapters in a session: changed between rounds with the same greedy text; and named in session files."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

from omnidraft.errors import SessionFileError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import file_sha256
from omnidraft.runtime.models.adapter_fit import Role
from omnidraft.runtime.session.api import Generation, LanguageModel, TextSession, load_bundle
from support.adapters import PROMPT, adapter_of, drafters, refusal
from support.manifests import rewrite


@pytest.fixture(scope="module")
def loaded(bundle: Path) -> LanguageModel:
    return load_bundle(bundle, threads=1)


def say(session: TextSession, temperature: float = 0.0) -> Generation:
    return session.generate(PROMPT, max_new_tokens=24, temperature=temperature, seed=3, num_draft_tokens=3)


def drafts_of(answer: Generation) -> list[tuple[int, ...]]:
    return [piece.round.draft for piece in answer if piece.round]


def test_a_drafters_adapter_changes_drafts_and_no_word(session: TextSession) -> None:
    plain = say(session)
    before = drafts_of(plain)
    first, second = drafters(session, 0, 1)
    seen = []
    for each in (first, second, first, None):
        session.use_adapter(each)
        answer = say(session)
        seen.append(drafts_of(answer))
        assert answer.token_ids == plain.token_ids
    assert seen[0] == seen[2] and seen[3] == before
    assert len({tuple(s) for s in seen}) == 3


def test_another_thread_may_swap_at_any_moment(session: TextSession) -> None:
    """A trainer in the background does so: it never waits, and is never refused."""
    plain = say(session).finish().token_ids
    adapters, done, swaps = [*drafters(session, 0, 1), None], threading.Event(), [0]

    def swap() -> None:
        while not done.is_set():
            session.use_adapter(adapters[swaps[0] % 3])
            swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(500):  # a few, on most machines
            assert say(session).finish().token_ids == plain
            if swaps[0] > 20:
                break
    finally:
        done.set()
        thread.join()
    assert swaps[0] > 20


def test_after_a_swap_the_drafter_has_read_its_whole_context_again(session: TextSession) -> None:
    """Its logits are those of a session that had the adapter from the beginning."""
    (adapter,) = drafters(session, 0)
    answer = iter(say(session))
    for _ in range(4):
        next(answer)
    session.use_adapter(adapter)
    next(answer)
    drafter = session.models.drafter
    cached = list(drafter._cached)
    drafter.model.rewind(len(cached) - 1)
    row = drafter.model.score(cached[-1:]).copy()
    fresh = TextSession(session.loaded, adapter=adapter)
    with fresh.exclusive():
        fresh.models.drafter.model.score(cached[:-1], 1)
        assert np.abs(fresh.models.drafter.model.score(cached[-1:]) - row).max() < 1e-4
    bare = TextSession(session.loaded)
    bare.models.drafter.model.score(cached[:-1], 1)
    assert np.abs(bare.models.drafter.model.score(cached[-1:]) - row).max() > 1e-2


def test_a_targets_adapter_changes_what_is_said_from_the_next_round_on(session: TextSession) -> None:
    """After a change in the middle, the rest is what the adapted target generates after that beginning."""
    adapter = adapter_of(session.bundle, "target", 2)
    answer = say(session)
    pieces = iter(answer)
    for _ in range(3):
        next(pieces)
    emitted = len(answer.token_ids)
    session.use_adapter(adapter)
    for _ in pieces:
        pass
    assert session.adapters == {"target": adapter}
    adapted = TextSession(session.loaded, adapter=adapter)
    begun = [*answer.prompt_ids, *answer.token_ids[:emitted]]
    rest = adapted.generate(begun, max_new_tokens=24 - emitted, mode="plain").finish()
    assert answer.token_ids[emitted:] == rest.token_ids
    plain = TextSession(session.loaded).generate(begun, max_new_tokens=24 - emitted, mode="plain").finish()
    assert rest.token_ids != plain.token_ids


def test_both_models_at_once_and_one_taken_away(session: TextSession) -> None:
    for role in ("drafter", "target"):
        session.use_adapter(adapter_of(session.bundle, role, 1))
    assert set(session.adapters) == {"drafter", "target"}
    adapted = say(session).finish().token_ids
    session.use_adapter(None, "drafter")
    assert set(session.adapters) == {"target"}
    assert say(session).finish().token_ids == adapted
    session.use_adapter(None)
    assert say(session).finish().token_ids == say(TextSession(session.loaded)).finish().token_ids


def test_graphs_of_a_fixed_rank_begin_without_an_adapter(session: TextSession, copy: Path) -> None:
    """Its zeros are fed from the first pass on."""
    for role in ("drafter", "target"):
        fix_rank(copy, role, 4)
    fixed = TextSession(load_bundle(copy, threads=1))
    adapters = [adapter_of(session.bundle, role, 1, size=0.3) for role in ("drafter", "target")]
    for given in ([], adapters, [None]):
        for each in given:
            session.use_adapter(each)
            fixed.use_adapter(each)
        due, answer = say(session), say(fixed)
        assert drafts_of(answer) == drafts_of(due)
        assert answer.token_ids == due.token_ids


def fix_rank(bundle: Path, role: Role, rank: int) -> None:
    """Make the adapters of a model inputs of one rank, which must be fed."""
    import onnx

    entry = getattr(open_bundle(bundle), role)
    file, sites = bundle / entry.graph, replace(entry.lora, rank=rank)
    model = onnx.load(file)
    for value in model.graph.input:
        site, _, part = value.name.rpartition(".")
        if part in ("lora_a", "lora_b"):
            value.type.tensor_type.shape.dim[part == "lora_a"].dim_value = sites.rank_of(site)
    kept = [each for each in model.graph.initializer if ".lora_" not in each.name]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.save(model, file)
    listed = {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
    rewrite(bundle, lambda m: (m["files"].update({entry.graph: listed}), m[role]["lora"].update(rank=rank)))


def test_sessions_on_one_graph_have_adapters_of_their_own(
    loaded: LanguageModel, session: TextSession
) -> None:
    adapted = TextSession(loaded, adapter=drafters(session, 0)[0])
    alone = drafts_of(say(session)), drafts_of(say(adapted))
    first, second = say(session), say(adapted)
    drafts: tuple[list[tuple[int, ...]], ...] = ([], [])
    for pieces in zip_longest(first, second):  # round by round in turns
        for answer_drafts, piece in zip(drafts, pieces, strict=True):
            answer_drafts.extend([piece.round.draft] if piece and piece.round else [])
    assert drafts == alone and drafts[0] != drafts[1]
    assert first.token_ids == second.token_ids


def test_a_refused_adapter_leaves_the_old_one(session: TextSession, tmp_path: Path) -> None:
    good = drafters(session, 0)[0]
    session.use_adapter(good)
    assert refusal(lambda: session.use_adapter(good, "target")).fault == "wrong_base"
    path = tmp_path / "cut.safetensors"
    path.write_bytes(b"")
    assert refusal(lambda: session.use_adapter(path)).fault == "truncated"
    assert session.adapters == {"drafter": good}


def test_a_session_file_names_its_adapters(session: TextSession, tmp_path: Path) -> None:
    """With another adapter of the drafter there is a notice; with another one of the target, a refusal."""
    first, second = drafters(session, 0, 1)
    path = tmp_path / "s"
    session.use_adapter(first)
    pieces = iter(say(session))
    for _ in range(3):
        next(pieces)
    session.save(path)
    whole = [*session.answer.token_ids] if session.answer else []
    for _ in pieces:
        pass
    same = TextSession(session.loaded, adapter=first)
    same.load(path)
    assert same.notices == []
    assert drafts_of(same.resume()) and same.answer and session.answer
    assert same.answer.token_ids == session.answer.token_ids and len(whole) < len(session.answer.token_ids)
    for adapter, words in ((second, second.digest[:12]), (None, "no adapter")):
        restored = TextSession(session.loaded, adapter=adapter)
        restored.load(path)
        (notice,) = restored.notices
        assert notice.kind == "other_adapter"
        assert first.digest[:12] in notice.message and words in notice.message
        assert restored.resume().finish().token_ids == session.answer.token_ids  # greedy: the same text
        restored.use_adapter(first)
        restored.load(path)
        assert restored.notices == []
    target = TextSession(session.loaded, adapter=adapter_of(session.bundle, "target"))
    with pytest.raises(SessionFileError, match="was saved with no adapter of the target") as caught:
        target.load(path)
    assert caught.value.fault == "foreign_adapter"
