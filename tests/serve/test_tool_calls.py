"""Tools, by the openai package: calls whose arguments fit, whole and streamed, and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pytest
from openai import OpenAI

from support.made_once import MadeOnce
from support.serving import CHAT, Serving, serving
from support.starter_bundles import export_of

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Oslo"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "description": "", "parameters": SCHEMA}}
CLOCK: Any = {
    "type": "function",
    "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}},
}
ASK: Any = [{"role": "user", "content": "Is it warm in Rome?"}]
NAMED: Any = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture(scope="module")
def served(export_packages: None, made_once: MadeOnce) -> Iterator[Serving]:
    """A starter bundle with room for a list of tools."""
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import FP32

    with serving(made_once("starter-long", export_of("a", Options(FP32, max_length=768)))) as started:
        yield started


@pytest.fixture(scope="module")
def client(served: Serving) -> Iterator[OpenAI]:
    with served.client() as made:
        yield made


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_an_answer_that_must_call_a_tool_does(choice: Any, client: OpenAI, served: Serving) -> None:
    more: Any = {"tools": [WEATHER], "tool_choice": choice, "max_tokens": 80}
    answer = client.chat.completions.create(model=served.model, messages=ASK, **more).choices[0]
    assert answer.finish_reason == "tool_calls" and answer.message.content is None
    for call in answer.message.tool_calls or []:
        assert call.type == "function" and call.function.name == "weather"
        jsonschema.validate(json.loads(call.function.arguments), SCHEMA)
    alone = client.chat.completions.create(
        model=served.model, messages=ASK, parallel_tool_calls=False, **more
    ).choices[0]
    assert len(alone.message.tool_calls or []) == 1
    assert answer.message.tool_calls
    with client.chat.completions.stream(model=served.model, messages=ASK, **more) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls" and not streamed.message.content
    assert [call.function.arguments for call in streamed.message.tool_calls or []] == [
        call.function.arguments for call in answer.message.tool_calls if call.type == "function"
    ]


def test_a_result_is_answered(client: OpenAI, served: Serving) -> None:
    more: Any = {"model": served.model, "tools": [WEATHER, CLOCK], "max_tokens": 80}
    called = client.chat.completions.create(messages=ASK, tool_choice=NAMED, **more).choices[0].message
    calls = called.tool_calls or []
    results: list[Any] = [{"role": "tool", "tool_call_id": c.id, "content": "21 degrees"} for c in calls]
    talk: list[Any] = [*ASK, called.to_dict(), *results]
    answer = client.chat.completions.create(messages=talk, tool_choice="none", **more).choices[0]
    assert answer.message.content and answer.message.tool_calls is None


def test_what_is_no_tool_is_refused(client: OpenAI, served: Serving) -> None:
    for tools, choice, word in (
        ([{"type": "web_search"}], "auto", "web_search"),
        ([{"type": "function", "function": {"name": "a b", "parameters": SCHEMA}}], "auto", "a b"),
        ([{"type": "function", "function": {"name": "f", "parametres": SCHEMA}}], "auto", "parametres"),
        ([WEATHER, WEATHER], "auto", "weather"),
        ([WEATHER], "always", "always"),
        ([WEATHER], {"type": "function", "function": {"name": "clock"}}, "clock"),
        ([], "required", "required"),
    ):
        status, body = served.ask(CHAT, {"messages": ASK, "tools": tools, "tool_choice": choice})
        assert status == 400 and word in body["error"]["message"], body
    with pytest.raises(openai.BadRequestError, match="parallel_tool_calls"):
        client.chat.completions.create(
            model=served.model, messages=ASK, tools=[WEATHER], extra_body={"parallel_tool_calls": 1}
        )
    lone: Any = [*ASK, {"role": "tool", "tool_call_id": "x", "content": "21"}]
    assert served.ask(CHAT, {"messages": lone})[0] == 400
