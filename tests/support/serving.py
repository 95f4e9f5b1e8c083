"""A server in this process, on a thread of its own and a free port; and raw requests to it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from openai import OpenAI

from omnidraft import load
from omnidraft.runtime.session.api import GenerationConfig, TextSession
from omnidraft.serve.app import model_app
from omnidraft.serve.guard import Admission
from omnidraft.serve.listen import LocalServer, bound_socket
from omnidraft.serve.worker import AnswerJob, Worker

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
OPEN = Admission()
WAIT = 120  # seconds for what takes a moment, on a slow machine too


@dataclass(frozen=True)
class Serving:
    """A server that takes requests.

    Attributes:
        model: the name of its model.
    """

    port: int
    model: str
    session: TextSession
    worker: Worker
    server: LocalServer

    def client(self, key: str = "no-key-is-needed") -> OpenAI:
        return OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, max_retries=0, timeout=WAIT)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)

    def ask(
        self, path: str, body: object = None, headers: dict[str, str] | None = None, method: str = ""
    ) -> tuple[int, Any]:
        """Status and JSON of a request; a body that is bytes is sent as it is."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        usual = {} if data is None else {"Content-Type": "application/json"}
        connection.request(method or ("GET" if data is None else "POST"), path, data, usual | (headers or {}))
        with connection.getresponse() as response:
            text = response.read().decode()
        connection.close()
        return response.status, json.loads(text) if text.startswith("{") else text

    def metric(self, name: str) -> float:
        """A count of /metrics."""
        lines = str(self.ask("/metrics")[1]).splitlines()
        return float(next(line for line in lines if line.startswith(f"omnidraft_{name} ")).split()[1])


@contextmanager
def serving(
    bundle: Path, *, queue: int = 4, admission: Admission = OPEN, tokens: int = 24
) -> Iterator[Serving]:
    """A server of a bundle; everything has ended when the context is left."""
    session, worker, listening = load(bundle, measure="never"), Worker(queue), threading.Event()
    with bound_socket("127.0.0.1", 0) as bound:
        app = model_app(session, GenerationConfig(max_new_tokens=tokens), worker, admission)
        server = LocalServer(app, worker, listening.set)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            assert listening.wait(WAIT)
            yield Serving(bound.getsockname()[1], bundle.resolve().name, session, worker, server)
        finally:
            server.should_exit = True
            thread.join(WAIT)
            assert not thread.is_alive()


@contextmanager
def held(worker: Worker) -> Iterator[None]:
    """Inside, the thread that answers is busy with other work."""
    running, release = threading.Event(), threading.Event()

    def work(_: AnswerJob) -> Iterator[object]:
        running.set()
        assert release.wait(WAIT)
        yield from ()

    async def wait() -> None:
        await worker.submit(work).next()

    thread = threading.Thread(target=asyncio.run, args=(wait(),))
    thread.start()
    try:
        assert running.wait(WAIT)
        yield
    finally:
        release.set()
        thread.join(WAIT)


class Gate:
    """A clock of a session that stops its generation at one call, until it may go on."""

    def __init__(self, call: int) -> None:
        self._left, self.reached, self.go = call, threading.Event(), threading.Event()

    def __call__(self) -> float:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            assert self.go.wait(WAIT)
        return time.perf_counter()


def until(condition: Callable[[], bool]) -> None:
    """Wait for what has to happen soon."""
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
