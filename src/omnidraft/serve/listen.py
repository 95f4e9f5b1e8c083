"""The server on its socket: bounds what a connection may hold, and for how long."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from omnidraft.errors import SettingError, reason
from omnidraft.serve.guard import MOST_HEADERS
from omnidraft.serve.worker import Worker

MOST_CONNECTIONS = 256
HEADER_SECONDS = 10.0  # from the first moment of a connection to a whole header
STALL_SECONDS = 60.0  # that a client may leave an answer unread
IDLE_SECONDS = 30  # between two requests
STOP_SECONDS = 5.0


class BoundedProtocol(H11Protocol):
    """A connection that is closed where its headers or its reading take too long, or there are too many."""

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._deadline = self.loop.call_later(HEADER_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # a whole header
            self._end_timers()
        elif self._deadline is None and (before is None or before.response_complete):
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timers()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_timers()

    def _end_timers(self) -> None:
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        self._deadline = self._stalled = None


class LocalServer(uvicorn.Server):
    """A server that stops the answers that go on when it is stopped itself."""

    def __init__(self, app: Starlette, worker: Worker, listening: Callable[[], None]) -> None:
        """
        Args:
            listening: called when requests are taken.
        """
        super().__init__(uvicorn.Config(
            app,
            http=BoundedProtocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=int(STOP_SECONDS),
            h11_max_incomplete_event_size=MOST_HEADERS,
        ))  # fmt: skip
        self._worker, self._listening = worker, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await asyncio.to_thread(self._worker.close, STOP_SECONDS)
        await super().shutdown(sockets)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    Raises:
        SettingError: it is not an address.
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise SettingError(f"host {host!r:.80} is not an address", "give one such as 127.0.0.1") from None


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket on an address, not listening yet.

    Args:
        port: 0 for a free one.

    Raises:
        SettingError: there is no such address here, or the port is taken.
    """
    if not 0 <= port < 1 << 16:
        raise SettingError(f"port {port} is outside 0..65535", "8080 is usual")
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        raise SettingError(
            f"port {port} of {host} cannot be used ({reason(error)})", "give another --port"
        ) from None
    return bound


def url_of(bound: socket.socket) -> str:
    """The address of a server for a browser."""
    name: Any = bound.getsockname()
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
