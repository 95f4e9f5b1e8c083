"""A store: files by name in a folder, on a web server, or anywhere that fsspec reaches.

Nobody who can write to it is trusted. Files are signed and name their sizes, so a write that is not atomic,
as in some file systems of fsspec, is refused by its readers and repeated by its writer.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from omnidraft.errors import OmnidraftError, SettingError, SyncError, install, reason
from omnidraft.errors import shown as printable
from omnidraft.runtime.disk.atomic_write import remove_leftovers, write_atomically
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.sync.record import MOST_HEAD, Kind, Signed, read_head, read_signed

MOST_NAMES = 1 << 16  # in one folder
PATIENCE = 10.0  # seconds
LEAST_SPEED = 1 << 10  # bytes a second that a transfer must bring
_CHUNK = 1 << 16
_STALE_SECONDS = 60.0  # no write takes that long, so the writer of an older leftover was killed


class Store:
    """A place of files.

    Attributes:
        shown: its address for messages, without a password.
    """

    def __init__(self, root: str, fs: Any, patience: float = PATIENCE, shown: str | None = None) -> None:
        """
        Args:
            root: a folder, a web address, or a path in `fs`.
            fs: of fsspec; None for folders and web servers.
            patience: seconds in which a transfer must reach a least speed.
            shown: the address; `root` when None.
        """
        self._root, self._fs, self._patience = root.rstrip("/"), fs, patience
        self._is_web = fs is None and re.match("https?://", root) is not None
        self.shown = printable(shown or root)

    def read(self, name: str, kind: Kind, public_key: bytes | None) -> Signed:
        """A signed file; no more than its beginning is read before the signature is verified.

        Raises:
            SyncError: `missing`, `no_store`, `unreachable`; also those of `read_signed`.
        """
        data = bytearray()
        with self._telling(name):
            for piece in _in_time(self._patience, lambda: self._opened(name)):
                before = len(data)
                data += piece
                if before < MOST_HEAD <= len(data):
                    size = read_head(bytes(data[:MOST_HEAD]), kind, public_key).size
                if len(data) >= MOST_HEAD and len(data) > size:
                    break  # refused below by its size
        return read_signed(bytes(data), kind, public_key)

    def write(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Write a file; in a folder whole or not at all.

        Args:
            private: in a folder, only its owner may read it; else those whom the umask allows.

        Raises:
            SyncError: `read_only` or `unreachable`.
        """
        if self._is_web:
            raise SyncError(
                f"{self.shown} can only be read from",
                "write to the folder or bucket behind it",
                fault="read_only",
            )
        with self._telling(name):
            path = f"{self._root}/{name}"
            if self._fs is not None:
                _within(60.0 * self._patience, lambda: self._fs.pipe_file(path, data))
                return
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), data, shared=not private)
            remove_leftovers(Path(path), _STALE_SECONDS)

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty where it is absent. Anyone may have chosen them."""
        names: list[str] = []
        try:
            with self._telling(folder):
                names = _within(self._patience, lambda: self._listed(f"{self._root}/{folder}"))
        except SyncError as error:
            if error.fault not in ("missing", "no_store"):
                raise
        if len(names) > MOST_NAMES:
            raise SyncError(
                f"{short(folder)} in {self.shown} has more than {MOST_NAMES} names",
                "ask who runs it to clear it",
                fault="too_large",
            )
        return sorted(names)

    def _listed(self, path: str) -> list[str]:
        if self._fs is None:
            with os.scandir(path) as entries:
                return [entry.name for entry in islice(entries, MOST_NAMES + 1)]
        self._fs.invalidate_cache()
        return [str(each).rstrip("/").rpartition("/")[2] for each in self._fs.ls(path, detail=False)]

    def _opened(self, name: str) -> AbstractContextManager[Any]:
        path = f"{self._root}/{name}"
        if self._is_web:
            return _web(path, self._patience)
        return open_file(path) if self._fs is None else self._fs.open(path, "rb")

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Turn the exceptions of a file system into `SyncError`."""
        try:
            yield
        except OmnidraftError:
            raise
        except FileNotFoundError:
            if self._fs is None and not os.path.isdir(self._root):
                raise SyncError(
                    f"there is no store {self.shown}", "check its address", fault="no_store"
                ) from None
            raise SyncError(
                f"{self.shown} has no {short(name)}", "check its address, or ask who runs it", fault="missing"
            ) from None
        except Exception as error:  # the file systems behind fsspec share no narrower base
            why = (isinstance(error, OSError) and error.strerror) or short(reason(error))
            raise SyncError(
                f"{short(name)} in {self.shown} cannot be reached ({why})",
                "check the address and its permissions, or try again",
                fault="unreachable",
            ) from None


