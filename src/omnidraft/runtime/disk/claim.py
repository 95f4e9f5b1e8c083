"""Claim a directory for one process: a lock that the system drops with the process."""

import errno
import os
import sys
from pathlib import Path

from omnidraft.errors import ClaimError

if sys.platform != "win32":  # Windows: nothing keeps two processes out of one directory
    import fcntl


def claim(path: Path) -> int:
    """Claim a directory, made where it is absent, until the returned handle is closed.

    Args:
        path: the directory; its parent exists.

    Returns:
        An open handle; a process that ends, even by a kill, gives the directory back.

    Raises:
        ClaimError: another process, or another handle of this one, has the directory.
        OSError: the directory cannot be made, written or locked; `strerror` says why.
    """
    if path.exists() and not path.is_dir():
        raise OSError(errno.ENOTDIR, "it is not a directory")
    if not path.parent.is_dir():
        raise OSError(errno.ENOENT, f"there is no directory {path.parent}: make it first")
    path.mkdir(mode=0o700, exist_ok=True)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, "the directory may not be read and written")
    if sys.platform == "win32":
        return os.open(os.devnull, os.O_RDONLY)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            why = f"its file system does not lock directories: {error.strerror}"
            raise OSError(error.errno, why) from None
        raise ClaimError(
            f"{path} is in use by another process", "wait for it, or choose another directory"
        ) from None
    return handle
