"""The directory of a trace: claimed by one writer, bounded, and emptied without a loss to others."""

import contextlib
import os
import sys
from pathlib import Path

from omnidraft.errors import TraceFileError
from omnidraft.runtime.disk.atomic_write import remove_leftovers
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import HEADER_BYTES, MAGIC, decode_header
from omnidraft.runtime.traces.trace_reader import segments_of

if sys.platform != "win32":  # where nothing keeps two processes out of one place
    import fcntl


def wipe(path: str | Path) -> int:
    """Delete a trace, a directory's segments or a single one, and nothing else; return how many files went.

    Raises:
        TraceFileError: no trace is there, a session is recording in it, or it cannot be deleted.
    """
    path = Path(path)
    try:
        if not path.is_dir():
            if not path.is_file() or not _is_trace(path):
                raise TraceFileError(
                    f"{path} is no trace, so it stays", "check the path", fault="not_a_trace"
                )
            path.unlink()
            return 1
        if not any(_is_trace(segment) for segment in segments_of(path)):
            raise TraceFileError(f"{path} holds no trace, so it stays", "check the path", fault="not_a_trace")
        handle = claimed(path)
        try:
            count = remove_segments(path)
        finally:
            os.close(handle)
        with contextlib.suppress(OSError):  # others' files are in it
            path.rmdir()
        return count
    except OSError as error:
        raise TraceFileError(
            f"{path} cannot be wiped ({error.strerror})", "check the path", fault="unwritable"
        ) from None


def remove_segments(path: Path) -> int:
    """Delete the segments in a directory, and what their writers left behind; return how many files went."""
    count = 0
    for segment in segments_of(path):
        if _is_trace(segment):
            segment.unlink()
            count += 1 + remove_leftovers(segment)
    return count


def claimed(path: Path) -> int:
    """An open handle of a directory that nobody else claims until it is closed; made where it is absent.

    Raises:
        TraceFileError: `in_use`.
        OSError: it cannot be made or written.
    """
    if path.exists() and not path.is_dir():
        raise OSError(20, "it is no directory")
    path.mkdir(mode=0o700, exist_ok=True)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise OSError(13, "the directory may not be read and written")
    if sys.platform == "win32":
        return os.open(os.devnull, os.O_RDONLY)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise TraceFileError(
            f"a session is recording in {path}",
            "end it, share its store, or choose another place",
            fault="in_use",
        ) from None
    return handle


def check_segment(path: Path, vocabularies: Vocabularies) -> None:
    """Refuse a place with a segment of other vocabularies or versions; damaged ones are passed by."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
    try:
        vocabularies.check(decode_header(head).vocabularies)
    except TraceFileError as error:
        if error.fault in ("foreign_vocabulary", "version"):
            raise TraceFileError(
                f"no trace can be recorded in {path.parent}: of {path.name}, {error}",
                "choose another place for this pair of models",
                fault=error.fault,
            ) from None


def evict(path: Path, room: int) -> None:
    """Delete the oldest segments until all together have no more than that many bytes."""
    sizes = [(segment, segment.stat().st_size) for segment in segments_of(path)]
    total = sum(size for _, size in sizes)
    for segment, size in sizes:
        if total <= room:
            return
        segment.unlink()
        total -= size


def _is_trace(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
