"""Files of a store in a folder that several processes write to: exclusive creation, and leftovers."""

import contextlib
import errno
import os
import re
import secrets
import time
from pathlib import Path
from typing import BinaryIO

from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import open_file

_LEFT = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_STALE_SECONDS = 60.0  # no write takes that long, so the writer of an older leftover was killed

# What someone else can do to a name in a folder: a pipe, no permission, a link to itself, a file as a folder.
_NO_FILE = {errno.EINVAL, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG}


def open_in_folder(path: str, root: str) -> BinaryIO:
    """Open a file for reading; what someone else put under its name counts as an absent file.

    Args:
        path: the file.
        root: the folder of the store.

    Raises:
        FileNotFoundError: the store's folder exists, and the file does not or cannot be read.
        OSError: the folder cannot be read.
    """
    try:
        return open_file(path)
    except OSError as error:
        if error.errno in _NO_FILE and os.path.isdir(root):
            raise FileNotFoundError(path) from None
        raise


def write_in_folder(path: Path, data: bytes, *, new: bool, private: bool) -> None:
    """Write a file, whole or not at all, and the folders that it is in.

    Args:
        path: the file.
        data: its bytes.
        new: refuse to replace a file.
        private: only its owner may read it; else those whom the umask allows.

    Raises:
        FileExistsError: see `write_new`.
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if new:
        write_new(path, data)
    else:
        write_atomically(path, data, shared=not private)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist, whole or not at all; one of several processes succeeds.

    Raises:
        FileExistsError: there is a file, perhaps of another process that was faster.
        OSError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # unlike a rename, it fails where the name is taken
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: the name first, the bytes after it
            with open(path, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def remove_all_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed writers from a folder, whatever they were to become."""
    with contextlib.suppress(OSError):  # a file that stays only takes space
        for entry in os.scandir(folder):
            if not _LEFT.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime >= _STALE_SECONDS:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
