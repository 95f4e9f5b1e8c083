"""Read files from a web server, with the operations of a file system of fsspec that a store uses.

Nothing that a server sends is taken without a bound: a body is read piece by piece, a listing is cut, and
headers are bounded by http.client. The store bounds the time.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import unquote
from urllib.request import Request, urlopen

MOST_LISTING = 1 << 20  # bytes of a page that lists a folder
_LINK = re.compile(r"""href=["']([^"'/?#]{1,300})/?["']""")
_ABSENT = (404, 410)


class Body(Protocol):
    """What is read from: `read` returns at most `most` bytes, as soon as there are some."""

    def read(self, most: int) -> bytes:
        """The next bytes; none at the end."""


class _Pieces:
    """The body of a response; a read returns what has arrived, so that a slow server is noticed."""

    def __init__(self, response: object) -> None:
        self._read = response.read1  # type: ignore[attr-defined] # of http.client.HTTPResponse

    def read(self, most: int) -> bytes:
        return bytes(self._read(most))


class WebFiles:
    """Files below an address of a web server.

    Attributes:
        protocol: of fsspec; such a store can only be read from.
    """

    protocol = "http"

    def __init__(self, login: str | None, patience: float) -> None:
        """
        Args:
            login: USER:PASSWORD, sent to the server itself and not to where it redirects; None for none.
            patience: seconds without a byte after which a connection is given up.
        """
        self._login, self._patience = login, patience

    @contextmanager
    def open(self, path: str, mode: str = "rb") -> Iterator[Body]:
        """Open a file for reading."""
        with self._answer(path, "GET") as response:
            yield _Pieces(response)

    def info(self, path: str) -> dict[str, int | None]:
        """The size of a file; None where the server does not tell."""
        with self._answer(path, "HEAD") as response:
            length = response.headers.get("Content-Length", "")  # type: ignore[attr-defined]
        return {"size": int(length) if re.fullmatch("[0-9]{1,15}", length) else None}

    def ls(self, path: str, detail: bool = False) -> list[str]:
        """The names that the page of a folder links to."""
        data = b""
        with self.open(f"{path}/") as body:
            while len(data) < MOST_LISTING and (piece := body.read(MOST_LISTING - len(data))):
                data += piece
        return [unquote(name) for name in _LINK.findall(data.decode("utf-8", "replace"))]

    def invalidate_cache(self) -> None:
        """Nothing is kept."""

    @contextmanager
    def _answer(self, path: str, method: str) -> Iterator[object]:
        request = Request(path, method=method, headers={"User-Agent": "omnidraft"})
        if self._login is not None:
            token = base64.b64encode(unquote(self._login).encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            with urlopen(request, timeout=self._patience) as response:
                yield response
        except HTTPError as error:
            error.close()
            if error.code in _ABSENT:
                raise FileNotFoundError(path) from None
            raise ConnectionError(f"the server answers {error.code}") from None
        except URLError as error:
            cause = error.reason
            raise (cause if isinstance(cause, OSError) else ConnectionError(str(cause))) from None
        except HTTPException as error:  # its classes are no OSErrors, and say little
            raise ConnectionError(str(error) or type(error).__name__) from None
