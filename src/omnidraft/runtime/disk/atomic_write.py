"""Write a file so that a reader finds the old file or the new file, whole, even if the writer is killed."""

import contextlib
import errno
import os
import secrets
import stat
import time
from pathlib import Path

from omnidraft.runtime.disk.read_file import check_regular

PRIVATE = 0o600  # the content was learned from a user's text
_LONGEST_NAME = 255 - len(f"..{'0' * 16}.tmp")  # bytes, so that the temporary name fits a directory too
_STALE_SECONDS = 60.0  # no write takes that long, so the writer of an older leftover was killed


def place_of(path: str | Path) -> Path:
    """The file that a path leads to, through links, if a file can be written or replaced there.

    Raises:
        OSError: no file can be written there; `strerror` ends a sentence that begins with "because".
    """
    path = Path(path)
    try:
        mode: int | None = os.stat(path).st_mode
    except FileNotFoundError:  # also a link to nothing, which is written through
        mode = None
    except ValueError:
        raise OSError(errno.EINVAL, "no file can have that name") from None
    place = Path(os.path.realpath(path))
    if mode is not None:
        check_regular(mode)
    if mode is not None and not os.access(place, os.R_OK | os.W_OK):
        raise OSError(errno.EACCES, "it may not be read and written")
    if not place.parent.is_dir():
        raise OSError(errno.ENOENT, f"there is no directory {place.parent}: make it first")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, f"the directory {place.parent} may not be written")
    if len(os.fsencode(place.name)) > _LONGEST_NAME:
        raise OSError(errno.ENAMETOOLONG, "its name is too long")
    return place


def write_atomically(path: Path, data: bytes, *, keep: bool = False, shared: bool = False) -> Path | None:
    """Replace a file: write a temporary one beside it, flush it to the disk, rename it, flush the directory.

    A link is written through. A new file is its owner's alone; a file that is replaced keeps its permissions.
    Leftovers of killed writers are removed; they are named `.NAME.<random>.tmp` and are harmless.

    Args:
        keep: rename the old file to a free name, `NAME.refused`, `NAME.refused-2` and so on.
        shared: a new file is as readable to others as the user's umask says.

    Returns:
        the new name of the old file; None if there is none.

    Raises:
        OSError: the disk is full, or the file cannot be written; the old file is whole.
    """
    path, kept = place_of(path), None
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        # "x": never write through a link that another program made.
        with open(temporary, "xb", opener=None if shared else _private) as file:
            if path.exists():
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode) & 0o777)
            elif not shared:
                os.chmod(temporary, PRIVATE)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if keep and path.exists():
            kept = _free_name(path)
            os.replace(path, kept)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)
    remove_leftovers(path, _STALE_SECONDS)
    return kept


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, PRIVATE)


def _free_name(path: Path) -> Path:
    """A free name beside a file; an empty file is made under it, so that no other writer takes it."""
    number = 1
    while True:
        name = path.with_name(f"{path.name}.refused" + (f"-{number}" if number > 1 else ""))
        try:
            with open(name, "x", opener=_private):
                return name
        except FileExistsError:
            number += 1


def remove_leftovers(path: Path, older_than: float = 0.0) -> int:
    """Remove the temporary files of killed writers of a path, and return their number.

    Args:
        older_than: seconds since the last change; a younger file may belong to a running writer.
    """
    count = 0
    start, end = f".{path.name}.", ".tmp"
    with contextlib.suppress(OSError):
        for file in os.scandir(path.parent):
            random = file.name[len(start) : -len(end)]
            if file.name == f"{start}{random}{end}" and len(random) == 16:
                with contextlib.suppress(OSError):
                    if time.time() - file.stat().st_mtime >= older_than:
                        os.unlink(file.path)
                        count += 1
    return count


def sync_directory(path: Path) -> None:
    """Flush a directory, so that a rename in it lasts; Windows cannot open directories and needs no flush."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; the rename itself is done
    finally:
        os.close(handle)
