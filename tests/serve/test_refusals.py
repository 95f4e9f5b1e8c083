"""Bodies that are refused: each names its field, in OpenAI's form, and none is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

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
def test_a_schema_is_refused_in_one_sentence(schema: Any, words: str, served: Serving) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for stream in (False, True):
        status, body = served.ask(CHAT, {"messages": HI, "response_format": form, "stream": stream})
        assert status == 400 and words in body["error"]["message"], body


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
    ):
        assert served.ask("/v1/models", headers={"Host": host})[0] == 403, host
    for host in ("localhost", f"127.0.0.1:{served.port}", "[::1]:8080"):
        assert served.ask("/v1/models", headers={"Host": host})[0] == 200, host
    own = {"Origin": f"http://127.0.0.1:{served.port}"}
    assert served.ask(CHAT, {"messages": HI}, own)[0] == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
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


def test_a_page_may_be_allowed(locked: Serving) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origin, status in (("http://app.example", 200), ("http://evil.example", 400)):
        assert locked.ask(CHAT, headers={"Origin": origin} | asked, method="OPTIONS")[0] == status
    key = {"Authorization": f"Bearer {KEY}"}
    assert locked.ask(CHAT, {"messages": HI}, key | {"Origin": "http://app.example"})[0] == 200
    assert locked.ask(CHAT, {"messages": HI}, key | {"Origin": "http://evil.example"})[0] == 403
