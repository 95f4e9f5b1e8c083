"""A trace on disk: a directory of segments, of which the oldest is deleted to make room.

Segments are only appended to, with one write per round. A killed process loses the current round; a machine
that loses power loses the rounds since the last flush.
"""

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from omnidraft import defaults
from omnidraft.errors import SettingError, TraceFileError, reason, shown
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.traces.trace import Start, TracedRound, Vocabularies
from omnidraft.runtime.traces.trace_directory import (
    check_segment,
    claim_for_recording,
    evict,
    remove_segments,
)
from omnidraft.runtime.traces.trace_file import (
    HEADER_BYTES,
    MAX_SEGMENT_BYTES,
    START,
    Frame,
    TraceHeader,
    decode_header,
    encode_frame,
    encode_header,
    scan,
)
from omnidraft.runtime.traces.trace_reader import name_of, number_of, segments_of

MAX_BYTES = defaults.TRACE_MAX_BYTES
LEAST_BYTES = defaults.TRACE_LEAST_BYTES
SEGMENTS = defaults.TRACE_SEGMENTS  # of a full store
SYNC_ROUNDS = defaults.TRACE_SYNC_ROUNDS  # rounds between two flushes to the disk within a generation


@dataclass(frozen=True)
class SegmentPlace:
    """Where a record continues: the number of the segment, and of the record in it."""

    segment: int
    record: int


