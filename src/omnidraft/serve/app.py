"""The paths of the server, and how refusals of the framework are told."""

import base64
import hashlib
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from omnidraft.runtime.session.api import GenerationConfig, TextSession
from omnidraft.serve.answer_path import AnswerPath, Reader
from omnidraft.serve.answerer import Answerer
from omnidraft.serve.api_error import ApiError
from omnidraft.serve.guard import Admission, RequestGuard, error_response
from omnidraft.serve.metrics import Metrics
from omnidraft.serve.requests import read_chat, read_completion
from omnidraft.serve.worker import Worker

ANSWER_PATHS: dict[str, Reader] = {"/v1/chat/completions": read_chat, "/v1/completions": read_completion}


def model_name(bundle: Path) -> str:
    """The name by which clients ask for a bundle: that of its directory, or of a link to it."""
    return os.path.basename(os.path.abspath(bundle))


def model_app(
    session: TextSession, usual: GenerationConfig, worker: Worker, admission: Admission
) -> Starlette:
    """The application of one model, for a server of ASGI.

    Args:
        session: used by the worker alone.
        usual: the settings of what requests leave open.
    """
    name, place = model_name(session.bundle.path), session.bundle.path
    created = int((place / "manifest.json").stat().st_mtime)
    answerer, counts = Answerer(session), Metrics()
    routes = [
        *_pages(),
        *_models({"id": name, "object": "model", "created": created, "owned_by": "omnidraft"}),
        _path("/metrics", lambda: PlainTextResponse(counts.text(worker))),
    ]
    for path, read in ANSWER_PATHS.items():
        endpoint = AnswerPath(read, name, usual, answerer, worker, counts)
        routes.append(Route(path, endpoint, methods=["POST"]))
    paths = [route.path for route in routes]
    middleware = [Middleware(RequestGuard, admission=admission, metrics=counts, paths=paths)]
    if admission.origins:
        middleware.insert(0, Middleware(
            CORSMiddleware, allow_origins=[*admission.origins], allow_methods=["*"], allow_headers=["*"]
        ))  # fmt: skip
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _http_error, ApiError: _api_error, Exception: _bug},
    )
    app.router.redirect_slashes = False
    return app


def _pages() -> list[Route]:
    page = files("omnidraft.serve").joinpath("page.html").read_text(encoding="utf-8")
    headers = {"Content-Security-Policy": _policy(page)}
    return [
        _path("/", lambda: HTMLResponse(page, headers=headers)),
        _path("/health", lambda: JSONResponse({"status": "ok"})),
    ]


def _path(path: str, make: Callable[[], Response]) -> Route:
    """A path that is read; the loop's own thread makes its answer."""

    async def endpoint(_: Request) -> Response:
        return make()

    return Route(path, endpoint)


def _policy(page: str) -> str:
    """What the page may do: run its own script and style, and ask this server."""
    hashes = {}
    for tag in ("script", "style"):
        inline = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inline]
        hashes[tag] = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _models(entry: dict[str, object]) -> list[Route]:
    async def one(request: Request) -> Response:
        if request.path_params["name"] != entry["id"]:
            raise ApiError(404, f"this server has the model {entry['id']}", code="model_not_found")
        return JSONResponse(entry)

    listed = {"object": "list", "data": [entry]}
    return [_path("/v1/models", lambda: JSONResponse(listed)), Route("/v1/models/{name}", one)]


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = {404: "is not a path of this server", 405: f"does not take {request.method}"}
    sentence = what.get(error.status_code, error.detail)
    response = error_response(ApiError(error.status_code, f"{request.url.path:.80} {sentence}"))
    response.headers.update(error.headers or {})
    return response


def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


def _bug(_: Request, error: Exception) -> Response:
    return error_response(ApiError(500, "the server failed; its own output has the reason"))
