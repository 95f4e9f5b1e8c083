"""Read a regular file, or say why not: opening a pipe or a device could wait forever.

Each OSError has a `strerror` that ends a sentence beginning with "it cannot be read because".
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: str | Path) -> BinaryIO:
    """A regular file, open for reading from its beginning; the caller closes it.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: a directory, pipe, device or socket, a name that no file can have, or no permission.
    """
    try:
        check_regular(os.stat(path).st_mode)
        file = open(path, "rb", opener=_without_blocking)  # noqa: SIM115 (the caller closes it)
    except ValueError:  # a zero byte in the name
        raise OSError(errno.EINVAL, "no file can have that name") from None
    try:
        check_regular(os.fstat(file.fileno()).st_mode)  # a pipe may have taken the name meanwhile
    except OSError:
        file.close()
        raise
    return file


def read_file(path: str | Path, most: int = -1) -> bytes:
    """The bytes of a regular file.

    Args:
        most: bytes to read at most, so that a wrong file of any size fits the memory; -1 reads to the end.
    """
    with open_file(path) as file:
        return file.read(most)


def read_whole(path: str | Path, most: int) -> bytes:
    """The bytes of a regular file that has at most `most` of them; a larger one is not read.

    Raises:
        OSError: see `open_file`; or the file is larger.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size  # a read of `most` bytes would take that memory at once
        data = file.read(size + 1) if size <= most else None
    if data is None or len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes")
    return data


def check_regular(mode: int) -> None:
    """Refuse what is not a regular file.

    Raises:
        OSError: a directory, pipe, device or socket.
    """
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file")


def _without_blocking(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
