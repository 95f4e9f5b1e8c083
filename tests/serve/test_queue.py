"""The queue: its limit, and places that are free where a client goes away or the server stops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from support.serving import CHAT, Gate, Serving, held, serving, until

BODY: Any = {"messages": [{"role": "user", "content": "How many legs do 3 cats have?"}]}


@pytest.fixture(scope="module")
def small(bundle: Path) -> Iterator[Serving]:
    """A server where one request may wait."""
    with serving(bundle, queue=1) as started:
        yield started


def sent(started: Serving, **more: Any) -> Any:
    """A connection with a request on its way."""
    data = json.dumps(BODY | more).encode()
    connection = started.connect()
    connection.sendall(
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n".encode()
        + data
    )
    return connection


def test_a_full_queue_refuses_with_a_time_to_retry(small: Serving) -> None:
    with ThreadPoolExecutor(1) as pool, small.client() as client:
        with held(small.worker):
            first = pool.submit(small.ask, CHAT, BODY)
            until(lambda: small.worker.waiting == 1)
            with pytest.raises(openai.RateLimitError) as error:
                client.chat.completions.create(model=small.model, **BODY)
            assert int(error.value.response.headers["retry-after"]) > 0 and error.value.code == "queue_full"
        assert first.result()[0] == 200
    assert small.ask(CHAT, BODY)[0] == 200


def test_a_client_that_goes_away_leaves_the_queue(small: Serving) -> None:
    with held(small.worker):
        for _ in range(3):  # the one place is free each time
            connection = sent(small)
            until(lambda: small.worker.waiting == 1)
            connection.close()
            until(lambda: small.worker.waiting == 0)
    assert small.ask(CHAT, BODY)[0] == 200


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_stops_where_its_client_goes_away(
    stream: bool, small: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = small.ask(CHAT, BODY)[1]["choices"]
    before = small.metric("cancelled_total"), small.metric("output_tokens_total")
    with monkeypatch.context() as patch:
        gate = Gate(30)
        patch.setattr(small.session.models, "clock", gate)
        connection = sent(small, stream=stream, max_tokens=200)
        assert gate.reached.wait(60)
        running = small.worker.running
        assert running is not None and not running.is_cancelled
        if stream:
            assert connection.recv(12) == b"HTTP/1.1 200"
        connection.close()
        until(lambda: running.is_cancelled)
        gate.go.set()
        until(lambda: small.worker.running is None)
    until(lambda: small.metric("cancelled_total") == before[0] + 1)
    assert small.metric("output_tokens_total") - before[1] < 30
    assert small.ask(CHAT, BODY)[1]["choices"] == expected


def test_a_server_that_stops_tells_the_streams_that_go_on(bundle: Path) -> None:
    gate = Gate(30)
    with serving(bundle) as started, started.client() as client, ThreadPoolExecutor(1) as pool:
        started.session.models.clock = gate

        def read() -> str:
            stream = client.chat.completions.create(model=started.model, stream=True, **BODY)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

        text = pool.submit(read)
        assert gate.reached.wait(60)
        running = started.worker.running
        started.server.should_exit = True
        until(lambda: running is not None and running.is_cancelled)
        gate.go.set()
        with pytest.raises(openai.APIError, match="the server stops"):
            text.result()
