"""Web servers that never end, drip, redirect or answer nonsense: each ends in one sentence."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SyncError
from omnidraft.sync.store import open_store
from support.sync_world import pull_into

PATIENCE = 0.5


def drip(send: Callable[[bytes], object], begin: bytes, piece: bytes) -> None:
    send(begin)
    while True:
        send(piece)
        time.sleep(0.02)


ANSWERS: dict[str, Callable[[Callable[[bytes], object]], object]] = {
    "drips a body": lambda send: drip(send, b"HTTP/1.1 200 OK\r\nContent-Length: 1500\r\n\r\n", b"x"),
    "drips a header": lambda send: drip(send, b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "drips a status": lambda send: drip(send, b"HTTP/1.1 2", b"0"),
    "says nothing": lambda send: time.sleep(3600),
    "never ends": lambda send: drip(send, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000),
    "never ends (206)": lambda send: drip(
        send, b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\n\r\n", b"x" * 100_000
    ),
    "chunks": lambda send: drip(
        send, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5000\r\n" + b"x" * 0x5000 + b"\r\n"
    ),
    "headers without end": lambda send: drip(
        send, b"HTTP/1.1 200 OK\r\n", b"X-Y: " + b"z" * 60_000 + b"\r\n"
    ),
    "redirects to itself": lambda send: send(
        b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"
    ),
    "redirects to a file": lambda send: send(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
    "is no HTTP": lambda send: send(b"\x00\xff" * 100 + b"\r\n"),
    "fails": lambda send: send(b"HTTP/1.1 500 \x1b[31mNo\r\nContent-Length: 0\r\n\r\n"),
}


class Hostile(socketserver.BaseRequestHandler):
    """Answers every request in one way, which the server names."""

    def handle(self) -> None:
        try:
            self.request.recv(65536)
            ANSWERS[self.server.kind](self.request.sendall)  # type: ignore[attr-defined]
        except OSError:
            return  # the client has gone


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    block_on_close = False


@pytest.fixture
def hostile() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Hostile) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_server_that_never_ends_is_given_up(hostile: Server, tmp_path: Path, kind: str) -> None:
    """A pull ends; what a server sends is neither waited for nor kept without a bound."""
    hostile.kind = kind  # type: ignore[attr-defined]
    web = open_store(f"http://127.0.0.1:{hostile.server_address[1]}/s", PATIENCE)
    began = time.monotonic()
    with pytest.raises(SyncError) as caught:
        pull_into(web, tmp_path / "dir")
    assert time.monotonic() - began < 60.0, "each of a few requests waits for half a second"
    assert caught.value.fault in ("unreachable", "malformed")
    assert str(caught.value).isprintable()
