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
from itertools import islice
from pathlib import Path
from typing import Any

from omnidraft.errors import OmnidraftError, SettingError, SyncError, install, reason
from omnidraft.errors import shown as printable
from omnidraft.sync.transport.bounded_time import pieces, within
from omnidraft.sync.transport.folder_files import open_in_folder, remove_all_leftovers, write_in_folder
from omnidraft.sync.transport.web_files import WebFiles

TransferProgress = Callable[[str, int, int], None]  # name of the file, bytes done, bytes in total
_OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "az", "adl", "oci", "oss", "tos", "hf", "memory"}
_READ_ONLY = {"http", "https"}
_CHUNK = 1 << 18
MOST_NAMES = 1 << 16  # in one folder
PATIENCE = 10.0  # seconds


class Store:
    """A directory in a file system of fsspec.

    Attributes:
        shown: its address for messages, without a password.
    """

    def __init__(self, fs: Any, root: str, shown: str, patience: float = PATIENCE) -> None:
        """
        Args:
            fs: of fsspec, or one like it.
            root: path in it.
            shown: the address for messages.
            patience: seconds that a call may take, and in which a transfer must reach a least speed.
        """
        self._fs, self._root, self.shown, self._patience = fs, root.rstrip("/"), printable(shown), patience
        protocol = fs.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)

    @property
    def address(self) -> str:
        """What tells this store from others: the same however it was named."""
        return f"{min(self._protocols)}:{self._root}"

    def read(self, name: str, most: int, progress: TransferProgress | None = None, of: int = 0) -> bytes:
        """The bytes of a file.

        Args:
            name: of the file.
            most: bytes at most.
            progress: called after each chunk.
            of: expected bytes, for the progress.

        Raises:
            SyncError: `missing`, `too_large` or `unreachable`, also where it is a pipe or comes too slowly.
        """
        chunks, done = [], 0

        def source() -> Iterator[bytes]:
            left = most + 1
            with self._open(name) as file:
                while left and (chunk := file.read(min(_CHUNK, left))):
                    left -= len(chunk)
                    yield chunk

        with self._telling(name):
            for chunk in source() if self._is_folder else pieces(self._patience, source):
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

    def write(self, name: str, data: bytes, *, new: bool = False, private: bool = False) -> None:
        """Write a file, whole or not at all.

        Args:
            name: of the file.
            data: its bytes.
            new: refuse to replace a file, also one that another process makes at this moment.
            private: in a folder, only its owner may read it.

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
            try:
                if self._is_folder:
                    write_in_folder(Path(path), data, new=new, private=private)
                elif self._protocols & _OBJECTS:
                    self._fs.pipe_file(path, data, **({"mode": "create"} if new else {}))
                else:
                    self._write_moved(path, data, new)
            except FileExistsError:
                raise self._taken(name) from None

    def _write_moved(self, path: str, data: bytes, new: bool) -> None:
        """Write under a temporary name and move; a folder that one process can make guards a new file."""
        parent, _, last = path.rpartition("/")
        self._fs.makedirs(parent, exist_ok=True)
        guard = f"{parent}/.{last}.guard"
        if new:
            self._fs.mkdir(guard, create_parents=False)
        try:
            temporary = f"{parent}/.{last}.{secrets.token_hex(8)}.tmp"
            self._fs.pipe_file(temporary, data)
            self._fs.mv(temporary, path)
        finally:
            if new:
                self._fs.rmdir(guard)

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty where the folder is absent. Anyone may have chosen them.

        Raises:
            SyncError: `unreachable`, or `too_large` where there are more than 65,536.
        """
        try:
            with self._telling(folder):
                paths = within(self._patience, lambda: self._listed(self._path(folder)))
        except SyncError as error:
            if error.fault == "missing":
                return []
            raise
        if len(paths) > MOST_NAMES:
            raise SyncError(
                f"{short(folder)} in {self.shown} has more than {MOST_NAMES} names",
                "ask who runs it to clear it",
                fault="too_large",
            )
        return sorted({str(each).rstrip("/").rpartition("/")[2] for each in paths} - {""})

    def _listed(self, path: str) -> list[str]:
        if self._is_folder:
            with os.scandir(path) as entries:
                return [entry.name for entry in islice(entries, MOST_NAMES + 1)]
        self._fs.invalidate_cache()
        return list(self._fs.ls(path, detail=False))

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where the file is absent.

        Raises:
            SyncError: `unreachable`.
        """
        try:
            with self._telling(name):
                size = within(self._patience, lambda: self._size(self._path(name)))
        except SyncError as error:
            if error.fault == "missing":
                return None
            raise
        return -1 if size is None else int(size)

    def _size(self, path: str) -> int | None:
        self._fs.invalidate_cache()
        size: int | None = self._fs.info(path)["size"]
        return size

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

    def tidy(self, folder: str) -> None:
        """Remove the leftovers of killed writers from a folder; other kinds of store leave none."""
        if self._is_folder:
            remove_all_leftovers(Path(self._path(folder)))

    def _open(self, name: str) -> Any:
        path = self._path(name)
        return open_in_folder(path, self._root) if self._is_folder else self._fs.open(path, "rb")

    @property
    def is_absent(self) -> bool:
        """Whether it is a folder that does not exist; of other kinds of store this is not known."""
        return self._is_folder and not os.path.isdir(self._root)

    @property
    def _is_folder(self) -> bool:
        return bool(self._protocols & {"file", "local"})

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
                f"{self.shown} has no readable {short(name)}",
                "check its address, or ask who runs it",
                fault="missing",
            ) from None
        except Exception as error:  # the file systems behind fsspec share no narrower base
            raise self._unreachable(name, error) from None

    def _unreachable(self, name: str, error: BaseException) -> SyncError:
        return SyncError(
            f"{short(name)} in {self.shown} cannot be reached ({_reason(error)})",
            "try again",
            fault="unreachable",
        )


def open_store(address: str, patience: float = PATIENCE) -> Store:
    """Open a store.

    Args:
        address: a path, or a URL of a web server or of a file system of fsspec.
        patience: seconds that a call may take (see `Store`).

    Raises:
        SettingError: fsspec or a package for this address is not installed, or the address is not valid.
    """
    if find_spec("fsspec") is None:
        raise SettingError("syncing needs the package fsspec", install("sync"))
    from fsspec.core import url_to_fs

    shown = re.sub(r"//[^/@]*@", "//", address)
    if web := re.fullmatch(r"(https?://)(?:([^/@]*)@)?([^/@]+(?:/.*)?)", address):
        return Store(WebFiles(web[2], patience), web[1] + web[3], shown, patience)
    try:
        fs, root = url_to_fs(address)
    except ImportError as error:
        raise SettingError(f"{shown} needs a package that is not installed ({_reason(error)})") from None
    except Exception as error:  # the file systems behind fsspec share no narrower base
        raise SettingError(
            f"{shown} is not a store ({_reason(error)})", "give a folder, or a URL such as s3://bucket/place"
        ) from None
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if protocols & {"file", "local"} and Path(root).exists() and not Path(root).is_dir():
        raise SettingError(
            f"{shown} is a file and not a store", "give a folder, or a URL such as s3://bucket/place"
        )
    return Store(fs, str(root), shown, patience)


def short(name: str) -> str:
    """A name for messages, with the first 12 digits of each SHA-256."""
    return re.sub("[0-9a-f]{64}", lambda match: match[0][:12], name)


def _reason(error: BaseException) -> str:
    """Why a store cannot be reached, in the system's words where it has some; aiohttp wraps them."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, OSError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0)
    return short(reason(error))
