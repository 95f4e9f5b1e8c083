"""A store: a folder, a bucket or a web server that fsspec can reach, with the operations that syncing needs.

A write is whole or absent. In a folder it is a temporary file and a rename; an object store writes whole
objects; in other file systems a temporary name is moved to its place.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnidraft.errors import OmnidraftError, SettingError, SyncError, install, reason
from omnidraft.runtime.disk.atomic_write import write_atomically

TransferProgress = Callable[[str, int, int], None]  # name of the file, bytes done, bytes in total
_OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "az", "adl", "oci", "oss", "tos", "hf", "memory"}
_READ_ONLY = {"http", "https"}
_CHUNK = 1 << 18


class Store:
    """A directory in a file system of fsspec.

    Attributes:
        shown: its address for messages, without a password.
    """

    def __init__(self, fs: Any, root: str, shown: str) -> None:
        self._fs, self._root, self.shown = fs, root.rstrip("/"), shown
        protocol = fs.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)

    def read(self, name: str, most: int, progress: TransferProgress | None = None, of: int = 0) -> bytes:
        """The bytes of a file.

        Args:
            name: of the file.
            most: bytes at most.
            progress: called after each chunk.
            of: expected bytes, for the progress.

        Raises:
            SyncError: `missing`, `too_large` or `unreachable`.
        """
        chunks, done = [], 0
        with self._telling(name), self._fs.open(self._path(name), "rb") as file:
            while chunk := file.read(min(_CHUNK, most + 1 - done)):
                chunks.append(chunk)
                done += len(chunk)
                if done > most:
                    raise SyncError(
                        f"{short(name)} in {self.shown} has more than {most} bytes",
                        "ask its publisher",
                        fault="too_large",
                    )
                if progress:
                    progress(name.rpartition("/")[2], done, max(of, done))
        return b"".join(chunks)

    def write(self, name: str, data: bytes, *, new: bool = False) -> None:
        """Write a file, whole or not at all.

        Args:
            name: of the file.
            data: its bytes.
            new: refuse to replace a file.

        Raises:
            SyncError: `taken`, `read_only` or `unreachable`.
        """
        if self._protocols & _READ_ONLY:
            raise SyncError(
                f"{self.shown} can only be read from",
                "push and publish to the folder or bucket behind it",
                fault="read_only",
            )
        if new and self.size(name) is not None:
            raise self._taken(name)
        path = self._path(name)
        with self._telling(name):
            if self._protocols & {"file", "local"}:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(Path(path), data, shared=True)
            elif self._protocols & _OBJECTS:
                try:
                    self._fs.pipe_file(path, data, **({"mode": "create"} if new else {}))
                except FileExistsError:
                    raise self._taken(name) from None
            else:
                parent, _, last = path.rpartition("/")
                self._fs.makedirs(parent, exist_ok=True)
                temporary = f"{parent}/.{last}.{secrets.token_hex(8)}.tmp"
                self._fs.pipe_file(temporary, data)
                self._fs.mv(temporary, path)

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty where the folder is absent.

        Raises:
            SyncError: `unreachable`.
        """
        self._fs.invalidate_cache()
        try:
            with self._telling(folder):
                paths = self._fs.ls(self._path(folder), detail=False)
        except SyncError as error:
            if error.fault == "missing":
                return []
            raise
        return sorted({str(each).rstrip("/").rpartition("/")[2] for each in paths} - {""})

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where the file is absent.

        Raises:
            SyncError: `unreachable`.
        """
        self._fs.invalidate_cache()
        try:
            with self._telling(name):
                size = self._fs.info(self._path(name))["size"]
        except SyncError as error:
            if error.fault == "missing":
                return None
            raise
        return -1 if size is None else int(size)

    def delete(self, name: str) -> None:
        """Remove a file, if it exists.

        Raises:
            SyncError: `unreachable`.
        """
        try:
            with self._telling(name):
                self._fs.rm_file(self._path(name))
        except SyncError as error:
            if error.fault != "missing":
                raise

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _taken(self, name: str) -> SyncError:
        return SyncError(
            f"{short(name)} is in {self.shown} already",
            "another release was published meanwhile, try again",
            fault="taken",
        )

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Turn the exceptions of a file system into `SyncError`."""
        try:
            yield
        except OmnidraftError:
            raise
        except FileNotFoundError as error:
            hidden = error.__cause__  # over HTTP fsspec reports every failure as an absent file
            if hidden is not None and getattr(hidden, "status", None) != 404:
                raise self._unreachable(name, hidden) from None
            raise SyncError(
                f"{self.shown} has no {short(name)}", "check its address, or ask who runs it", fault="missing"
            ) from None
        except Exception as error:  # the file systems behind fsspec share no narrower base
            raise self._unreachable(name, error) from None

    def _unreachable(self, name: str, error: BaseException) -> SyncError:
        return SyncError(
            f"{short(name)} in {self.shown} cannot be reached ({_reason(error)})",
            "try again",
            fault="unreachable",
        )


def open_store(address: str) -> Store:
    """Open a store.

    Args:
        address: a path, or a URL of a file system of fsspec.

    Raises:
        SettingError: fsspec or a package for this address is not installed, or the address is not valid.
    """
    if find_spec("fsspec") is None:
        raise SettingError("syncing needs the package fsspec", install("sync"))
    from fsspec.core import url_to_fs

    shown = re.sub(r"//[^/@]*@", "//", address)
    try:
        fs, root = url_to_fs(address)
    except ImportError as error:
        raise SettingError(f"{shown} needs a package that is not installed ({_reason(error)})") from None
    except Exception as error:  # likewise
        raise SettingError(
            f"{shown} is not a store ({_reason(error)})", "give a folder, or a URL such as s3://bucket/place"
        ) from None
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if protocols & {"file", "local"} and Path(root).is_file():
        raise SettingError(
            f"{shown} is a file and not a store", "give a folder, or a URL such as s3://bucket/place"
        )
    return Store(fs, str(root), shown)


def short(name: str) -> str:
    """A name for messages, with the first 12 digits of each SHA-256."""
    return re.sub("[0-9a-f]{64}", lambda match: match[0][:12], name)


def _reason(error: BaseException) -> str:
    """Why a store cannot be reached, in the system's words where it has some; aiohttp wraps them."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, OSError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0)
    return short(reason(error))
