"""Make a directory beside its final place; it takes its name when complete, and a failure leaves nothing.

A kill leaves `.NAME.PID.tmp`, the unfinished directory, or `.NAME.PID.old`, the one that was to be replaced.
The next writer of NAME takes the old one back, or removes what was left. A directory of a running process is
claimed, so it is not taken for a leftover.
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

from safetensors import SafetensorError

from omnidraft.errors import ClaimError, ExportError, reason
from omnidraft.runtime.bundle.bundle import MANIFEST
from omnidraft.runtime.disk.claim import claim

_LOG = logging.getLogger(__name__)


def refuse_existing(out: Path, overwrite: bool) -> None:
    """Refuse a place that exists, before any work is done; what a killed process left is put right first.

    Args:
        out: the final place.
        overwrite: allow a bundle or an empty directory.

    Raises:
        ExportError: `out` exists and may not be overwritten.
    """
    recover(out)
    if not out.exists():
        return
    if not overwrite:
        raise ExportError(f"{out} exists already", "choose another place or add --overwrite")
    if not (out / MANIFEST).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} is not a bundle, so it is not overwritten", "choose another place")


def recover(out: Path) -> None:
    """Put right what killed writers of a place left, and log a sentence for each.

    Args:
        out: the final place. Where it is absent, the directory that was to be replaced gets its name back.
    """
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


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """A temporary directory beside `out`, removed at the end unless it was renamed.

    Raises:
        ExportError: the disk is full, or `out` cannot be written.
    """
    work = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        work.mkdir(parents=True)
        handle = claim(work)
    except OSError as error:  # of many kinds: /proc has no directory either
        raise ExportError(f"{out} cannot be made ({reason(error)})", "choose another place") from error
    try:
        yield work
    except (OSError, SafetensorError) as error:
        # safetensors reports a full disk only in its message.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise ExportError(
                f"the disk is full while writing {out}", "free some space or choose another place"
            ) from error
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.ENOTDIR):
            raise ExportError(f"cannot write {out} ({error.strerror})", "choose another place") from error
        raise
    finally:
        os.close(handle)
        shutil.rmtree(work, ignore_errors=True)


def take_name(work: Path, out: Path) -> None:
    """Give the complete directory its final name; an older directory is removed last."""
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    if out.exists():
        out.rename(old)
    work.rename(out)
    shutil.rmtree(old, ignore_errors=True)
