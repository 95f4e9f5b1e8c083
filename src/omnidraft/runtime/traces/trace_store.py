"""A trace on disk: a directory of segments, of which the oldest goes when there is no more room.

Segments are only appended to, in one write a round; a process that is killed loses the round that it was in,
and a machine that loses its power the rounds since the last flush.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from omnidraft.errors import SettingError, TraceFileError
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_file
from omnidraft.runtime.traces.trace import Start, TracedRound, Vocabularies
from omnidraft.runtime.traces.trace_directory import (
    check_segment,
    claim_for_recording,
    evict,
    remove_segments,
)
from omnidraft.runtime.traces.trace_file import (
    HEADER_BYTES,
    START,
    Frame,
    TraceHeader,
    decode_header,
    encode_frame,
    encode_header,
    scan,
)
from omnidraft.runtime.traces.trace_reader import name_of, number_of, segments_of

MAX_BYTES = 16 << 20
LEAST_BYTES = 1 << 20
SEGMENTS = 8  # that a full store has
SYNC_ROUNDS = 32  # between two flushes to the disk within a generation


@dataclass(frozen=True)
class SegmentPlace:
    """Where a record goes on: the segment, and the record's number in it."""

    segment: int
    record: int


class TraceStore:
    """Records generations in a directory; nothing is ever sent anywhere.

    One process and one store at a time record in a directory; any number of sessions and threads may share
    the store.

    Attributes:
        path: the directory. vocabularies: what the ids are of. max_bytes: of all segments together.
        problem: why recording stopped by itself, in one sentence; None while it works.
    """

    def __init__(self, path: str | Path, vocabularies: Vocabularies, *, max_bytes: int = MAX_BYTES) -> None:
        """Open a directory, or make one that is its owner's alone.

        Raises:
            TraceFileError: `in_use`, `unwritable`, `version`, or `foreign_vocabulary` (another pair's).
            SettingError: a bound that leaves no room.
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
        try:
            self._handles.append(claim_for_recording(self.path))
            self._go_on()
        except OSError as error:
            self.close()
            raise TraceFileError(
                f"no trace can be recorded in {path} ({error.strerror})",
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
        """Flush what was recorded, and let others record here."""
        with self._lock:
            with contextlib.suppress(OSError):
                self._sync()
            self._close()
            self._handles.clear()

    def wipe(self) -> int:
        """Delete all that was recorded here, and nothing else; return how many files went.

        Raises:
            TraceFileError: `unwritable`.
        """
        with self._lock:
            self._leave_segment()
            return remove_segments(self.path)

    def append(
        self, found: TracedRound, start: Callable[[], Start], at: SegmentPlace | None
    ) -> SegmentPlace | None:
        """Record a round. A disk that is full stops the recording, never the generation.

        Args:
            found: the round. start: how a record that begins with it begins; asked only where one does.
            at: what this returned for the round before; None to begin a record.
        """
        with self._lock:
            if not self.is_recording:
                return None
            try:
                return self._append(found, start, at)
            except OSError as error:
                self._leave_segment()
                self.problem = f"recording stopped: {self.path} cannot be written ({error.strerror})"
                return None

    def sync(self) -> None:
        """Flush what was recorded to the disk; at the end of a generation."""
        with self._lock:
            try:
                self._sync()
            except OSError as error:
                self.problem = f"recording stopped: {self.path} cannot be flushed ({error.strerror})"

    def _append(
        self, found: TracedRound, start: Callable[[], Start], at: SegmentPlace | None
    ) -> SegmentPlace | None:
        if at is not None and at.segment == self._segment:
            data = encode_frame(Frame(at.record, found), self.vocabularies)
            if self._size + len(data) <= self._segment_bytes:
                self._write(data)
                return at
        begun = start() if at is None else replace(start(), continues=True)
        data = self._record(begun, found)
        if not self._segment or self._size + len(data) > self._segment_bytes:
            if HEADER_BYTES + len(data) > self._segment_bytes:
                return None  # larger than a segment: no round of a real model is
            self._new_segment()
            data = self._record(begun, found)  # numbered from 0 again
        self._write(data)
        self._records += 1
        return SegmentPlace(self._segment, self._records - 1)

    def _record(self, start: Start, found: TracedRound) -> bytes:
        """A new record and its first round."""
        frames = (Frame(self._records, start), Frame(self._records, found))
        return b"".join(encode_frame(frame, self.vocabularies) for frame in frames)

    @property
    def _segment_bytes(self) -> int:
        return self.max_bytes // SEGMENTS

    def _write(self, data: bytes) -> None:
        """Append in one write; what a full disk took of it is cut off again."""
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
        if self._unsynced and len(self._handles) > 1:
            os.fsync(self._handles[1])
        self._unsynced = 0

    def _new_segment(self) -> None:
        """Begin a segment; the oldest go, so that all of them with this one full keep the bound."""
        self._sync()
        last = max([self._segment, *(number_of(p) for p in segments_of(self.path))])
        self._leave_segment()
        evict(self.path, self.max_bytes - self._segment_bytes)
        data = encode_header(TraceHeader(self.vocabularies, last + 1))
        write_atomically(self.path / name_of(last + 1), data)
        self._enter(last + 1, len(data), 0)

    def _go_on(self) -> None:
        """Enter the last segment where it is whole and small enough, after looking at all of them."""
        found = segments_of(self.path)
        for segment in found:
            check_segment(segment, self.vocabularies)
        if not found:
            return
        data = read_file(found[-1])
        try:
            decode_header(data)
            ends, torn = scan(data)
        except TraceFileError:
            return  # damaged: it stays as it is, and the next one is written
        if not torn and len(data) < self._segment_bytes:
            kinds = [int.from_bytes(data[a + 4 : a + 6], "little") for a, _ in pairwise(ends)]
            self._enter(number_of(found[-1]), len(data), kinds.count(START))

    def _enter(self, number: int, size: int, records: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._handles.append(os.open(self.path / name_of(number), flags))
        self._segment, self._size, self._records = number, size, records

    def _leave_segment(self) -> None:
        for handle in self._handles[1:]:
            os.close(handle)
        del self._handles[1:]
        self._segment, self._size, self._records, self._unsynced = 0, 0, 0, 0


def _close_all(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
