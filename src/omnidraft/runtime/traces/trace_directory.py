"""The directory of a trace: one writer at a time, a bound, and deletion of nothing but traces."""

import contextlib
import os
from pathlib import Path

from omnidraft.errors import ClaimError, TraceFileError, refusing
from omnidraft.runtime.disk.atomic_write import remove_leftovers
from omnidraft.runtime.disk.claim import claim
from omnidraft.runtime.disk.read_file import read_file
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import HEADER_BYTES, MAGIC, decode_header
from omnidraft.runtime.traces.trace_reader import segments_of


def wipe(path: str | Path) -> int:
    """Delete a trace, one segment or those of a directory; return the number of deleted files.

    Raises:
        TraceFileError: the path is not a trace, a session is recording in it, or it cannot be deleted.
    """
    path = Path(path)
    with refusing(TraceFileError, f"{path} cannot be wiped", "check the path", "unwritable"):
        if not path.is_dir():
            if not path.is_file() or not _is_trace(path):
                raise TraceFileError(
                    f"{path} is not a trace, so it stays", "check the path", fault="not_a_trace"
                )
            path.unlink()
            return 1
        if not any(_is_trace(segment) for segment in segments_of(path)):
            raise TraceFileError(f"{path} holds no trace, so it stays", "check the path", fault="not_a_trace")
        handle = claim_for_recording(path)
        try:
            count = remove_segments(path)
        finally:
            os.close(handle)
        with contextlib.suppress(OSError):  # the directory has other files
            path.rmdir()
        return count


def remove_segments(path: Path) -> int:
    """Delete the segments in a directory and the leftovers of their writers; return the number of files."""
    count = 0
    for segment in segments_of(path):
        if _is_trace(segment):
            segment.unlink()
            count += 1 + remove_leftovers(segment)
    return count


def claim_for_recording(path: Path) -> int:
    """Claim a directory for this process; see `claim`.

    Raises:
        TraceFileError: `in_use`.
        OSError: the directory cannot be made or written.
    """
    try:
        return claim(path)
    except ClaimError:
        raise TraceFileError(
            f"a session is recording in {path}",
            "end it, share its store, or choose another place",
            fault="in_use",
        ) from None


def check_segment(path: Path, vocabularies: Vocabularies) -> None:
    """Refuse to record beside a segment of other vocabularies or versions; a damaged segment is skipped."""
    try:
        vocabularies.check(decode_header(read_file(path, HEADER_BYTES)).vocabularies)
    except TraceFileError as error:
        if error.fault in ("foreign_vocabulary", "version"):
            raise TraceFileError(
                f"no trace can be recorded in {path.parent}: of {path.name}, {error}",
                "choose another place for this pair of models",
                fault=error.fault,
            ) from None


def evict(path: Path, room: int) -> None:
    """Delete the oldest segments until the segments together have at most `room` bytes."""
    sizes = [(segment, segment.stat().st_size) for segment in segments_of(path)]
    total = sum(size for _, size in sizes)
    for segment, size in sizes:
        if total <= room:
            return
        segment.unlink()
        total -= size


def _is_trace(path: Path) -> bool:
    return read_file(path, len(MAGIC)) == MAGIC
