"""Bytes that no client sends: each is refused or cut off, and the server goes on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from omnidraft.serve import guard, listen
from support.serving import CHAT, COMPLETIONS, Serving, serving, until

HEAD = "Host: localhost\r\nContent-Type: application/json\r\n"
MESSAGES = b'"messages": [{"role": "user", "content": "Hi"}]'


@pytest.fixture(autouse=True)
def still_there(served: Serving) -> Iterator[None]:
    """After each attempt the server answers as before."""
    yield
    assert served.ask(CHAT, b"{%s}" % MESSAGES)[0] == 200


def answered(started: Serving, *parts: bytes) -> bytes:
    """What comes back until the server closes the connection; each part waits for an answer to the last."""
    received = bytearray()
    # It may be closed while something is on its way.
    with started.connect() as connection, suppress(ConnectionResetError, BrokenPipeError):
        for i, part in enumerate(parts):
            received += connection.recv(1 << 16) if i else b""
            connection.sendall(part)
        while chunk := connection.recv(1 << 16):
            received += chunk
    return bytes(received)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\xfe" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n" % (b"a" * (1 << 17)),
        b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * (1 << 17)),
        f"POST {CHAT} HTTP/1.1\r\n{HEAD}Content-Length: -1\r\n\r\n".encode(),
        f"POST {CHAT} HTTP/1.1\r\n{HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\n".encode(),
        f"POST {CHAT} HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(data: bytes, served: Serving) -> None:
    received = answered(served, data)
    assert not received or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 431")), received


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xef\xbb\xbf{%s}" % MESSAGES,
        b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
        rb'{"messages": [{"role": "user", "content": "\ud800"}]}',
        b'{%s, "seed": 1, "seed": 2}' % MESSAGES,
        b'{%s, "temperature": NaN}' % MESSAGES,
        b'{%s, "seed": %s}' % (MESSAGES, b"9" * 5000),
        b'{%s, "temperature": 1e999}' % MESSAGES,
        b'{%s, "metadata": %s1%s}' % (MESSAGES, b'{"a":' * 5000, b"}" * 5000),
        b"[" * 500_000,
        b'{%s, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": '
        b'{"type": "string", "pattern": "((((a{1,99}){1,99}){1,99}){1,99}){1,99}"}}}}' % MESSAGES,
    ],
)
def test_what_is_not_the_expected_json_is_refused(body: bytes, served: Serving) -> None:
    status, answer = served.ask(CHAT, body)
    assert status == 400 and answer["error"]["message"] and "Traceback" not in str(answer), answer


def test_headers_are_bounded(served: Serving) -> None:
    """Where they come whole, too."""
    for size, expected in ((guard.MOST_HEADERS - 1000, 200), (guard.MOST_HEADERS, 431)):
        assert served.ask("/health", headers={"X-Long": "a" * size})[0] == expected


def test_a_prompt_is_refused_by_its_bytes(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not encoded, which takes seconds; what may fit is encoded."""
    tokenizer, encoded = served.session.target_tokenizer, list[str]()
    encode = type(tokenizer).encode_prompt

    def encode_prompt(self: Any, *parts: str, goes_on: bool = False) -> list[int]:
        encoded.extend(parts)
        return encode(self, *parts, goes_on=goes_on)

    monkeypatch.setattr(type(tokenizer), "encode_prompt", encode_prompt)
    fitting = served.session.context_size * tokenizer.most_bytes
    hi = {"role": "user", "content": "Hi"}
    for text in ("a" * fitting, "a" * (fitting + 1)):
        for path, body in (
            (COMPLETIONS, {"prompt": text}),
            (CHAT, {"messages": [hi | {"content": text}]}),
            (CHAT, {"messages": [hi, {"role": "assistant", "content": text[4:]}, hi]}),
        ):
            encoded.clear()
            status, answer = served.ask(path, body)
            assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer
            assert bool(encoded) == (len(text) == fitting)


def test_a_body_is_bounded(served: Serving) -> None:
    """By its declared length, and where it has none."""
    large = b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n"
    path, head = CHAT.encode(), HEAD.encode()
    for size in (guard.MOST_BODY + 1, 1 << 60):
        with served.connect() as connection:  # the answer comes before the body
            connection.sendall(large % (path, head, size))
            assert connection.recv(12) == b"HTTP/1.1 413"
    start = b"POST %s HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n" % (path, head)
    chunk = b"10000\r\n%s\r\n" % (b" " * 0x10000)
    with served.connect() as connection:  # what comes behind the limit is read and forgotten
        connection.sendall(start + chunk * 40)
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_slow_body_is_refused(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    with served.connect() as connection:
        connection.sendall(f'POST {CHAT} HTTP/1.1\r\n{HEAD}Content-Length: 100\r\n\r\n{{"mess'.encode())
        assert connection.recv(12) == b"HTTP/1.1 408"
    monkeypatch.undo()


@pytest.mark.parametrize(
    "parts",
    [[b""], [b"GET / HTTP/1.1\r\nHost: local"], [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET"]],
)
def test_a_slow_header_is_cut_off(
    parts: list[bytes], served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a first request, and of one behind another."""
    # A whole request has to arrive in time, on a slow machine too.
    monkeypatch.setattr(listen, "HEADER_SECONDS", 10.0 if len(parts) == 2 else 0.2)
    received = answered(served, *parts)
    monkeypatch.undo()
    assert received.startswith(b"HTTP/1.1 200") == (len(parts) == 2)


def test_connections_are_bounded(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(listen, "HEADER_SECONDS", 120.0)
    with serving(bundle) as started:
        open_ones = [started.connect() for _ in range(3)]
        until(lambda: len(started.server.server_state.connections) == 3)
        with started.connect() as late, suppress(ConnectionResetError):
            assert late.recv(1) == b""
        open_ones.pop().close()
        until(lambda: len(started.server.server_state.connections) == 2)
        assert started.ask("/health")[0] == 200
        for connection in open_ones:
            connection.close()


def test_a_client_that_reads_nothing_is_cut_off(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "STALL_SECONDS", 0.2)
    with serving(bundle) as started, started.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        until(lambda: len(started.server.server_state.connections) == 1)
        with suppress(ConnectionResetError, BrokenPipeError):  # it may be cut off while it still sends
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000)
        until(lambda: not started.server.server_state.connections)
