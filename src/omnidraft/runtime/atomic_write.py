"""Write a file so that a reader finds the old one or the new one, whole, whenever the writer is killed."""

import contextlib
import os
import secrets
import time
from pathlib import Path

_STALE_SECONDS = 60.0  # no write of ours takes that long, so an older leftover is of a writer that was killed


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file: write a temporary one beside it, flush it to the disk, rename it, flush the directory.

    Leftovers of writers that were killed are removed; they are named `.NAME.<random>.tmp` and are harmless.

    Raises:
        OSError: the disk is full, or the place cannot be written; the old file is whole.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        # "x": never write through a link that someone else put there.
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)
    remove_leftovers(path, _STALE_SECONDS)


def remove_leftovers(path: Path, older_than: float = 0.0) -> int:
    """Remove temporary files of killed writers of a path, and return how many.

    Args:
        path: what they were writing.
        older_than: seconds since they were last written; a younger one may belong to a writer at work.
    """
    count = 0
    start, end = f".{path.name}.", ".tmp"
    with contextlib.suppress(OSError):
        for found in os.scandir(path.parent):
            random = found.name[len(start) : -len(end)]
            if found.name == f"{start}{random}{end}" and len(random) == 16:
                with contextlib.suppress(OSError):
                    if time.time() - found.stat().st_mtime >= older_than:
                        os.unlink(found.path)
                        count += 1
    return count


def _sync_directory(path: Path) -> None:
    """Make a rename last; where directories cannot be opened (Windows) the system does it by itself."""
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
