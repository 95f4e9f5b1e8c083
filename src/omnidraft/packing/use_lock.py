"""Locks on files, which a process holds until it ends: many may hold one together, or one of them alone."""

import os
import sys
from pathlib import Path

if sys.platform != "win32":  # Windows: an open file cannot be replaced or deleted there
    import fcntl


def lock(path: Path, *, alone: bool, waits: bool = True) -> int:
    """Lock a file, made where it is absent.

    Args:
        alone: no other process holds it meanwhile; else all may that do not ask to be alone.

    Returns:
        An open handle, which holds the lock until it is closed.

    Raises:
        BlockingIOError: the lock is taken, and `waits` is off.
        OSError: the file cannot be made.
    """
    if sys.platform == "win32":
        return os.open(os.devnull, os.O_RDONLY)
    kind = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if waits else fcntl.LOCK_NB)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, kind)
            if _is_still_there(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # who held it alone has deleted it


def _is_still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
