"""Conversations of a session: system prompt, lists of messages, undo, regenerate, thoughts, statistics.

In random worlds of two vocabularies and two models, so that each case runs in milliseconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnidraft import Generation, GenerationConfig, LanguageModel, TextSession
from omnidraft.errors import PromptError, SessionError
from omnidraft.runtime.chat.prompt_template import PromptTemplate, SystemSlot, ThinkTags
from support.tiny_worlds import random_text, random_weights

WORLDS = range(6)
GREEDY = GenerationConfig(max_new_tokens=9, num_draft_tokens=3)
SAMPLED = GenerationConfig(max_new_tokens=9, mode="plain", temperature=1.0, seed=5)
TEMPLATE = PromptTemplate("<s>b", "<s>", " d", "a", lead=" ", system=SystemSlot("<s>c", "d<s>b"))


def world(place: Path, number: int, prompt: PromptTemplate = TEMPLATE) -> LanguageModel:
    """A random world with a template that has a place for a system prompt, and room for some turns."""
    loaded = random_weights(place, np.random.default_rng(number))
    while loaded.bundle.target.kv.max_length < 100:
        number += 1000
        loaded = random_weights(place, np.random.default_rng(number))
    return replace(loaded, bundle=replace(loaded.bundle, prompt=prompt))


def texts(number: int) -> list[str]:
    rng = np.random.default_rng(number)
    return [random_text(rng, 6) for _ in range(3)]


def outcome(answer: Generation) -> tuple[Any, ...]:
    answer.finish()
    return answer.prompt_ids, tuple(answer.token_ids), answer.text, answer.stop_reason


@pytest.mark.parametrize("number", WORLDS)
@pytest.mark.parametrize("config", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_undo_and_regenerate_leave_what_was_never_said(
    number: int, config: GenerationConfig, tmp_path: Path
) -> None:
    loaded, (first, second, third) = world(tmp_path, number), texts(number)
    session, other = TextSession(loaded), TextSession(loaded)
    expected = [outcome(other.chat(first, config)), outcome(other.chat(third, config))]
    assert outcome(session.chat(first, config)) == expected[0]
    next(iter(session.chat(second, config)))  # a started answer can be taken back, too
    assert session.undo() == second
    assert session.message is None and len(session.turns) == 1
    assert outcome(session.chat(third, config)) == expected[1]
    assert outcome(session.regenerate(config)) == expected[1]
    assert session.undo() == third
    assert outcome(session.regenerate(config)) == expected[0], "of the message before, too"
    assert session.undo() == first and session.turns == []
    for act in (session.undo, session.regenerate):
        with pytest.raises(SessionError, match=r"no (message|answer)"):
            act()
    assert outcome(session.chat(first, config)) == expected[0]


@pytest.mark.parametrize("number", WORLDS)
def test_a_list_of_messages_is_the_conversation_that_the_session_had(number: int, tmp_path: Path) -> None:
    """Its own answers keep their ids, also from their text; answers of others are encoded."""
    loaded, (first, second, third) = world(tmp_path, number), texts(number)
    session, listing = TextSession(loaded), TextSession(loaded)
    session.system = "ab"
    messages = [{"role": "system", "content": "ab"}]
    for message in (first, second, third):
        messages.append({"role": "user", "content": message})
        mine, listed = session.chat(message, GREEDY), listing.chat(messages, GREEDY)
        assert outcome(mine) == outcome(listed)
        # The first answer's turn was read before: only what is new in the list is read.
        assert listed.statistics.read <= len(listed.prompt_ids) - len(listing.turns)
        messages.append({"role": "assistant", "content": listed.text.strip()})
    assert (listing.system, listing.turns) == ("ab", session.turns)
    fresh = TextSession(loaded).chat([*messages, {"role": "user", "content": "a"}], GREEDY)
    written = loaded.target_tokenizer.text_of(fresh.prompt_ids).decode()
    assert written.startswith(f"cabdb{first} ")
    listing.chat([{"role": "user", "content": first}], GREEDY)
    assert (listing.system, listing.turns) == (None, []), "the list is all of the conversation"


def test_a_list_that_is_no_conversation_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    session = TextSession(world(tmp_path, 0))
    before = outcome(session.chat("ab", GREEDY))
    user, assistant = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    refused: list[tuple[Any, str]] = [
        ([], "last message is not the user's"), ([user, assistant], "last message is not the user's"),
        ([user, user], "message 2 has the role user where one of the assistant is due"),
        ([assistant], "message 1 has the role assistant where one of the user is due"),
        ([user, assistant, {"role": "system", "content": "a"}, user], "message 3 has the role system"),
        ([{"role": "other", "content": "a"}], "message 1 has the role 'other'; the roles are"),
        ([{"role": "tool", "content": "a"}], "message 1 has the role tool where one of the user is due"),
        ([{"role": "user"}], "message 1 is not an object of role and content alone"),
        ([{"role": "user", "content": ["a"]}], "the content of message 1 is a list; give text"),
        ([{"role": "user", "content": " \n"}], "message 1, of the user, has no text"),
        ([{"role": "user", "content": "\ud800"}], "half a surrogate pair"),
        (7, "the prompt is a int; give a text, or a list of messages"), ("", "empty"),
    ]  # fmt: skip
    for messages, sentence in refused:
        with pytest.raises(PromptError, match=re.escape(sentence)):
            session.chat(messages, GREEDY)
    assert session.message == "ab" and session.answer is not None
    assert session.answer.prompt_ids == before[0]


def test_a_template_without_a_place_refuses_a_system_prompt_in_one_sentence(tmp_path: Path) -> None:
    session = TextSession(world(tmp_path, 0, replace(TEMPLATE, system=None)))
    listed = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]

    def give_system() -> None:
        session.system = "a"

    acts: list[Callable[[], object]] = [give_system, lambda: session.chat(listed, GREEDY)]
    for act in acts:
        with pytest.raises(PromptError, match="has no place for a system prompt; put the instructions"):
            act()
    assert session.system is None


@pytest.mark.parametrize("number", WORLDS)
def test_a_saved_conversation_has_its_system_prompt_and_what_was_taken_back(
    number: int, tmp_path: Path
) -> None:
    loaded, (first, second, third) = world(tmp_path, number), texts(number)
    session, other = TextSession(loaded), TextSession(loaded)
    session.system = "dc"
    session.chat(first, GREEDY).finish()
    session.chat(second, GREEDY).finish()
    session.undo()
    session.save(tmp_path / "a.session")
    other.load(tmp_path / "a.session")
    assert other.system == "dc" and other.turns == session.turns and other.answer is None
    assert outcome(other.chat(third, GREEDY)) == outcome(session.chat(third, GREEDY))


@pytest.mark.parametrize("earlier", ["keep", "cut", "trim"])
@pytest.mark.parametrize("number", WORLDS)
def test_thoughts_stream_apart_and_leave_the_conversation(number: int, earlier: Any, tmp_path: Path) -> None:
    """The tags are letters that the models write, so that thoughts begin, end, or do not end."""
    tags = ThinkTags("d", "c", earlier)
    loaded, (first, second, _) = (
        world(tmp_path, number, replace(TEMPLATE, think=tags, begin="a d ")),
        texts(number),
    )
    for begin in ("", " d "):
        prompt = replace(loaded.bundle.prompt, begin=begin)
        session = TextSession(replace(loaded, bundle=replace(loaded.bundle, prompt=prompt)))
        answer = session.chat(first, replace(SAMPLED, num_draft_tokens=2, mode="trie"))
        pieces = list(answer)
        assert answer.begins_inside == (begin != "")
        assert "".join(piece.text for piece in pieces) == answer.text
        assert [i for piece in pieces for i in piece.token_ids] == answer.token_ids
        kinds = [piece.kind == "thought" for piece in pieces if piece.text]
        assert kinds == sorted(kinds, reverse=True), "at most one thought, at the beginning"
        said = "".join(piece.text for piece in pieces if piece.kind == "text")
        assert answer.answer == (said.lstrip() if any(kinds) else said)
        session.chat(second, GREEDY)
        kept = loaded.target_tokenizer.text_of(session.turns[0].answer).decode("utf-8", "replace")
        assert (
            kept
            == {"keep": answer.text, "cut": said, "trim": said.lstrip("\n") if any(kinds) else said}[earlier]
        )


def test_statistics_of_answers_and_of_the_session(tmp_path: Path) -> None:
    session = TextSession(world(tmp_path, 1))
    first = session.chat("abcd", GREEDY).finish()
    s = first.statistics
    assert s.read == len(first.prompt_ids) - 1 and s.read_seconds > 0 and s.read_per_second > 0
    assert s.first_token_seconds >= s.read_seconds
    assert s.tokens_per_second == s.emitted / s.total_seconds
    second = session.chat("dd", GREEDY).finish()
    assert 0 < second.statistics.read < len(second.prompt_ids) - 1, "only what is new was read"
    stats = session.stats
    assert stats.answers == 2 and stats.totals.emitted == s.emitted + second.statistics.emitted
    assert stats.totals.first_token_seconds == second.statistics.first_token_seconds
    assert stats.totals.lengths == {
        n: s.lengths.get(n, 0) + second.statistics.lengths.get(n, 0)
        for n in s.lengths.keys() | second.statistics.lengths.keys()
    }
    if Path("/proc/self/statm").exists():
        page, resident = os.sysconf("SC_PAGE_SIZE"), Path("/proc/self/statm").read_text("utf-8").split()[1]
        stats = session.stats  # the peak so far
        assert stats.peak_memory is not None
        assert page * int(resident) <= stats.peak_memory <= page * os.sysconf("SC_PHYS_PAGES")
    session.reset()
    assert session.stats.answers == 0 and session.stats.totals.emitted == 0
