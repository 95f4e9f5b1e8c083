"""A bundle is made beside its final place and takes its name once it is whole; a failure leaves nothing."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from omnidraft.errors import ExportError
from omnidraft.runtime.bundle.bundle import MANIFEST


def refuse_existing(out: Path, overwrite: bool) -> None:
    """Refuse a place that holds something else, before any work is done.

    Raises:
        ExportError: naming the place and the remedy.
    """
    if not out.exists():
        return
    if not overwrite:
        raise ExportError(f"{out} exists already", "choose another place or add --overwrite")
    if not (out / MANIFEST).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} is not a bundle, so it is not overwritten", "choose another place")


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """A directory beside the final one, gone afterwards unless it was renamed."""
    work = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        work.mkdir(parents=True)
        yield work
    except (OSError, SafetensorError) as error:
        # safetensors says so in words only.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise ExportError(
                f"the disk is full while writing {out}", "free some space or choose another place"
            ) from error
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.ENOTDIR):
            raise ExportError(f"cannot write {out} ({error.strerror})", "choose another place") from error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def take_name(work: Path, out: Path) -> None:
    """Give the finished directory its final name; an older bundle goes only once the new one is whole."""
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    if out.exists():
        out.rename(old)
    work.rename(out)
    shutil.rmtree(old, ignore_errors=True)
