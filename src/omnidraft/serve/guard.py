"""What a request must have before it is looked at: the server's own name, its key, JSON of a bounded size."""

import asyncio
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidraft.runtime.disk.strict_json import parse
from omnidraft.serve.api_error import ApiError
from omnidraft.serve.metrics import Metrics

MOST_BODY = 1 << 20  # bytes
BODY_SECONDS = 20  # until a body has to be there
OPEN_PATHS = ("/", "/health")  # need no key: they tell nothing of the model
MOST_HEADERS = 1 << 14  # bytes of names and values
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Admission:
    """Who may ask.

    Attributes:
        key: that requests have to carry; None for no key.
        any_host: whether a request may name any host, such as that of a proxy with TLS. A server on a
            loopback address accepts only its names: else a web page could reach it by a name of its own that
            leads here (DNS rebinding).
        origins: of web pages that may ask, beside the server's own page.
    """

    key: str | None = None
    any_host: bool = False
    origins: Sequence[str] = ()

    def check(self, path: str, headers: Headers) -> None:
        """
        Raises:
            ApiError: the request is refused.
        """
        if sum(len(name) + len(value) for name, value in headers.raw) > MOST_HEADERS:
            raise ApiError(431, f"the headers have more than {MOST_HEADERS} bytes; send less")
        host = headers.get("host", "")
        if not self.any_host and not _LOOPBACK.fullmatch(host):
            raise ApiError(403, f"the header Host {host!r:.80} is not a name of this server; use 127.0.0.1")
        origin = headers.get("origin")
        own = [f"{scheme}://{host}" for scheme in (("http", "https") if self.any_host else ("http",))]
        if origin is not None and origin not in (*own, *self.origins):
            raise ApiError(
                403, f"pages of {origin:.80} may not ask this server; name it in origins of --config"
            )
        if self.key is not None and path not in OPEN_PATHS:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), self.key.encode()):
                raise ApiError(
                    401, "the key is missing or wrong; send Authorization: Bearer KEY", code="invalid_api_key"
                )


class RequestGuard:
    """Checks each request, counts it, and adds headers to its answer."""

    def __init__(self, app: ASGIApp, admission: Admission, metrics: Metrics, paths: Sequence[str]) -> None:
        self._app, self._admission, self._metrics, self._paths = app, admission, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        path = scope["path"]

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                self._metrics.requests[path if path in self._paths else "other", message["status"]] += 1
            await send(message)

        try:
            self._admission.check(path, Headers(scope=scope))
        except ApiError as error:
            await error_response(error)(scope, receive, sent)
            return
        await self._app(scope, receive, sent)


def error_response(error: ApiError) -> JSONResponse:
    """A refusal as an answer."""
    return JSONResponse(error.body, error.status, error.headers)


async def read_json(request: Request) -> Any:
    """The JSON of a request.

    Raises:
        ApiError: it is of another type, too large, too slow, or not JSON.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of another origin cannot send this type unasked
        raise ApiError(415, f"the Content-Type is {kind!r:.80}; send application/json")
    try:
        data = await asyncio.wait_for(_body(request), BODY_SECONDS)
    except asyncio.TimeoutError:  # another class in Python 3.10
        raise ApiError(408, f"the body was not there within {BODY_SECONDS} seconds; send it again") from None
    try:
        return await asyncio.to_thread(parse, data)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON that is read here ({error!s:.200})") from None


async def _body(request: Request) -> bytes:
    too_large = ApiError(413, f"the body has more than {MOST_BODY} bytes; send less")
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit() or len(declared) > 18 or int(declared) > MOST_BODY:
        raise too_large
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BODY:
            raise too_large
    return bytes(data)