def open_store(address: str, patience: float = PATIENCE) -> Store:
    """Open a store.

    Args:
        address: a folder, a web address, or a URL of a file system of fsspec.

    Raises:
        SettingError: a package for this address is not installed, or the address is not valid.
    """
    shown = re.sub(r"//[^/@]*@", "//", address)
    if "://" not in address:
        if Path(address).exists() and not Path(address).is_dir():
            raise SettingError(f"{address} is a file and not a store", "give a folder, or a URL")
        return Store(address, None, patience)
    if re.match("https?://", address):
        if shown != address:
            raise SettingError(f"{shown} was given with a user name", "give an address without one")
        return Store(address, None, patience)
    try:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(address)
    except ImportError as error:
        raise SettingError(
            f"{shown} needs a package that is not installed ({reason(error)})", install("sync")
        ) from None
    except Exception as error:  # the file systems behind fsspec share no narrower base
        raise SettingError(
            f"{shown} is not a store ({reason(error)})", "give a folder, or a URL such as s3://bucket/place"
        ) from None
    return Store(str(root), fs, patience, shown)


def short(name: str) -> str:
    """A name for messages, with the first 12 digits of each SHA-256."""
    return re.sub("[0-9a-f]{64}", lambda match: match[0][:12], name)


class _Pieces:
    """The body of a response; a read returns what has arrived, so that a slow server is noticed."""

    def __init__(self, response: Any) -> None:
        self.read = response.read1


@contextmanager
def _web(address: str, patience: float) -> Iterator[_Pieces]:
    try:
        with urlopen(Request(address, headers={"User-Agent": "omnidraft"}), timeout=patience) as response:
            yield _Pieces(response)
    except HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise FileNotFoundError(address) from None
        raise ConnectionError(f"the server answers {error.code}") from None
    except URLError as error:
        raise (error.reason if isinstance(error.reason, OSError) else ConnectionError(error.reason)) from None


def _in_time(patience: float, opened: Callable[[], AbstractContextManager[Any]]) -> Iterator[bytes]:
    """The pieces of a file, as long as at least `LEAST_SPEED` bytes a second arrive. A thread reads them, and
    is given up where they do not.

    Raises:
        TimeoutError: they are slower.
    """
    pieces: list[bytes] = []
    ended: list[BaseException | None] = []
    wanted, arrived, stopped = threading.Semaphore(8), threading.Semaphore(0), threading.Event()

    def run() -> None:
        try:
            with opened() as file:
                while not stopped.is_set() and (piece := file.read(_CHUNK)):
                    wanted.acquire()
                    pieces.append(piece)
                    arrived.release()
            ended.append(None)
        except BaseException as error:  # raised again in the thread that waits
            ended.append(error)
        arrived.release()

    threading.Thread(target=run, daemon=True).start()
    began, count = time.monotonic(), 0
    try:
        while True:
            if not arrived.acquire(timeout=max(0.0, began + patience - time.monotonic())):
                raise TimeoutError(f"less than {LEAST_SPEED} bytes a second in {patience:g} s")
            if not pieces:
                if ended[0] is not None:
                    raise ended[0]
                return
            piece = pieces.pop(0)
            count += len(piece)
            yield piece
            wanted.release()
            if count >= LEAST_SPEED * patience:  # the next seconds begin
                began, count = time.monotonic(), 0
    finally:
        stopped.set()
        wanted.release()


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of a call, or its exception; a `TimeoutError` where it takes longer and is given up."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer in {seconds:g} s")
    return results[0]
