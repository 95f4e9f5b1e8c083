"""Whether a directory is this user's own, so that its files may be trusted and deleted."""

import os
import stat
import sys
from pathlib import Path


def is_own_directory(place: Path, *, private: bool = False) -> bool:
    """Whether a path is a directory and no link, of this user, which no other user can write.

    Args:
        private: whether other users must not be able to read it either.
    """
    try:
        status = os.lstat(place)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    if sys.platform == "win32":  # the user's own folder; modes say nothing there
        return True
    return status.st_uid == os.getuid() and status.st_mode & (0o077 if private else 0o022) == 0
