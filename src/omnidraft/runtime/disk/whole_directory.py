"""Write a directory so that a reader finds the old or the new one, whole, even if the writer is killed.

The new directory is made beside its final place and takes its name when it is complete. A kill leaves
`.NAME.PID.tmp`, the unfinished directory, or `.NAME.PID.old`, the one that was to be replaced. The next
writer of NAME takes the old one back, or removes what was left. A directory of a running process is claimed,
so it is not taken for a leftover.
"""

import errno
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnidraft.errors import ClaimError
from omnidraft.runtime.disk.atomic_write import sync_directory
from omnidraft.runtime.disk.claim import claim

_LOG = logging.getLogger(__name__)


@contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """A temporary directory beside `out`, removed at the end unless it was renamed.

    Raises:
        OSError: it cannot be made or locked, or `out` is the current directory or above it.
        ClaimError: another process has it.
    """
    out = settled(out)
    work = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    work.mkdir(parents=True)
    try:
        handle = claim(work)
        try:
            yield work
        finally:
            os.close(handle)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def take_name(work: Path, out: Path, *, replaces: bool = True) -> None:
    """Give the complete directory its final name; an older directory is removed last.

    Args:
        replaces: whether a directory that is there is replaced.

    Raises:
        OSError: it cannot be renamed; ENOTEMPTY or EEXIST where it is not replaced and is there.
    """
    out = settled(out)
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    if replaces and out.exists():
        out.rename(old)
    work.rename(out)
    sync_directory(out.parent)
    shutil.rmtree(old, ignore_errors=True)


def settled(out: Path) -> Path:
    """The place of a directory that will be renamed, with a name of its own: `.` and `..` have none.

    Raises:
        OSError: it is the current directory or above it, which programs and shells would be left without.
    """
    named = out.name not in ("", "..")
    place = Path(os.path.realpath(out.parent)) / out.name if named else Path(os.path.realpath(out))
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return place
    if os.path.realpath(place) in map(str, (here, *here.parents)):
        raise OSError(errno.EBUSY, "it is the current directory or above it")
    return place


def sync_tree(directory: Path) -> None:
    """Flush a directory and those in it, the innermost first; files are flushed where they are written."""
    for place, _, _ in os.walk(directory, topdown=False):
        sync_directory(Path(place))


def recover(out: Path) -> None:
    """Put right what killed writers of a place left, and log a sentence for each.

    Args:
        out: the final place. Where it is absent, the directory that was to be replaced gets its name back.

    Raises:
        OSError: it is the current directory or above it, or what was left cannot be renamed.
    """
    out = settled(out)
    if sys.platform == "win32":  # nothing tells there whether a process still uses a directory
        return
    left = [
        (place, match[1], match[2])
        for place in (out.parent.iterdir() if out.parent.is_dir() else ())
        if (match := re.fullmatch(rf"\.{re.escape(out.name)}\.([0-9]+)\.(tmp|old)", place.name))
        and place.is_dir()
        and not place.is_symlink()
    ]
    running = {pid for place, pid, kind in left if kind == "tmp" and not _is_free(place)}
    for place, pid, kind in sorted(left):
        if pid in running:
            continue
        if kind == "old" and not out.exists():
            place.rename(out)
            _LOG.warning("%s was taken back from %s, which a killed process left", out, place.name)
        else:
            shutil.rmtree(place, ignore_errors=True)
            _LOG.warning("%s was removed; a killed process left it", place)


def _is_free(place: Path) -> bool:
    try:
        os.close(claim(place))
    except (ClaimError, OSError):
        return False
    return True
