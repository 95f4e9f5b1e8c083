"""Bodies that are refused: each names its field, in OpenAI's form, and none is ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from omnidraft.grammar import compile_grammar, response_format
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.serve.guard import Admission
from support.serving import CHAT, COMPLETIONS, Serving, serving

HI: Any = [{"role": "user", "content": "Hi"}]
KEY = "a-key-of-some-length"
CHATS: dict[str, Any] = {
    "n": {"n": 2},
    "logit_bias": {"logit_bias": {"5": 10}},
    "top_logprobs": {"logprobs": True, "top_logprobs": 3},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "reasoning_effort": {"reasoning_effort": "low"},
    "tempratur": {"tempratur": 0.5},
    "temperature": {"temperature": "warm"},
    "top_p": {"top_p": 2},
    "max_tokens": {"max_tokens": 1.5},
    "seed": {"seed": -1},
    "top_k": {"top_k": 10**30},
    "stop": {"stop": [1]},
    "stream": {"stream": "yes"},
    "stream_options": {"stream_options": {"include_usage": True}},
    "mode": {"mode": "paper"},
    "response_format.type": {"response_format": {"type": "xml"}},
    "response_format.json_schema": {"response_format": {"type": "json_schema"}},
    "messages.0.role": {"messages": [{"role": "critic", "content": "Hi"}]},
    "messages.0.content": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    "messages.0.name": {"messages": [{"role": "user", "content": "Hi", "name": "Ann"}]},
    "messages": {"messages": "Hi"},
}


@pytest.mark.parametrize("param", CHATS)
def test_a_field_is_refused_by_its_name(param: str, served: Serving) -> None:
    status, body = served.ask(CHAT, {"messages": HI} | CHATS[param])
    assert status == 400 and body["error"]["param"] == param, body
    assert param.rpartition(".")[2] in body["error"]["message"]


@pytest.mark.parametrize(
    "more", [{"echo": True}, {"best_of": 2}, {"suffix": "x"}, {"logprobs": 2}, {"prompt": ["a", "b"]}]
)
def test_a_completion_refuses_what_it_cannot_do(more: dict[str, Any], served: Serving) -> None:
    status, body = served.ask(COMPLETIONS, {"prompt": "Hi"} | more)
    assert status == 400 and body["error"]["param"] == next(iter(more)), body


def call(arguments: str = "{}") -> dict[str, Any]:
    """A message that calls a tool."""
    called = {"id": "a", "type": "function", "function": {"name": "clock", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def result(of: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": of, "content": "12:00"}


TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tools": TOOLS, "response_format": {"type": "json_object"}}, 'set tool_choice to "none"'),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "give one of them"),
        ({"top_k": 10**30}, "is not from 0 to 2147483647"),
        ({"seed": 1 << 64}, "is not from 0 to 18446744073709551615"),
        ({"messages": [*HI, call(""), result("a")]}, "'' is no JSON object"),
        ({"messages": [*HI, call("{x"), result("a")]}, "'{x' is no JSON object"),
        ({"messages": [*HI, call("[]"), result("a")]}, "'[]' is no JSON object"),
        ({"messages": [*HI, call(), result("b")]}, "messages.2.tool_call_id: 'b' is no call"),
    ],
)
def test_a_refusal_says_what_to_do(more: dict[str, Any], words: str, served: Serving) -> None:
    status, body = served.ask(CHAT, {"messages": HI} | more)
    assert status == 400 and words in body["error"]["message"], body


def test_tools_that_are_not_called_may_have_a_response_format(served: Serving) -> None:
    more = {"tools": TOOLS, "tool_choice": "none", "response_format": {"type": "json_object"}}
    status, body = served.ask(CHAT, {"messages": HI, "max_tokens": 60} | more)
    assert status == 200 and json.loads(body["choices"][0]["message"]["content"]) is not None, body


def test_harmless_fields_are_accepted(served: Serving) -> None:
    harmless = {
        "user": "me", "metadata": {"a": "b"}, "n": 1, "logit_bias": {}, "presence_penalty": 0, "store": False,
        "top_logprobs": None, "tools": None, "modalities": ["text"], "service_tier": "auto",
        "response_format": {"type": "text"},
    }  # fmt: skip
    plain = served.ask(CHAT, {"messages": HI})
    status, body = served.ask(CHAT, {"messages": HI} | harmless)
    assert status == plain[0] == 200 and body["choices"] == plain[1]["choices"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$dynamicRef": "#a"}, "$dynamicRef"),
        ({"type": "array", "minItems": 100}, "max_completion_tokens"),
        ({"$ref": "#/none"}, "none"),
    ],
)
def test_a_schema_is_refused_in_one_sentence(
    schema: Any, words: str, served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compiled once, whatever comes of it."""
    compiled, from_schema = list[Any](), compile_grammar.from_schema

    def counted(value: Any) -> Grammar:
        compiled.append(value)
        return from_schema(value)

    monkeypatch.setattr(compile_grammar, "from_schema", counted)
    monkeypatch.setattr(response_format, "_kept", {})
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for stream in (False, True):
        status, body = served.ask(CHAT, {"messages": HI, "response_format": form, "stream": stream})
        assert status == 400 and words in body["error"]["message"], body
    assert len(compiled) == 1