class TraceStore:
    """Records generations in a directory; nothing is sent anywhere.

    One process and one store at a time record in a directory; any number of sessions and threads may share
    the store.

    Attributes:
        max_bytes: of all segments together.
        problem: why recording stopped, in one sentence; None while it works.
    """

    def __init__(self, path: str | Path, vocabularies: Vocabularies, *, max_bytes: int = MAX_BYTES) -> None:
        """Open a directory, or make one that only its owner can read.

        Raises:
            TraceFileError: `in_use`, `unwritable`, `version`, or `foreign_vocabulary` (another pair's).
            SettingError: `max_bytes` is too small.
        """
        if max_bytes < LEAST_BYTES:
            raise SettingError(f"max_bytes {max_bytes} is less than {LEAST_BYTES}", "16 MB is usual")
        self.path, self.vocabularies, self.max_bytes = Path(path), vocabularies, max_bytes
        self.problem: str | None = None
        self._paused = False
        self._lock = threading.Lock()
        self._handles: list[int] = []  # the directory, then the segment that is written to
        self._close = weakref.finalize(self, _close_all, self._handles)
        self._segment, self._size, self._records, self._unsynced = 0, 0, 0, 0
        self._last = 0  # number of the segment before this one; records may still be at places of it
        try:
            self._handles.append(claim_for_recording(self.path))
            self._continue_last()
        except (OSError, ValueError) as error:  # ValueError: no name of a file
            self.close()
            raise TraceFileError(
                f"no trace can be recorded in {shown(str(path))} ({reason(error)})",
                "choose another place",
                fault="unwritable",
            ) from None
        except TraceFileError:
            self.close()
            raise

    @property
    def is_recording(self) -> bool:
        """Whether rounds are recorded now."""
        return not self._paused and self.problem is None and bool(self._handles)

    def pause(self) -> None:
        """Record nothing more until `resume`; from any thread."""
        self._paused = True

    def resume(self) -> None:
        """Record again."""
        self._paused = False

    def close(self) -> None:
        """Flush the records to the disk, and release the directory."""
        with self._lock:
            with contextlib.suppress(OSError):
                self._sync()
            self._close()
            self._handles.clear()

    def wipe(self) -> int:
        """Delete the records and nothing else; return the number of deleted files.

        Raises:
            TraceFileError: `unwritable`.
        """
        with self._lock:
            self._leave_segment()
            return remove_segments(self.path)

    def append(
        self, traced: TracedRound, start: Callable[[], Start], at: SegmentPlace | None
    ) -> SegmentPlace | None:
        """Record a round. A full disk stops the recording, never the generation.

        Args:
            start: makes the beginning of a record; called only if the round begins one.
            at: the value returned for the round before; None begins a record.
        """
        with self._lock:
            if not self.is_recording:
                return None
            try:
                return self._append(traced, start, at)
            except OSError as error:
                self._leave_segment()
                self.problem = f"recording stopped: {self.path} cannot be written ({error.strerror})"
                return None

    def sync(self) -> None:
        """Flush the records to the disk; called at the end of a generation."""
        with self._lock:
            try:
                self._sync()
            except OSError as error:
                self.problem = f"recording stopped: {self.path} cannot be flushed ({error.strerror})"

    def _append(
        self, traced: TracedRound, start: Callable[[], Start], at: SegmentPlace | None
    ) -> SegmentPlace | None:
        if at is not None and at.segment == self._segment:
            data = encode_frame(Frame(at.record, traced), self.vocabularies)
            if self._size + len(data) <= self._segment_bytes:
                self._write(data)
                return at
        begun = start() if at is None else replace(start(), continues=True)
        data = self._record(begun, traced)
        if not self._segment or self._size + len(data) > self._segment_bytes:
            if HEADER_BYTES + len(data) > self._segment_bytes:
                return None  # larger than a segment, which no round of a real model is
            self._new_segment()
            data = self._record(begun, traced)  # numbered from 0 again
        self._write(data)
        self._records += 1
        return SegmentPlace(self._segment, self._records - 1)

    def _record(self, start: Start, traced: TracedRound) -> bytes:
        frames = (Frame(self._records, start), Frame(self._records, traced))
        return b"".join(encode_frame(frame, self.vocabularies) for frame in frames)

    @property
    def _segment_bytes(self) -> int:
        return min(self.max_bytes // SEGMENTS, MAX_SEGMENT_BYTES)

    def _write(self, data: bytes) -> None:
        """Append with one write; the part that a full disk took is cut off again."""
        handle = self._handles[1]
        done = os.write(handle, data)
        if done < len(data):
            os.ftruncate(handle, self._size)
            raise OSError(28, "the disk is full")
        self._size += done
        self._unsynced += 1
        if self._unsynced >= SYNC_ROUNDS:
            self._sync()

    def _sync(self) -> None:
        if len(self._handles) > 1 and not os.fstat(self._handles[1]).st_nlink:
            raise OSError(errno.ENOENT, "it was deleted")
        if self._unsynced and len(self._handles) > 1:
            os.fsync(self._handles[1])
        self._unsynced = 0

    def _new_segment(self) -> None:
        """Begin a segment, and delete the oldest, so that the bound holds when the new segment is full."""
        self._sync()
        self._leave_segment()
        last = max([self._last, *(number_of(p) for p in segments_of(self.path))])
        evict(self.path, self.max_bytes - self._segment_bytes)
        data = encode_header(TraceHeader(self.vocabularies, last + 1))
        write_atomically(self.path / name_of(last + 1), data)
        self._enter(last + 1, len(data), 0)

    def _continue_last(self) -> None:
        segments = segments_of(self.path)
        for segment in segments:
            check_segment(segment, self.vocabularies)
        if not segments:
            return
        try:
            data = read_whole(segments[-1], MAX_SEGMENT_BYTES)
            decode_header(data)
            ends, torn = scan(data)
        except (TraceFileError, OSError):
            return  # damaged or too large: it stays, and a new segment is begun
        if not torn and len(data) < self._segment_bytes:
            kinds = [int.from_bytes(data[a + 4 : a + 6], "little") for a, _ in pairwise(ends)]
            self._enter(number_of(segments[-1]), len(data), kinds.count(START))

    def _enter(self, number: int, size: int, records: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._handles.append(os.open(self.path / name_of(number), flags))
        self._segment, self._size, self._records = number, size, records

    def _leave_segment(self) -> None:
        for handle in self._handles[1:]:
            os.close(handle)
        del self._handles[1:]
        self._last = self._segment or self._last
        self._segment, self._size, self._records, self._unsynced = 0, 0, 0, 0


def _close_all(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
