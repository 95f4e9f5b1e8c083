"""A trace in memory: generations that were recorded in this process, for who learns from them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from omnidraft.runtime.traces.trace import Start, Traced, TracedRound, Vocabularies
from omnidraft.runtime.traces.trace_file import Frame, Segment, TraceHeader, encode
from omnidraft.runtime.traces.trace_store import SegmentPlace


class TraceMemory:
    """Records generations as a `TraceStore` does, and keeps them until they are taken.

    Attributes:
        path: what stands for a directory in sentences. vocabularies: what the ids are of.
        problem: why recording stopped by itself; memory has no reason to.
    """

    def __init__(self, vocabularies: Vocabularies) -> None:
        self.path, self.vocabularies = "this process's memory", vocabularies
        self.problem: str | None = None
        self._paused = False
        self._lock = threading.Lock()
        self._starts: list[Start] = []
        self._rounds: list[list[TracedRound]] = []
        self._taken = 0  # of records, which are numbered on

    @property
    def is_recording(self) -> bool:
        """Whether rounds are recorded now."""
        return not self._paused

    def pause(self) -> None:
        """Record nothing more until `resume`; from any thread."""
        self._paused = True

    def resume(self) -> None:
        """Record again."""
        self._paused = False

    def append(
        self, found: TracedRound, start: Callable[[], Start], at: SegmentPlace | None
    ) -> SegmentPlace | None:
        """Record a round; see `TraceStore.append`."""
        with self._lock:
            if not self.is_recording:
                return None
            if at is None or at.record < self._taken:
                begun = start() if at is None else replace(start(), continues=True)
                self._starts.append(begun)
                self._rounds.append([])
                at = SegmentPlace(0, self._taken + len(self._starts) - 1)
            self._rounds[at.record - self._taken].append(found)
            return at

    def take(self) -> list[Traced]:
        """What was recorded since the last time, in the order in which it began."""
        with self._lock:
            found = [Traced(s, tuple(r)) for s, r in zip(self._starts, self._rounds, strict=True)]
            self._taken += len(found)
            self._starts, self._rounds = [], []
            return found

    def sync(self) -> None:
        """Nothing is on its way to a disk."""

    def close(self) -> None:
        """Nothing is held that others wait for."""


def segment_of(traces: list[Traced], vocabularies: Vocabularies, number: int) -> bytes:
    """Some generations as the bytes of one segment of a trace (spec/trace.md)."""
    frames: list[Frame] = []
    for record, traced in enumerate(traces):
        frames += [Frame(record, traced.start), *(Frame(record, found) for found in traced.rounds)]
    return encode(Segment(TraceHeader(vocabularies, number), tuple(frames)))