def test_compiled_schemas_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_format, "_kept", {})
    schemas: Any = [{"type": "string", "maxLength": length} for length in (50, 60)]
    first, second = (response_format.response_format(each) for each in schemas)
    room = max(map(response_format._size, response_format._kept.items()))
    monkeypatch.setattr(response_format, "_ROOM", room)
    assert first is not None and second is not None
    for schema, known in ((schemas[0], first), (schemas[1], second), ({"type": "null"}, None)):
        found = response_format.response_format(schema)
        assert found is not None and (known is None or found.grammar is known.grammar)
    assert len(response_format._kept) == 1


def test_paths_and_methods(served: Serving) -> None:
    for path, method, expected in (
        ("/v1/embeddings", "POST", 404),
        ("/v1/models/other", "GET", 404),
        (CHAT, "GET", 405),
        (CHAT, "DELETE", 405),
        ("/v1/models", "POST", 405),
        ("/v1/models/", "GET", 404),
        ("/../etc/passwd", "GET", 404),
    ):
        status, body = served.ask(path, method=method)
        assert status == expected and body["error"]["message"], (path, body)


def test_other_names_and_pages_are_refused(served: Serving) -> None:
    """A page of another origin cannot ask by a name of its own, with its origin, or as a form."""
    for host in (
        "evil.example",
        f"evil.example:{served.port}",
        "localhost.evil.example",
        "127.0.0.1.evil:80",
        "localhost:80@evil.com",
        "localhost:",
    ):
        assert served.ask("/v1/models", headers={"Host": host})[0] == 403, host
    for host in ("localhost", f"127.0.0.1:{served.port}", "[::1]:8080"):
        assert served.ask("/v1/models", headers={"Host": host})[0] == 200, host
    own = {"Origin": f"http://127.0.0.1:{served.port}"}
    assert served.ask(CHAT, {"messages": HI}, own)[0] == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{served.port}"):
        assert served.ask(CHAT, {"messages": HI}, {"Origin": origin})[0] == 403, origin
    assert served.ask(CHAT, {"messages": HI}, {"Content-Type": "text/plain"})[0] == 415


@pytest.fixture(scope="module")
def locked(bundle: Path) -> Iterator[Serving]:
    """A server with a key, and a page of another origin that may ask."""
    with serving(bundle, admission=Admission(KEY, origins=("http://app.example",))) as started:
        yield started


def test_a_key_is_needed_where_there_is_one(locked: Serving) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}):
        for path in ("/v1/models", "/metrics"):
            status, body = locked.ask(path, headers=headers)
            assert status == 401 and body["error"]["code"] == "invalid_api_key"
    assert locked.ask("/")[0] == locked.ask("/health")[0] == 200
    with locked.client("wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with locked.client(KEY) as client:
        answer = client.chat.completions.create(model=locked.model, messages=HI)
    assert answer.choices[0].message.content


def test_the_page_may_ask_behind_a_proxy(bundle: Path) -> None:
    """The proxy has TLS, and hands the name on."""
    with serving(bundle, admission=Admission(any_host=True)) as started:
        for origin, status in (("https://chat.example", 200), ("https://evil.example", 403)):
            named = {"Host": "chat.example", "Origin": origin}
            assert started.ask(CHAT, {"messages": HI}, named)[0] == status


def test_a_page_may_be_allowed(locked: Serving) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origin, status in (("http://app.example", 200), ("http://evil.example", 400)):
        assert locked.ask(CHAT, headers={"Origin": origin} | asked, method="OPTIONS")[0] == status
    key = {"Authorization": f"Bearer {KEY}"}
    assert locked.ask(CHAT, {"messages": HI}, key | {"Origin": "http://app.example"})[0] == 200
    assert locked.ask(CHAT, {"messages": HI}, key | {"Origin": "http://evil.example"})[0] == 403
