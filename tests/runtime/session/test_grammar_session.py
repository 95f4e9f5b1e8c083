"""Sessions whose texts belong to a grammar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnidraft import GenerationConfig, LanguageModel, TextSession, read_traces
from omnidraft.errors import GrammarError, SessionError
from omnidraft.grammar import from_choices, from_regex

SCHEMA = {
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "n": {"type": "integer"},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "n", "ok"],
}
QUESTION = "How many legs do 3 cats have?"
SAMPLED = GenerationConfig(max_new_tokens=60, temperature=1.0, seed=5)


class Person:
    """What a pydantic model offers."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return SCHEMA

    @classmethod
    def model_validate_json(cls, text: str) -> Person:
        return cls(json.loads(text))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_greedy_text_is_that_of_plain_decoding(loaded: LanguageModel, temperature: float) -> None:
    session = TextSession(loaded)
    for seed in range(4):
        texts = []
        for mode in ("plain", "lookup", "trie"):
            session.reset()
            answer = session.chat(
                QUESTION, SAMPLED, grammar=SCHEMA, temperature=temperature, mode=mode, seed=seed
            )
            assert set(answer.finish().parsed) == {"name", "n", "ok"} and answer.stop_reason == "complete"
            texts.append(answer.text)
        if temperature == 0.0:
            assert len(set(texts)) == 1
            assert answer.statistics.rounds < len(answer.token_ids), "fixed bytes are proposed"


def test_a_value_is_parsed_by_its_format(loaded: LanguageModel) -> None:
    session = TextSession(loaded)
    answer = session.generate(QUESTION, SAMPLED, grammar=Person)
    with pytest.raises(SessionError, match="the output is not whole"):
        answer.parsed  # noqa: B018
    assert isinstance(answer.finish().parsed, Person) and set(answer.parsed.value) == {"name", "n", "ok"}
    assert session.generate(QUESTION, SAMPLED, grammar=from_choices(["one", "two"])).finish().parsed in (
        "one",
        "two",
    )


def test_a_value_that_a_stop_string_cut_is_not_parsed(loaded: LanguageModel) -> None:
    answer = TextSession(loaded).generate(QUESTION, SAMPLED, grammar=SCHEMA, stop=('"',)).finish()
    with pytest.raises(SessionError, match="leave out `stop`"):
        answer.parsed  # noqa: B018


@pytest.mark.parametrize("value", [{"const": object()}, "order.json", ["one"], {"propertys": {}}])
def test_what_is_no_schema_is_refused_with_a_remedy(loaded: LanguageModel, value: object) -> None:
    with pytest.raises(GrammarError) as caught:
        TextSession(loaded).generate(QUESTION, SAMPLED, grammar=value)  # type: ignore[arg-type]
    assert caught.value.remedy


def test_the_value_so_far_can_be_read_at_each_piece(loaded: LanguageModel) -> None:
    answer = TextSession(loaded).generate(QUESTION, SAMPLED, grammar=SCHEMA)
    values = [dict(answer.partial or {}) for _ in answer]
    assert values[-1] == answer.parsed == answer.partial
    assert all(list(answer.parsed)[: len(each)] == list(each) for each in values)
    assert sum(each != answer.parsed for each in values) > 3
    word = TextSession(loaded).generate(QUESTION, SAMPLED, grammar=from_choices(["one", "two"]))
    assert word.partial == "" and word.finish().partial == word.text


def test_a_text_may_end_before_it_must(loaded: LanguageModel) -> None:
    """Where more may follow, the target decides: the text ends by its end token or at its length."""
    session, grammar = TextSession(loaded), from_regex("[a-z0-9]+")
    reasons = set()
    for seed in range(12):
        answer = session.generate(
            QUESTION, SAMPLED, grammar=grammar, max_new_tokens=24, mode="plain", seed=seed
        ).finish()
        assert grammar.matches(answer.text.encode()) and answer.parsed == answer.text
        reasons.add(answer.stop_reason)
    assert reasons == {"eos", "length"}


def test_a_generation_that_has_no_room_changes_nothing(loaded: LanguageModel) -> None:
    session = TextSession(loaded)
    before = session.chat(QUESTION, max_new_tokens=5).finish()
    with pytest.raises(GrammarError, match="there is room for 4"):
        session.chat("And then?", grammar=SCHEMA, max_new_tokens=4)
    assert session.answer is before and session.message == QUESTION


def test_an_answer_is_generated_again_in_its_grammar(loaded: LanguageModel) -> None:
    session = TextSession(loaded)
    session.chat(QUESTION, SAMPLED, grammar=Person).finish()
    for each in (session, session.copy(), session):
        again = each.regenerate(SAMPLED, seed=6).finish()
        assert isinstance(again.parsed, Person) and set(again.parsed.value) == {"name", "n", "ok"}
    session.chat("And then?", max_new_tokens=5).finish()
    assert not session.regenerate(max_new_tokens=5).has_grammar
    session.undo()
    assert not session.regenerate(max_new_tokens=5).has_grammar, "of the message before, nothing is known"


def test_an_answer_in_a_grammar_is_saved_as_cancelled(loaded: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(loaded)
    answer = session.chat(QUESTION, SAMPLED, grammar=SCHEMA)
    next(iter(answer))
    session.save(tmp_path / "half.session")
    with pytest.raises(SessionError, match="is resumed by its own iterator"):
        session.resume()
    answer.finish()
    session.save(tmp_path / "whole.session")
    for name in ("half", "whole"):
        session.load(tmp_path / f"{name}.session")
        assert session.answer is not None and session.answer.stop_reason == "cancelled"
    assert session.answer is not None and session.answer.text == answer.text
    assert session.chat("And then?", max_new_tokens=5).finish().text


def test_nothing_of_a_grammar_is_recorded(loaded: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(loaded, trace=tmp_path / "trace")
    session.chat(QUESTION, SAMPLED, grammar=SCHEMA).finish()
    session.chat("And then?", max_new_tokens=5).finish()
    assert len(list(read_traces(tmp_path / "trace"))) == 1
